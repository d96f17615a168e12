package e2e

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// TestEdgesOfText runs programs that have copied their text to memory of their own at the same addresses: it is named and walked as
// the file's, whether the profiler saw it happen or came later. Where the memory holds anything else, nothing of the file
// is said to be there.
func TestEdgesOfText(t *testing.T) {
	moved, mapped, other := edge(t, "ownpages-mremap"), edge(t, "ownpages-mmap"), edge(t, "ownpages-other")
	early := []*workloads.Running{run(t, moved, workloads.Limits{}), run(t, mapped, workloads.Limits{})}
	s := start(t, harness.Options{Keep: ours(cache(t))})
	warmUp()
	time.Sleep(edgeCPU())
	var cpu []time.Duration
	for _, r := range early {
		cpu = append(cpu, r.Stop())
	}
	results := runAll([]workloads.Built{moved, mapped, other}, 2, 2*edgeCPU())
	time.Sleep(time.Second)
	all := stop(t, s)
	for i, r := range early {
		t.Run("before, "+r.Name, func(t *testing.T) {
			judgeOwnText(t, r.Built, all.Samples.PID(r.PID()))
			if cpu[i] == 0 {
				t.Error("it did not run")
			}
		})
	}
	for _, r := range results {
		t.Run(r.built.Name, func(t *testing.T) {
			if r.err != nil {
				t.Fatal(r.err)
			}
			samples := all.Samples.PID(r.pid)
			delivered(t, r.built.Name, samples.Count(), r.cpu)
			if r.built.Name == other.Name {
				judgeOtherText(t, r, samples)
				return
			}
			judgeOwnText(t, r.built, samples)
		})
	}
}

func judgeOwnText(t *testing.T, b workloads.Built, samples analysis.Samples) {
	t.Helper()
	samples = copied(t, samples)
	// What was sampled before the memory was compared is memory.
	settled := samples.Where(func(s analysis.Sample) bool { return !hasMapping(s, "[jit]") })
	atLeast(t, "samples from after the memory was compared", settled.Count(), samples.Count(), 0.6)
	report := analysis.Judge(b, settled)
	atLeast(t, "samples in the functions that burn", report.Covered, report.Samples, 0.9)
	atLeast(t, "stacks with the true chain of calls", report.Chains, report.Covered, 0.995)
	atLeast(t, "stacks that end at the root", report.Complete, report.Samples, 0.995)
	show(t, report)
}

func judgeOtherText(t *testing.T, r ran, samples analysis.Samples) {
	t.Helper()
	memory := samples.Where(func(s analysis.Sample) bool { return hasMapping(s, "[jit]") })
	atLeast(t, "samples in memory", memory.Count(), samples.Count(), 0.95)
	for _, name := range []string{"hot_sixty", "hot_thirty", "hot_ten", "sixty_1", "sixty_2", "sixty_3", "thirty_1", "thirty_2", "ten_1"} {
		if n := inFunction(samples, name).Count(); n > 0 {
			t.Errorf("%d samples are said to be in %s", n, name)
		}
	}
	t.Logf("%s: %d samples, %d in memory, stops %v", r.built.Name, samples.Count(), memory.Count(), stopsOf(samples))
}

// TestNodeInLargePages runs Node as it is started to have its text in large pages: its own functions are named as ever.
func TestNodeInLargePages(t *testing.T) {
	needsFull(t)
	unwindtest.Need(t, "node")
	s := start(t, harness.Options{Keep: runs("node")})
	warmUp()
	// Sorting with a comparison in JavaScript, and hashing, take their time in the runtime's own functions.
	const program = `const c = require("crypto"), end = process.cpuUsage; console.log(require("fs").readFileSync("/proc/self/maps", "utf8")
		.split("\n").filter(l => / r-xp 00000000 00:00 0 *$/.test(l.slice(l.indexOf(" ")))).length);
		const b = Buffer.alloc(1 << 16); while (end().user < 5e6) c.createHash("md5").update(b).digest();`
	cmd := command(t, "node", "--use-largepages=on", "-e", strings.ReplaceAll(program, "\n", " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("reading how much text node has in memory: %v", err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || n == 0 {
		t.Errorf("node has %q mappings with text in memory (%v)", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	all := stop(t, s)
	samples := all.Samples.PID(cmd.Process.Pid)
	own, named, memory := 0, 0, 0
	for _, sample := range samples {
		for _, f := range sample.User() {
			switch {
			case f.Mapping == "[jit]": // what V8 compiled, and the text until the memory was compared
				memory += sample.Count
			case filepath.Base(f.Mapping) == "node":
				own += sample.Count
				if f.Name() != "" {
					named += sample.Count
				}
			}
		}
	}
	t.Logf("%d samples, %d frames in node, %d of them with a name, %d in memory, stops %v", samples.Count(), own, named, memory, stopsOf(samples))
	atLeast(t, "frames of node's own that have a name", named, own, 0.95) // not all of its assembler has symbols
	hashing := inFunction(samples, "md5_block_data_order")
	if hashing.Count() == 0 {
		hashing = inFunction(samples, "ossl_md5_block_asm_data_order")
	}
	atLeast(t, "samples in OpenSSL's function", hashing.Count(), samples.Count(), 0.7)
}
