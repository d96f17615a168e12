package ebpf

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestNewPrograms tells of a program once.
func TestNewPrograms(t *testing.T) {
	needsBPF(t)
	load := func() {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "hp_test", Type: ebpf.SocketFilter, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL",
		})
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

// TestProgramSizes has a program of a known number of instructions, each of which takes some bytes.
func TestProgramSizes(t *testing.T) {
	needsBPF(t)
	const n = 1000
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 1)}
	for range n {
		code = append(code, asm.Mul.Imm(asm.R0, 3))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "hp_sized", Type: ebpf.SocketFilter, Instructions: append(code, asm.Return()), License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	addrs, ok := info.JitedKsymAddrs()
	if !ok {
		t.Skip("not supported: the kernel tells no addresses")
	}
	lengths, _ := info.JitedFuncLens()
	size := ProgramSizes()[uint64(addrs[0])]
	if size != lengths[0] || size < 3*n || size > 16*n {
		t.Errorf("%d bytes, want %d", size, lengths[0])
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
