package debuginfod

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// fullTest is the environment variable that asks for the long tests.
const fullTest = "HOSTPROFILES_TEST_FULL"

// TestElfutils gets the debug information of a stripped program from elfutils' server.
func TestElfutils(t *testing.T) {
	if os.Getenv(fullTest) == "" {
		t.Skipf("runs elfutils' debuginfod; set %s=1 to run it", fullTest)
	}
	dir := t.TempDir()
	url := elfutils(t, dir)
	run := func(name string, args ...string) {
		t.Helper()
		unwindtest.Need(t, name)
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "main.c"), []byte("int main(void) { return 0; }\n"), 0o600),
		os.Mkdir(filepath.Join(dir, "served"), 0o700)); err != nil {
		t.Fatal(err)
	}
	run("gcc", "-g", "-Wl,--build-id=sha1", "-o", "prog", "main.c")
	run("objcopy", "--only-keep-debug", "prog", "served/prog.debug")
	run("objcopy", "--strip-all", "prog")

	f := unwindtest.Open(t, filepath.Join(dir, "prog"))
	clock := newClock()
	c := client(t, Options{URLs: []string{url}, Now: clock.Now})
	var found *debugfile.Found
	var err error
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(300 * time.Millisecond) {
		found, err = debugfile.Find(t.Context(), f, "/prog", debugfile.Options{Fetcher: c})
		if err == nil {
			break
		}
		// It looks for files every second.
		if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		clock.add(time.Hour)
	}
	defer found.Close()
	d, err := dwarf.Open(found.Debug, found.Options)
	if err != nil || found.Source != debugfile.SourceDebuginfod {
		t.Fatalf("%v, %v", found, err)
	}
	d.Close()
	if got := c.Stats(); got.Downloads != 1 || got.Failures[wrongID]+got.Failures[truncated] != 0 {
		t.Errorf("%+v", got)
	}
	small := client(t, Options{URLs: []string{url}, MaxFile: 100})
	id, _ := f.BuildIDs()
	refused(t, small, id, tooLarge)
}

// elfutils starts a server of the files in dir/served and returns its URL.
func elfutils(t *testing.T, dir string) string {
	t.Helper()
	unwindtest.Need(t, "debuginfod")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command("debuginfod", "-F", "-p", fmt.Sprint(port), "-d", filepath.Join(dir, "index"), "-t", "1", filepath.Join(dir, "served"))
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+dir)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		if t.Failed() {
			t.Log(log.String())
		}
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(url + "/metrics")
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			return url
		}
		if time.Now().After(deadline) {
			t.Fatalf("debuginfod does not start: %v", err)
		}
	}
}
