package ebpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"
)

// TestNewPrograms tells of a program once.
func TestNewPrograms(t *testing.T) {
	load := func() {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "hp_test", Type: ebpf.SocketFilter, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL",
		})
		if errors.Is(err, unix.EPERM) {
			t.Skip("not supported: loading BPF programs needs root")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = prog.Close() })
	}
	var p Programs
	load()
	if !p.New() {
		t.Error("a program that was there before is not seen")
	}
	first := p.last
	load()
	if !p.New() || p.last == first {
		t.Error("a program that was loaded is not seen")
	}
}

// TestWithoutGuesses loads what a kernel gets whose verifier refuses the programs that guess. The newer variant has none.
func TestWithoutGuesses(t *testing.T) {
	o := Options{MaxFrames: 128, MemoryBytes: 64 << 20, Variant: VariantTail}
	k, err := load(zaptest.NewLogger(t), o, true)
	if errors.Is(err, unix.EPERM) {
		t.Skip("not supported: loading BPF programs needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	for place, name := range walkPrograms() {
		var id uint32
		err := k.maps["walk_programs"].Lookup(uint32(place), &id)
		if there := err == nil; there != (name == "on_cpu_next") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	o.Variant = VariantLoop
	if k, err := load(zaptest.NewLogger(t), o, true); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(k, err)
	}
}
