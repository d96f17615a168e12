//go:build linux && amd64

package gopclntab_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// emulator is an arm64 program under QEMU's user-mode emulation, which speaks the protocol of GDB's remote targets.
type emulator struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn net.Conn
	r    *bufio.Reader
}

func emulate(t *testing.T, path string) *emulator {
	unwindtest.Need(t, "qemu-aarch64")
	socket := filepath.Join(t.TempDir(), "gdb")
	e := &emulator{t: t, cmd: exec.Command("qemu-aarch64", "-singlestep", "-g", socket, path, "run")}
	e.cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.cmd.Process.Kill()
		e.cmd.Wait()
	})
	var err error
	for range 100 {
		if e.conn, err = net.Dial("unix", socket); err == nil {
			e.r = bufio.NewReader(e.conn)
			return e
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// send sends a packet: $data#checksum.
func (e *emulator) send(data string) {
	sum := byte(0)
	for _, c := range []byte(data) {
		sum += c
	}
	if _, err := fmt.Fprintf(e.conn, "$%s#%02x", data, sum); err != nil {
		e.t.Fatal(err)
	}
}

// receive returns the next packet.
func (e *emulator) receive() (string, error) {
	_ = e.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := e.r.ReadString('$'); err != nil {
		return "", err
	}
	data, err := e.r.ReadString('#')
	if err != nil {
		return "", err
	}
	if _, err := e.r.Discard(2); err != nil {
		return "", err
	}
	_, err = e.conn.Write([]byte("+"))
	return strings.TrimSuffix(data, "#"), err
}

func (e *emulator) ask(data string) string {
	e.send(data)
	answer, err := e.receive()
	if err != nil {
		e.t.Fatal(err)
	}
	return answer
}

// Read reads the program's memory.
func (e *emulator) Read(a unwind.Addr, b []byte) error {
	got, err := hex.DecodeString(e.ask(fmt.Sprintf("m%x,%x", uint64(a), len(b))))
	if err != nil || len(got) != len(b) {
		return errors.New("cannot read")
	}
	copy(b, got)
	return nil
}

// registers are the stopped thread's.
func (e *emulator) registers() (regs unwind.Registers, ok bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(e.ask("g"), "x", "0"))
	if err != nil || len(b) < 33*8 {
		return regs, false
	}
	for i := range 32 {
		regs.Reg[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	regs.Known = ^uint32(0)
	regs.PC = unwind.Addr(binary.LittleEndian.Uint64(b[32*8:]))
	return regs, true
}

// interrupt stops a thread that is running and returns how it stopped, nothing if there is none. The emulator may lose
// a signal that comes while it starts a thread, and then does not answer: that is the error.
func (e *emulator) interrupt() (string, error) {
	pid := e.cmd.Process.Pid
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
	return e.receive()
}

// sampleARM64 walks the stacks of a statically linked arm64 program.
func sampleARM64(t *testing.T, path string, n int) []sample {
	e := emulate(t, path)
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
	e.send("c")
	time.Sleep(2 * time.Second)
	var samples []sample
	for end := time.Now().Add(3 * time.Minute); len(samples) < n && time.Now().Before(end); {
		time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
		stop, err := e.interrupt()
		if err != nil {
			t.Logf("the emulator does not answer any more after %d stacks: %v", len(samples), err)
			break // checkStacks wants enough of them
		}
		if stop == "" {
			continue
		}
		if stop[0] != 'T' && stop[0] != 'S' {
			t.Fatalf("stopped with %q", stop)
		}
		s := sample{}
		var ok bool
		if s.regs, ok = e.registers(); ok {
			w := reference.Walker{Go: &gopclntab.Switcher{
				Offsets: o, Arch: unwind.ArchARM64, Memory: e, Leaf: s.regs,
			}}
			frames, reason := w.Walk(&s.regs, unwind.ArchARM64, e, p, nil, 1024)
			s.names, s.stop = p.names(frames), reason
			samples = append(samples, s)
		}
		e.send("c")
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
