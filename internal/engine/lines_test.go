package engine

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// inlined disappears into main, level by level.
const inlined = `
volatile unsigned long sink;
static inline __attribute__((always_inline)) void hot(int n) {
	for (int i = 0; i < n; i++)
		sink += i;
}
static inline __attribute__((always_inline)) void middle(int n) {
	hot(n);
}
int main(void) {
	for (;;)
		middle(100000);
}
`

// lineSink notes the chains of one process's leaves, "function:line;...".
type lineSink struct {
	t      *testing.T
	pid    int
	chains chan string
}

func (c *lineSink) sink(_ context.Context, p pprofile.Profiles, _ int) error {
	if err := conformance.Check(p); err != nil {
		c.t.Error(err)
	}
	d := p.Dictionary()
	name := func(i int32) string { return d.StringTable().At(int(i)) }
	for _, rp := range p.ResourceProfiles().All() {
		if pid, _ := rp.Resource().Attributes().Get("process.pid"); pid.Int() != int64(c.pid) {
			continue
		}
		for _, s := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			stack := d.StackTable().At(int(s.StackIndex())).LocationIndices()
			var chain []string
			for _, line := range d.LocationTable().At(int(stack.At(0))).Lines().All() {
				f := d.FunctionTable().At(int(line.FunctionIndex()))
				chain = append(chain, name(f.NameStrindex())+" "+filepath.Base(name(f.FilenameStrindex()))+":"+strconv.FormatInt(line.Line(), 10))
			}
			if len(chain) == 0 {
				for _, a := range d.LocationTable().At(int(stack.At(0))).AttributeIndices().All() {
					if at := d.AttributeTable().At(int(a)); name(at.KeyStrindex()) == profile.AttrMappingFile {
						chain = append(chain, at.Value().Str())
					}
				}
			}
			select {
			case c.chains <- strings.Join(chain, ";"):
			default:
			}
		}
	}
	return nil
}

// startProgram starts a program that the test's end kills.
func startProgram(t *testing.T, bin string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(bin, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd
}

// awaitChains profiles until enough leaves of a process are as they should be.
func awaitChains(t *testing.T, cfg Config, pid int, good func(chain string) bool) {
	t.Helper()
	c := &lineSink{t, pid, make(chan string, 1<<16)}
	e, err := New(cfg, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), c.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(3 * time.Minute)
	seen := map[string]int{}
	for n := 0; n < 10; {
		select {
		case chain := <-c.chains:
			seen[chain]++
			if good(chain) {
				n++
			}
		case <-deadline:
			t.Fatalf("seen: %v", seen)
		}
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("debug information: %v, %d errors; from servers %v", e.Stats().DebugInfo, e.Stats().DebugErrors, e.Stats().Debuginfod)
}

// inlinedChain tells whether the leaf has all levels of the program that was inlined into main.
func inlinedChain(chain string) bool {
	return strings.HasPrefix(chain, "hot program.c:") && strings.HasSuffix(chain, ";middle program.c:8;main program.c:12")
}

// compileInlined makes the program with debug information.
func compileInlined(t *testing.T) (bin string) {
	t.Helper()
	unwindtest.Need(t, "gcc", "objcopy")
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "program.c"), filepath.Join(dir, "program")
	if err := os.WriteFile(src, []byte(inlined), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-g", "-O2", "-Wl,--build-id", "-o", bin, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func TestInlinedLines(t *testing.T) {
	needsBPF(t)
	cmd := startProgram(t, compileInlined(t))
	awaitChains(t, testConfig(), cmd.Process.Pid, inlinedChain)
}

// TestFetchedLines has a stripped program, whose debug information only a server has.
func TestFetchedLines(t *testing.T) {
	needsBPF(t)
	bin := compileInlined(t)
	id, _ := unwindtest.Open(t, bin).BuildIDs()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r) // other programs of this machine
			return
		}
		asked.Add(1)
		http.ServeFile(w, r, bin+".debug")
	}))
	defer server.Close()
	cmd := exec.Command("sh", "-ec", `objcopy --only-keep-debug "$0" "$0.debug"; objcopy --strip-all "$0"`, bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cfg := testConfig()
	cfg.Debuginfod = &debuginfod.Options{URLs: []string{server.URL}, Dir: t.TempDir()}
	awaitChains(t, cfg, startProgram(t, bin).Process.Pid, inlinedChain)
	if asked.Load() != 1 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
}

// jit writes a function to memory and says where: with -late after a while.
const jit = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#if defined(__x86_64__)
static const unsigned char code[] = { 0xb9, 0x00, 0x00, 0x10, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
#else
static const unsigned int code[] = { 0x52a00200, 0x71000400, 0x54ffffe1, 0xd65f03c0 };
#endif
int main(int argc, char **argv)
{
	char name[64];
	char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(at, code, sizeof code);
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(at, at + 4096);
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	for (int i = 0;; i++) {
		if (argc > 1 && i == 2000) {
			FILE *f = fopen(name, "w");
			fprintf(f, "%lx %lx %s\n", (long)at, (long)sizeof code, argv[1]);
			fclose(f);
		}
		((void (*)(void))at)();
	}
}
`

// TestJITNames has a program that says what its code is after it has run for a while, and one that does not.
func TestJITNames(t *testing.T) {
	needsBPF(t)
	bin := compile(t, jit)
	t.Run("perf map", func(t *testing.T) {
		cmd := startProgram(t, bin, "LazyCompile:*hot /srv/app.js:12:3")
		t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid)) })
		awaitChains(t, testConfig(), cmd.Process.Pid, func(chain string) bool { return chain == "hot app.js:0" })
	})
	t.Run("none", func(t *testing.T) {
		awaitChains(t, testConfig(), startProgram(t, bin).Process.Pid, func(chain string) bool { return chain == "[jit]" })
	})
}
