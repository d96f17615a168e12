package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// javas are the JDKs on the machine, by the names of their folders.
func javas(t *testing.T) map[string]string {
	t.Helper()
	unwindtest.Need(t, "java")
	unwindtest.Need(t, "javac")
	found, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range append(found, "java") {
		if path == "java" && len(all) > 0 {
			break
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		all[filepath.Base(filepath.Dir(filepath.Dir(path)))] = path
	}
	return all
}

// virtualThreads tells whether the JDK in a folder of that name has them.
func virtualThreads(folder string) bool {
	for v := 21; v < 40; v++ {
		if strings.Contains(folder, fmt.Sprint(v)) {
			return true
		}
	}
	return false
}

// TestHotspot names Java's methods, those that were inlined, too, with lines, in the right places between native frames: as the virtual machine
// runs them by itself, interpreted only, and compiled by C1 only, and in virtual threads.
func TestHotspot(t *testing.T) {
	classes := filepath.Dir(compiled(t, "Levels.class"))
	for folder, path := range javas(t) {
		for _, mode := range []struct {
			name    string
			options []string
			mode    string
		}{
			{"tiered", nil, ""},
			{"interpreted", []string{"-Xint"}, ""},
			{"C1", []string{"-XX:TieredStopAtLevel=1"}, ""},
			{"virtual", nil, "virtual"},
		} {
			if mode.mode == "virtual" && !virtualThreads(folder) || mode.name != "tiered" && !full() {
				continue
			}
			t.Run(folder+"/"+mode.name, func(t *testing.T) {
				command := append([]string{path}, mode.options...)
				command = append(command, "-XX:ActiveProcessorCount=2", "-cp", classes, "Levels")
				if mode.mode != "" {
					command = append(command, mode.mode)
				}
				runJIT(t, jitRun{
					name: folder + " " + mode.name, command: command, kind: "jvm", file: "Levels.java", named: 0.9, lines: 0.99, complete: 0.97,
					check: func(t *testing.T, samples analysis.Samples) { checkJava(t, samples, mode.mode) },
				})
			})
		}
	}
}

// javaChains are the functions behind each that burns, as far as round. The lambda's own class is not there once it is inlined.
func javaChains() map[string][]string {
	return map[string][]string{
		"Levels.hotSixty":  {"Levels.lambda$callSixty$0", "Levels.apply", "Levels.callSixty"},
		"Levels.hotThirty": {"Levels$Thirty.call", "Levels.callThirty"},
		"Levels.hotTen":    {"Levels$Ten.<init>", "Levels.callTen"},
	}
}

// javaCall is what the program's comments call a method.
func javaCall(method string) string {
	switch method {
	case "Levels.lambda$callSixty$0":
		return "callSixty's lambda"
	case "Levels$Ten.<init>":
		return "Ten's constructor"
	case "Levels$Thirty.call":
		return "Thirty.call"
	}
	return strings.TrimPrefix(method, "Levels.")
}

// checkJava wants the frames of Java from a function that burns on to be all that there should be, in order, down to main, and each to be at
// its line: that of the loop for the function itself, else one that says what it calls.
func checkJava(t *testing.T, samples analysis.Samples, mode string) {
	t.Helper()
	lines := sourceLines(t, "java/Levels.java")
	good, placed, total := 0, 0, 0
	wrong := map[string]int{}
	for _, s := range samples {
		java := slices.DeleteFunc(spread(s.User()), func(f analysis.Frame) bool { return f.Type != "jvm" })
		i := slices.IndexFunc(java, func(f analysis.Frame) bool { return strings.HasPrefix(f.Name(), "Levels.hot") })
		if i < 0 {
			continue
		}
		total += s.Count
		want := append([]string{java[i].Name()}, javaChains()[java[i].Name()]...)
		want = append(want, "Levels.round", "Levels.rounds")
		if mode == "" {
			want = append(want, "Levels.main")
		}
		got := slices.DeleteFunc(slices.Clone(java[i:]), func(f analysis.Frame) bool {
			return strings.HasPrefix(f.Name(), "Levels$$Lambda") // the object that calls the lambda's body
		})
		ok, at := len(got) >= len(want), true
		if mode == "" {
			ok = len(got) == len(want)
		}
		for n := 0; ok && n < len(want); n++ {
			ok = got[n].Name() == want[n]
			text := lines[got[n].Lines[0].Line]
			if n == 0 {
				at = at && strings.Contains(text, "of "+strings.TrimPrefix(want[0], "Levels."))
			} else {
				at = at && strings.HasSuffix(text, "// calls "+javaCall(want[n-1]))
			}
		}
		if ok {
			good += s.Count
		}
		if ok && at {
			placed += s.Count
			continue
		}
		text := ""
		for _, f := range java {
			text += fmt.Sprintf("\n\t%s:%d", f.Name(), f.Lines[0].Line)
		}
		wrong[text] += s.Count
	}
	t.Logf("%d samples, %d with the true chain, %d with lines", total, good, placed)
	atLeast(t, "samples with exactly the true chain of methods", good, total, 0.98)
	atLeast(t, "of these, those with each at its line", placed, good, 0.98)
	shown := 0
	for stack, n := range wrong {
		if shown++; shown < 6 {
			t.Logf("%d times: %s", n, stack)
		}
	}
}

// sourceLines are those of a program, from the first one on; far behind the end they are empty.
func sourceLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(source(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]string{""}, strings.Split(string(text), "\n")...), make([]string, 1<<16)...)
}
