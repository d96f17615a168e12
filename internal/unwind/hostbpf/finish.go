package hostbpf

import (
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

// Finish returns all frames of a sample, and why there are no more: what BPF found, and if it left the rest to user space,
// what the reference walker finds from there on, as the engine has it do. mem is the process's memory.
func (r *Record) Finish(s *Sample, arch unwind.Arch, code tape.Code, mem unwind.Memory, maxFrames int) (
	[]unwind.RawFrame, unwind.StopReason) {
	if !r.HasCopy {
		return r.Frames, r.StopReason()
	}
	sp := r.Registers.Reg[unwind.AMD64RSP]
	if arch == unwind.ArchARM64 {
		sp = r.Registers.Reg[unwind.ARM64SP]
	}
	w := code.Walker(arch, &s.Registers, s.ThreadPointer, mem)
	w.Old, w.Plain = r.old, r.plain
	state := reference.State{
		Regs: r.Registers, Flags: r.PendingFlags, Low: unwind.Addr(sp), Exact: r.PendingFlags&unwind.FrameReturn == 0,
		Leaf: len(r.Frames) == 0,
	}
	return w.Continue(state, arch, mem, code, r.Frames, maxFrames)
}
