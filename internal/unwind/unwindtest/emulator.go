package unwindtest

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// patience bounds an answer of the emulator.
const patience = 20 * time.Second

// Emulator is an arm64 program under QEMU's user-mode emulation, controlled by GDB's remote protocol ("GDB Remote Serial
// Protocol" of GDB's manual). It ends with the test.
type Emulator struct {
	PID  int // of QEMU
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	end  func()
}

// Emulate starts a program and stops it at its first instruction. args are options of QEMU, the program and its arguments;
// env is the environment of both.
func Emulate(t testing.TB, env []string, args ...string) *Emulator {
	t.Helper()
	Need(t, "qemu-aarch64")
	socket := filepath.Join(t.TempDir(), "gdb")
	cmd := exec.Command("qemu-aarch64", append([]string{"-g", socket}, args...)...)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by a signal
	})
	t.Cleanup(end)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return &Emulator{PID: cmd.Process.Pid, t: t, conn: conn, in: bufio.NewReaderSize(conn, 1<<16), end: end}
		}
		if time.Now().After(deadline) {
			t.Fatalf("connecting to QEMU: %v", err)
		}
	}
}

// Kill ends the program and QEMU.
func (e *Emulator) Kill() { e.end() }

// Send sends a packet: $data#checksum.
func (e *Emulator) Send(packet string) {
	e.t.Helper()
	sum := byte(0)
	for _, c := range []byte(packet) {
		sum += c
	}
	_ = e.conn.SetWriteDeadline(time.Now().Add(patience)) // a failure shows below
	if _, err := fmt.Fprintf(e.conn, "$%s#%02x", packet, sum); err != nil {
		e.t.Fatalf("sending %s to QEMU: %v", packet, err)
	}
}

// Receive returns the data of the next packet, which it acknowledges.
func (e *Emulator) Receive(timeout time.Duration) (string, error) {
	_ = e.conn.SetReadDeadline(time.Now().Add(timeout)) // a failure shows below
	if _, err := e.in.ReadString('$'); err != nil {
		return "", fmt.Errorf("hearing from QEMU: %w", err)
	}
	data, err := e.in.ReadString('#')
	if err != nil {
		return "", fmt.Errorf("hearing from QEMU: %w", err)
	}
	if _, err := e.in.Discard(2); err != nil {
		return "", fmt.Errorf("hearing from QEMU: %w", err)
	}
	if _, err := e.conn.Write([]byte("+")); err != nil {
		return "", fmt.Errorf("answering QEMU: %w", err)
	}
	return strings.TrimSuffix(data, "#"), nil
}

// Ask sends a packet and returns the answer's data.
func (e *Emulator) Ask(packet string) string {
	e.t.Helper()
	e.Send(packet)
	answer, err := e.Receive(patience)
	if err != nil {
		e.t.Fatalf("%s: %v", packet, err)
	}
	return answer
}

// Read implements unwind.Memory.
func (e *Emulator) Read(a unwind.Addr, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 1024) // well below QEMU's size of packets
		got, err := hex.DecodeString(e.Ask(fmt.Sprintf("m%x,%x", uint64(a), n)))
		if err != nil || len(got) != n {
			return fmt.Errorf("reading %d bytes at %#x: not there", n, a)
		}
		copy(b, got)
		a, b = a+unwind.Addr(n), b[n:]
	}
	return nil
}

// Registers are those of the stopped thread.
func (e *Emulator) Registers() (unwind.Registers, error) {
	e.t.Helper()
	e.Send("g")
	answer, err := e.Receive(patience)
	if err != nil {
		return unwind.Registers{}, err
	}
	b, err := hex.DecodeString(strings.ReplaceAll(answer, "x", "0")) // x stands for what is not known
	if err != nil || len(b) < 33*8 {
		return unwind.Registers{}, fmt.Errorf("reading registers: QEMU answers %q", answer)
	}
	regs := unwind.Registers{Known: ^uint32(0), PC: unwind.Addr(binary.LittleEndian.Uint64(b[32*8:]))}
	for i := range 32 {
		regs.Reg[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return regs, nil
}
