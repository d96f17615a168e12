package engine

import (
	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

// codeLookup finds the rules for a process's code, and notes the executable that is not read yet, or is looked at again.
type codeLookup struct {
	e     *Engine
	k     *stack
	needs *process.Executable[*executable]
}

// tableRules looks rules up in the table that BPF uses.
type tableRules struct {
	tables *ebpf.Tables
	ref    ebpf.TableRef
}

// Lookup implements reference.Rules.
func (t tableRules) Lookup(a unwind.FileAddr) unwind.Rule { return t.tables.Rule(t.ref, a) }

// Find implements reference.Lookup.
func (l *codeLookup) Find(a unwind.Addr) (reference.Code, unwind.StopReason, bool) {
	m, list, ok := l.k.findIn(a)
	if !ok {
		return reference.Code{}, unwind.StopNoMapping, false
	}
	code := reference.Code{Mapping: m.Mapping, Table: noRules{}, NoTable: true}
	x := l.e.executables.Of(m.File)
	if x == nil {
		return code, 0, true
	}
	switch x.State() {
	case process.Unopened, process.Opening:
		l.needs = x
		return code, unwind.StopNoTable, false
	case process.Ready:
		if !l.k.late && l.e.requestExecutable(x) {
			l.needs = x
			return code, unwind.StopNoTable, false
		}
		if x.Payload.setBias(&code.Mapping, l.k.state, list, m.File) && x.Payload.table.Valid() {
			code.Table, code.NoTable = tableRules{l.e.kernel.Tables, x.Payload.table}, false
		}
	}
	return code, 0, true
}

// noRules is code without unwind information: its callers are guessed.
type noRules struct{}

// Lookup implements reference.Rules.
func (noRules) Lookup(unwind.FileAddr) unwind.Rule { return unwind.Rule{} }

// walkOn goes on with a walk that BPF could not finish. If it returns an executable, the walk will go on once that was read;
// otherwise it is over.
func (e *Engine) walkOn(k *stack) (needs *process.Executable[*executable]) {
	if !k.walked {
		k.walked, k.line = true, 0
		e.count.UserWalks++
		k.at = reference.State{
			Regs: k.regs, Flags: k.pending, Low: unwind.Addr(k.regs.Reg[ebpf.StackPointer]),
			Exact: k.pending&unwind.FrameReturn == 0, Leaf: len(k.user) == 0,
		}
	}
	l, before := codeLookup{e: e, k: k}, len(k.user)
	k.user, k.stop = e.walker.Continue(k.at, ebpf.Arch, &k.memory, &l, k.user, e.cfg.MaxFrames)
	k.at = e.walker.State()
	if k.failed == unwind.RuntimeNative { // its frames are not to be had from a copy of the stack
		k.failed = k.state.missed(k.user[before:])
	}
	if k.stop == unwind.StopNoTable && l.needs != nil {
		return l.needs
	}
	if k.stop == unwind.StopCopyEnd && k.full {
		k.stop = unwind.StopRingBusy
	}
	k.resumable = false
	return nil
}

// walkLate goes on with the walk of a stack that has waited for a file for too long: if that is only looked at again, by what is known
// of it.
func (e *Engine) walkLate(k *stack) {
	if _, ok := k.waits.(*process.File); ok && k.resumable {
		k.late = true
		e.walkOn(k)
	}
}
