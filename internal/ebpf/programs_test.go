package ebpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
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
