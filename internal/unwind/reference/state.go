package reference

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// State is where a walk stands: before the frame with these registers. A walk that BPF began is continued from one, and one
// that lacks something is kept as one.
type State struct {
	Regs   unwind.Registers
	Flags  unwind.FrameFlags // of Regs.PC
	Low    unwind.Addr       // the frame's stack pointer, or a lower bound of it
	Exact  bool              // the registers are those that the CPU had there
	Leaf   bool              // it is the first frame
	Pushed bool              // it is among the frames found
	lost   lost

	searches int
}

// State tells where the last walk stopped.
func (w *Walker) State() State {
	return State{Regs: w.regs, Flags: w.flags, Low: w.low, Exact: w.exact, Leaf: w.leaf, Pushed: w.pushed,
		lost: w.lost, searches: w.searches}
}

// Continue is Walk from another frame than the leaf on.
func (w *Walker) Continue(s State, arch unwind.Arch, mem unwind.Memory, lookup Lookup, dst []unwind.RawFrame, max int) (
	[]unwind.RawFrame, unwind.StopReason) {
	w.arch, w.mem, w.lookup = arch, mem, lookup
	w.regs, w.flags, w.low, w.exact, w.leaf, w.pushed = s.Regs, s.Flags, s.Low, s.Exact, s.Leaf, s.Pushed
	w.lost, w.searches = s.lost, s.searches
	return w.Resume(dst, max)
}
