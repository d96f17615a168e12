package reference

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// emulator runs a static arm64 program under QEMU's user-mode emulation and talks to its GDB stub (GDB manual, appendix
// "GDB Remote Serial Protocol").
type emulator struct {
	*unwindtest.Emulator
	t   *testing.T
	img *image
	lo  unwind.Addr // the code
	hi  unwind.Addr

	stack []byte
	base  unwind.Addr
}

func emulate(t *testing.T, path string) *emulator {
	e := &emulator{Emulator: unwindtest.Emulate(t, os.Environ(), "-cpu", "max", path), t: t}
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if e.img, err = (images{}).load(path, r, st.Size()); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.img.segments {
		if s.Exec {
			e.lo, e.hi = unwind.Addr(s.VAddr), unwind.Addr(uint64(s.VAddr)+s.MemSize)
		}
	}
	return e
}

// Read implements unwind.Memory.
func (e *emulator) Read(a unwind.Addr, b []byte) error {
	if d := uint64(a - e.base); a >= e.base && d < uint64(len(e.stack)) && uint64(len(b)) <= uint64(len(e.stack))-d {
		copy(b, e.stack[d:])
		return nil
	}
	return e.Emulator.Read(a, b)
}

// Find implements Lookup.
func (e *emulator) Find(a unwind.Addr) (Code, unwind.StopReason, bool) {
	if a < e.lo || a >= e.hi {
		return Code{}, unwind.StopNoMapping, false
	}
	return Code{Table: e.img.table}, 0, true
}

func (e *emulator) registers() *unwind.Registers {
	r, err := e.Registers()
	if err != nil {
		e.t.Fatal(err)
	}
	sp := r.Reg[unwind.ARM64SP]
	e.base = unwind.Addr(sp)
	if e.stack, err = hex.DecodeString(e.Ask(fmt.Sprintf("m%x,%x", sp, 512))); err != nil {
		e.stack = nil
	}
	return &r
}

// TestEveryInstructionARM64 does for arm64, emulated, what TestEveryInstruction does: it follows the calls that the
// program makes and compares each walk with them.
func TestEveryInstructionARM64(t *testing.T) {
	for _, c := range []struct {
		name, compiler string
		args           []string
	}{
		{"gcc", "aarch64-linux-gnu-gcc", []string{"-O2", "-static"}},
		{"signed", "aarch64-linux-gnu-gcc", []string{"-O2", "-static", "-mbranch-protection=standard"}},
		{"noCFI", "aarch64-linux-gnu-gcc", []string{"-O2", "-static", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}},
		// Not clang: before LLVM 15 its rules for arm64 did not hold inside prologues and epilogues.
	} {
		t.Run(c.name, func(t *testing.T) {
			unwindtest.Need(t, c.compiler)
			whole := build(t, c.compiler, "sample.c", c.args...)
			path := whole + ".stripped"
			if b, err := exec.Command("aarch64-linux-gnu-strip", "-o", path, whole).CombinedOutput(); err != nil {
				t.Fatalf("strip: %v\n%s", err, b)
			}
			emulated(t, path, whole, 8*time.Second)
		})
	}
}

// armCall is a call that has not yet returned.
type armCall struct{ ra, sp uint64 }

func emulated(t *testing.T, path, symbols string, limit time.Duration) {
	e := emulate(t, path)
	main := symbolValue(t, symbols, "main")
	e.Ask(fmt.Sprintf("Z0,%x,4", main))
	e.Ask("c")
	e.Ask(fmt.Sprintf("z0,%x,4", main))
	r := e.registers()
	if uint64(r.PC) != main {
		t.Fatalf("stopped at %#x, not at main", uint64(r.PC))
	}
	var w Walker
	first, stop := w.Walk(r, unwind.ArchARM64, e, e, nil, 100)
	if stop != unwind.StopRoot {
		t.Fatalf("the walk from main stops: %v", stop)
	}
	outer := first[1:]
	calls := []armCall{{}}
	steps, guesses, longjmp, failures := 0, 0, 0, 0
	for end := time.Now().Add(limit); time.Now().Before(end) && failures < 5; steps++ {
		before := r
		if answer := e.Ask("s"); !strings.HasPrefix(answer, "T") && !strings.HasPrefix(answer, "S") {
			break // the program has ended
		}
		r = e.registers()
		pc, sp := uint64(r.PC), r.Reg[unwind.ARM64SP]
		at := before.PC
		if word(e, at) == 0xd4000001 && r.PC != at+4 {
			at += 4 // one step takes a system call and the instruction behind it
		}
		if w := word(e, at); w>>26 == 0x25 || w&0xfffffc1f == 0xd63f0000 { // bl, blr
			calls = append(calls, armCall{uint64(at) + 4, sp})
		}
		jumped := inLongjmp(e, before.PC) && !inLongjmp(e, r.PC)
		for n := len(calls) - 1; n > 0 && (calls[n].sp < sp || calls[n].sp == sp && (calls[n].ra == pc || jumped)); n-- {
			calls = calls[:n]
		}
		if pc == first[1].A && sp >= before.Reg[unwind.ARM64SP] && len(calls) == 1 {
			break // main has returned
		}
		want := []unwind.RawFrame{{A: pc}}
		for _, c := range slices.Backward(calls[1:]) {
			want = append(want, unwind.RawFrame{A: c.ra, Flags: unwind.FrameReturn})
		}
		want = append(want, outer...)
		got, stop := w.Walk(r, unwind.ArchARM64, e, e, nil, 100)
		if stop == unwind.StopRoot && slices.Equal(got, want) {
			continue
		}
		if inLongjmp(e, r.PC) {
			longjmp++
			continue
		}
		if slices.ContainsFunc(want, func(f unwind.RawFrame) bool {
			return e.img.table.Lookup(unwind.FileAddr(f.LookupAddr())).CFA == unwind.CFANone
		}) {
			guesses++
			continue
		}
		failures++
		t.Errorf("step %d: %v: %s\n got %x\nwant %x", steps, stop, e.img.table.Lookup(unwind.FileAddr(pc)), got, want)
	}
	t.Logf("%d steps, %d in code without rules, %d in longjmp", steps, guesses, longjmp)
	if steps < 1000 || guesses > 100 || longjmp > 40 {
		t.Errorf("%d steps, %d in code without rules", steps, guesses)
	}
}

// inLongjmp tells whether a lies in glibc's longjmp, whose rules say that the CFA is where the registers are kept.
func inLongjmp(e *emulator, a unwind.Addr) bool {
	r := e.img.table.Lookup(unwind.FileAddr(a))
	return r.CFA == unwind.CFAReg && r.Reg == 0
}

// word is the instruction at a, 0 if it cannot be read.
func word(e *emulator, a unwind.Addr) uint32 {
	var b [4]byte
	if e.Read(a, b[:]) != nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b[:])
}

func symbolValue(t *testing.T, path, name string) uint64 {
	t.Helper()
	for _, s := range unwindtest.Symbols(t, path) {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}
