package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
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
			select {
			case c.chains <- strings.Join(chain, ";"):
			default:
			}
		}
	}
	return nil
}

func TestInlinedLines(t *testing.T) {
	needsBPF(t)
	unwindtest.Need(t, "gcc")
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "program.c"), filepath.Join(dir, "program")
	if err := os.WriteFile(src, []byte(inlined), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-g", "-O2", "-o", bin, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	c := &lineSink{t, cmd.Process.Pid, make(chan string, 1<<16)}
	e, err := New(testConfig(), zaptest.NewLogger(t), c.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	seen := map[string]int{}
	for whole := 0; whole < 20; {
		select {
		case chain := <-c.chains:
			seen[chain]++
			if strings.HasPrefix(chain, "hot program.c:") && strings.HasSuffix(chain, ";middle program.c:8;main program.c:12") {
				whole++
			}
		case <-deadline:
			t.Fatalf("no lines: %v", seen)
		}
	}
	t.Log(seen)
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
