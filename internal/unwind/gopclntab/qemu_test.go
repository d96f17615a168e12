//go:build linux && amd64

package gopclntab_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// interrupt stops a thread that is running and returns how it stopped, nothing if there is none. The emulator may lose
// a signal that comes while it starts a thread, and then does not answer: that is the error.
func interrupt(e *unwindtest.Emulator) (string, error) {
	pid := e.PID
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var running []int
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok && rest[0] == 'R' {
			running = append(running, tid)
		}
	}
	if len(running) == 0 {
		return "", nil
	}
	tid := running[rand.IntN(len(running))]
	if _, _, err := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(tid), uintptr(syscall.SIGUSR2)); err != 0 {
		return "", nil
	}
	return e.Receive(10 * time.Second)
}

// sampleARM64 walks the stacks of a statically linked arm64 program; it starts it again when the emulator gives up.
func sampleARM64(t *testing.T, path string, n int) []sample {
	p := &process{t: t}
	img := p.load(path, unwind.Mapping{})
	for _, s := range img.file.Segments {
		if s.Exec {
			p.maps = append(p.maps, mapped{path: path, image: img, Mapping: unwind.Mapping{
				Start: unwind.Addr(s.VAddr), End: unwind.Addr(uint64(s.VAddr) + s.FileSize), Offset: s.Offset,
			}})
		}
	}
	o, err := img.goTab.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for end := time.Now().Add(3 * time.Minute); len(samples) < n && time.Now().Before(end); {
		samples = append(samples, sampleOnce(t, p, o, path, n-len(samples), end)...)
	}
	return samples
}

// sampleOnce takes up to n stacks, fewer if the emulator does not answer any more, or not what it is asked for: it takes a
// signal amiss that comes while it starts a thread.
func sampleOnce(t *testing.T, p *process, o gopclntab.Offsets, path string, n int, end time.Time) []sample {
	env := append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	e := unwindtest.Emulate(t, env, "-singlestep", path, "run")
	defer e.Kill()
	e.Send("c")
	time.Sleep(2 * time.Second)
	var samples []sample
	for len(samples) < n && time.Now().Before(end) {
		time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
		stop, err := interrupt(e)
		if err != nil {
			t.Logf("the emulator does not answer any more after %d stacks: %v", len(samples), err)
			break
		}
		if stop == "" {
			continue
		}
		if stop[0] != 'T' && stop[0] != 'S' {
			t.Logf("the emulator answers %q after %d stacks: a packet too many came before", stop, len(samples))
			break
		}
		regs, err := e.Registers()
		if err != nil {
			t.Logf("the emulator gives no registers after %d stacks: %v", len(samples), err)
			break
		}
		w := reference.Walker{Go: &gopclntab.Switcher{Offsets: o, Arch: unwind.ArchARM64, Memory: e, Leaf: regs}}
		frames, reason := w.Walk(&regs, unwind.ArchARM64, e, p, nil, 1024)
		samples = append(samples, sample{names: p.names(frames), stop: reason, regs: regs})
		e.Send("c")
	}
	return samples
}

// TestLiveARM64 walks the stacks of running arm64 programs.
func TestLiveARM64(t *testing.T) {
	for _, v := range gopclntab.Versions(t) {
		t.Run(v+"/plain", func(t *testing.T) {
			samples := sampleARM64(t, gopclntab.ARM64(v, false).Run(t), 1500)
			checkStacks(t, samples, 0.99)
			checkOrder(t, samples, "main.deeper", "main.recursion.func1", "runtime.goexit")
			checkOrder(t, samples, "main.clock", "main.main.func1", "runtime.goexit")
			checkGrowth(t, samples)
			checkOrder(t, samples, "runtime.mallocgc", "runtime.goexit")
		})
		t.Run(v+"/cgo", func(t *testing.T) {
			unwindtest.Need(t, "aarch64-linux-gnu-gcc")
			testCgo(t, sampleARM64(t, gopclntab.ARM64(v, true).Run(t), 1500), "prog")
		})
	}
}
