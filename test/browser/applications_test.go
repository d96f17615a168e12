package browser

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/mix"
)

// pictureSpan is how long each application runs for its picture.
const pictureSpan = 8 * time.Second

// TestApplications shows applications in Python, JavaScript and Java as people run them: the function that does what they are asked for has
// its share on the page, and there are pictures to look at.
func TestApplications(t *testing.T) {
	profiles(t)
	full := os.Getenv("HOSTPROFILES_TEST_FULL") != "" // else one of them, whose needs every test run has
	if full {
		if err := mix.Modules(); err != nil {
			t.Fatal(err)
		}
	}
	c := startCollector(t, "hostprofiles")
	dir, err := os.MkdirTemp("", "hostprofiles-pictures") // which every user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	python := ""
	if full {
		path, err := filepath.EvalSymlinks("/usr/bin/python3")
		if err != nil {
			t.Fatal(err)
		}
		python = filepath.Base(path)
	}
	all := mix.Applications()
	for _, a := range []struct {
		name, process, function string
		share                   float64 // of the process, at least
	}{
		{"Django in gunicorn", python, "items", 0.5},
		{"Django in uwsgi", "uwsgi-core", "items", 0.5},
		{"asyncio", python, "body", 0.3},
		{"numpy", python, "rounds", 0.7},
		{"express", "node", "/server.js", 0.1},
		{"tsc", "node", "checkSourceFile", 0.2},
		{"javac", "javac", "com.sun.tools.javac.main.JavaCompiler.compile", 0.25}, // beside its own compilers
		{"netty", "java", "Server.body", 0.2},
	} {
		if !full && a.name != "javac" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(p mix.Program) bool { return p.Name == a.name })
			if i < 0 {
				t.Fatal("there is no such application")
			}
			work, err := mix.Prepare(t.Context(), all[i], dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := work.Run(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			from := time.Now()
			if err := work.Run(context.WithoutCancel(t.Context()), pictureSpan); err != nil {
				t.Fatal(err)
			}
			to := time.Now()
			c.await(t, "the last samples", func() error { return c.quiet(a.process) })
			var seen struct {
				Processes []string
				Found     string
			}
			drive(t, c, "picture", map[string]any{
				"from": from.UnixMilli(), "to": to.UnixMilli(), "process": a.process, "function": a.function,
			}, &seen)
			if share := percent(t, seen.Found); share < 100*a.share {
				t.Errorf("%s has %q, want %.0f %%", a.function, seen.Found, 100*a.share)
			}
		})
	}
}
