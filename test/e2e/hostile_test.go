package e2e

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// Programs that spend their time in native code, so that they survive for a while what is done to their runtime's memory.
const (
	nativePython = `
import hashlib
def spend():
    while True:
        hashlib.pbkdf2_hmac('sha256', b'x' * 32, b'y' * 32, 100000)
class Holder(object):
    def run(self):
        return list(map(lambda _: spend(), [1]))
print('READY', flush=True)
Holder().run()
`
	nativeNode = `
const crypto = require('crypto');
function spend() { for (;;) crypto.pbkdf2Sync('x', 'y', 100000, 32, 'sha256'); }
class Holder { run() { return [1].map(() => spend()); } }
console.log('READY');
new Holder().run();
`
)

// victim is a process whose memory is written to, and started again when that has killed it.
type victim struct {
	command []string
	writes  int
	lives   map[int]int64 // when the first word of a process was changed, Unix time in ns
}

// walked counts frames of a runtime in samples of a victim that were taken after its memory was written to, and of these samples those that
// do not look as they should: stacks that ended early, and frames without a name.
func (v *victim) walked(samples analysis.Samples, kind string) (frames, odd int) {
	for _, s := range samples {
		if written, ok := v.lives[s.PID]; !ok || int64(s.Last) < written {
			continue
		}
		bad := s.StopReason != ""
		for _, f := range s.User() {
			if f.Type == kind {
				frames += s.Count
				bad = bad || f.Name() == ""
			}
		}
		if bad {
			odd += s.Count
		}
	}
	return frames, odd
}

// TestHostileRuntimes profiles processes of each runtime in whose memory words change places all the time: frames, objects and tables form
// cycles, lead anywhere, and change while they are read. What else runs is profiled as ever.
func TestHostileRuntimes(t *testing.T) {
	unwindtest.Need(t, "python3")
	unwindtest.Need(t, "java")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	node := unwindtest.Node(t)
	const forever = "1000"
	duration := 10 * time.Second
	if full() {
		duration = time.Minute
	}
	for kind, commands := range map[string][][]string{
		"cpython": {{"python3", file("native.py", nativePython)}, {"python3", source(t, "python/threeway.py"), forever}},
		"v8js":    {{node, file("native.js", nativeNode)}, {node, source(t, "js/levels.js"), forever}},
		"jvm": {
			{"java", "-Xmx256m", "-cp", filepath.Dir(compiled(t, "Native.class")), "Native"},
			{"java", "-Xmx256m", "-cp", filepath.Dir(compiled(t, "Levels.class")), "Levels", forever},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			honest := build(t, "c")
			s := start(t, harness.Options{})
			warmUp()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			until := time.Now().Add(duration)
			var wg sync.WaitGroup
			victims := make([]victim, len(commands))
			for i, command := range commands {
				v := &victims[i]
				v.command, v.lives = command, map[int]int64{}
				wg.Go(func() {
					runtime.LockOSThread() // the children die with their parent's thread
					defer runtime.UnlockOSThread()
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					for time.Now().Before(until) {
						if err := v.live(t, random, until); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			r := run(t, honest, workloads.Limits{CPU: duration / 4})
			result, err := r.Wait()
			if err != nil {
				t.Error(err)
			}
			wg.Wait()
			m, err := s.Metrics()
			if err != nil {
				t.Fatal(err)
			}
			all := stop(t, s)
			frames, odd := 0, 0
			for _, v := range victims {
				f, o := v.walked(all.Samples, kind)
				t.Logf("%s: %d lives, %d writes, then %d frames of the runtime's, %d odd samples", strings.Join(v.command, " "), len(v.lives), v.writes, f, o)
				frames, odd = frames+f, odd+o
			}
			t.Logf("errors of runtimes: %v, of symbols: %v", m.Sum("runtime_errors"), m.Sum("symbol_errors"))
			if frames < 100 || odd == 0 {
				t.Errorf("%d frames of the runtime's were found where memory had been written to, and %d samples were odd", frames, odd)
			}
			if lost := m.Sum("samples_lost"); lost != 0 {
				t.Errorf("%v samples were lost", lost)
			}
			report := analysis.Judge(honest, all.Samples.PID(r.PID()))
			delivered(t, "the program beside", report.Samples, result.CPU)
			atLeast(t, "its stacks that are complete", report.Complete, report.Samples, 0.995)
			atLeast(t, "its samples with the true callers", report.Chains, report.Covered, 0.995)
		})
	}
}

// live is a life of the victim.
func (v *victim) live(t *testing.T, random *rand.Rand, until time.Time) error {
	cmd := command(t, v.command[0], v.command[1:]...)
	cmd.Dir = t.TempDir() // a core, or what Java writes when it dies
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "READY\n" {
		return fmt.Errorf("%s says %q instead of READY (%w)", v.command[0], line, errors.Join(err))
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond) // more or less is known of it by then
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid), os.O_RDWR, 0)
	if err != nil {
		return nil // it is gone
	}
	defer memory.Close()
	for time.Now().Before(until) {
		places := writable(cmd.Process.Pid)
		if len(places) == 0 {
			return nil
		}
		if _, ok := v.lives[cmd.Process.Pid]; !ok {
			v.lives[cmd.Process.Pid] = time.Now().UnixNano()
		}
		for range 50 {
			n, err := swap(memory, places, random)
			if v.writes += n; err != nil {
				return nil
			}
		}
		time.Sleep(200 * time.Microsecond)
	}
	return nil
}

// writable are the private mappings of a process that it may write to: from and to. The stack comes twice, as often as all the rest.
func writable(pid int) (places [][2]int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	var stack [][2]int64
	for line := range strings.Lines(string(text)) {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || !strings.HasPrefix(rights, "rw") || !strings.HasSuffix(rights, "p") {
			continue
		}
		places = append(places, [2]int64{from, to})
		if strings.Contains(line, "[stack]") {
			stack = append(stack, [2]int64{max(from, to-(32<<10)), to})
		}
	}
	for n := len(places); len(stack) > 0 && n > 0; n-- {
		places = append(places, stack[0])
	}
	return places
}

// swap has two words of a process's memory change places, or one take the place of the other.
func swap(memory *os.File, places [][2]int64, random *rand.Rand) (writes int, err error) {
	var at [2]int64
	var words [2][8]byte
	for i := range at {
		p := places[random.IntN(len(places))]
		// memory that is used lies near the ends of what is mapped more often than in the middle
		size := (p[1] - p[0]) / 8
		offset := random.Int64N(size) >> random.IntN(12)
		if at[i] = p[0] + 8*offset; random.IntN(2) == 0 {
			at[i] = p[1] - 8*(offset+1)
		}
		if _, err := memory.ReadAt(words[i][:], at[i]); err != nil {
			return writes, err
		}
	}
	if random.IntN(4) == 0 { // near to what was meant
		binary.NativeEndian.PutUint64(words[1][:], binary.NativeEndian.Uint64(words[1][:])+uint64(random.IntN(256))-128)
	}
	for i := range 1 + random.IntN(2) {
		if _, err := memory.WriteAt(words[1-i][:], at[i]); err != nil {
			return writes, err
		}
		writes++
	}
	return writes, nil
}
