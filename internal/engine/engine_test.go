package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

func testConfig() Config {
	return Config{
		OnCPUEnabled: true, OnCPUFrequency: 997, ReportInterval: time.Second, MaxFrames: 1024, Symbolize: true,
		MemoryBytes: 256 << 20, PayloadBytes: 4_000_000,
	}
}

func needsBPF(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not supported: loading BPF programs needs root")
	}
}

const burner = `
volatile unsigned long sink;
__attribute__((noinline)) void hot(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void middle(int n) { hot(n); sink++; }
__attribute__((noinline)) void outer(int n) { middle(n); sink++; }
int main(void) { for (;;) outer(100000); }
`

// compile makes a program without frame pointers and tail calls.
func compile(t testing.TB, source string) (bin string) {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "program.c")
	bin = filepath.Join(dir, "program")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", bin, src)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// collected is what a test's sink got.
type collected struct {
	t       *testing.T
	stacks  map[int64]map[string]int // by pid: functions from the leaf to the root
	stopped map[string]int           // samples of all processes with a stop reason: reason and innermost functions
	samples int
}

func (c *collected) sink(_ context.Context, p pprofile.Profiles, samples int) error {
	if err := conformance.Check(p); err != nil {
		c.t.Error(err)
	}
	d := p.Dictionary()
	name := func(i int32) string { return d.StringTable().At(int(i)) }
	n := 0
	for _, rp := range p.ResourceProfiles().All() {
		v, _ := rp.Resource().Attributes().Get("process.pid")
		pid := v.Int()
		if c.stacks[pid] == nil {
			c.stacks[pid] = map[string]int{}
		}
		for _, sp := range rp.ScopeProfiles().All() {
			for _, pr := range sp.Profiles().All() {
				for _, s := range pr.Samples().All() {
					n += s.TimestampsUnixNano().Len()
					var frames []string
					for _, l := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
						loc := d.LocationTable().At(int(l))
						if loc.Lines().Len() == 0 {
							frames = append(frames, "?")
						}
						for _, line := range loc.Lines().All() {
							frames = append(frames, name(d.FunctionTable().At(int(line.FunctionIndex())).NameStrindex()))
						}
					}
					for _, a := range s.AttributeIndices().All() {
						at := d.AttributeTable().At(int(a))
						if name(at.KeyStrindex()) == "hostprofiles.stack.stop_reason" {
							frames = append(frames, "!"+at.Value().Str())
							c.stopped[at.Value().Str()+" "+frames[max(0, len(frames)-4)]+" "+frames[max(0, len(frames)-3)]+" "+frames[max(0, len(frames)-2)]] += s.TimestampsUnixNano().Len()
						}
					}
					c.stacks[pid][strings.Join(frames, ";")] += s.TimestampsUnixNano().Len()
				}
			}
		}
	}
	if n != samples {
		c.t.Errorf("payload has %d samples, not %d", n, samples)
	}
	c.samples += n
	return nil
}

func TestEngine(t *testing.T) {
	needsBPF(t)
	bin := compile(t, burner)
	c := &collected{t: t, stacks: map[int64]map[string]int{}, stopped: map[string]int{}}
	e, err := New(testConfig(), zaptest.NewLogger(t), c.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	cmd.Process.Kill()
	cmd.Wait()
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}

	s := e.Stats()
	t.Logf("%+v", s)
	lost := uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	if s.Taken != s.Delivered+lost || lost != 0 || s.Delivered != uint64(c.samples) {
		t.Errorf("taken %d, delivered %d, lost %d, received %d", s.Taken, s.Delivered, lost, c.samples)
	}
	pid := int64(cmd.Process.Pid)
	total, good := 0, 0
	for stack, n := range c.stacks[pid] {
		total += n
		if strings.Contains(stack, "hot;middle;outer;main;") && strings.HasSuffix(stack, ";_start") {
			good += n
		} else {
			t.Logf("%d %s", n, stack)
		}
	}
	for what, n := range c.stopped {
		if n > 3 {
			t.Logf("%d stopped: %s", n, what)
		}
	}
	want := int(997 * used.Seconds())
	if total < want*97/100 || good < total*97/100 {
		t.Errorf("%d of %d stacks of the workload, which used %v, are as they should be", good, total, used)
	}
}
