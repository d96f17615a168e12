package reference

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// grade is how good a word is as the return address of the code at pc.
type grade uint8

const (
	gradeNone grade = iota
	gradeWeak
	gradeStrong // what was called may have been the code at pc, as far as one sees
)

// guessed is what a guess knows of the frame whose caller is wanted.
type guessed struct {
	own      Code // the code at pc
	fp       unwind.Addr
	hasFP    bool
	record   bool // fp points to what may be a frame record:
	callerFP uint64
	ra       unwind.Addr
	sound    bool              // that leads on
	exactSP  bool              // arm64: the caller's stack pointer is the one that is known
	cfa      unwind.Addr       // of the caller graded last, if its rule bases it on the stack pointer
	stop     unwind.StopReason // what kept the guess from being made: the end of the copied stack, a table
	reason   unwind.StopReason // to stop if nothing is found; 0 if it is that there is no rule
}

// guess steps through code without unwind information (docs/decisions/0021-code-without-unwind-information.md):
// a chain of frame pointers inside one mapping is believed; how the function ends tells where its return address is; then the
// stack is searched for a return address that leads on, below the frame pointer's record if that leads on too; then comes
// that record. The stack is searched GuessSearches times in one walk. reason is
// guessed.reason.
func (w *Walker) guess(own Code, reason unwind.StopReason) (next frame, stop unwind.StopReason, ok bool) {
	g := &guessed{own: own, reason: reason}
	if v, _, ok := w.reg(w.fp()); ok {
		g.fp, g.hasFP = unwind.Addr(v), true
		g.record = v != 0 && w.readRecord(g)
	}
	if w.Plain {
		return w.byFP(g)
	}
	chained := g.record && w.chained(g)
	if chained && w.flags&unwind.FrameReturn != 0 {
		return w.byRecord(g), 0, true
	}
	if w.regs.Known&(1<<w.sp()) != 0 {
		if next, ok := w.byCode(g); ok {
			return next, 0, true
		}
	}
	if chained {
		return w.byRecord(g), 0, true
	}
	if g.record && uint64(g.fp-w.low) < unwind.GuessNear {
		g.sound = w.grade(g, g.fp+8, g.ra, g.callerFP, true) != gradeNone
	}
	if g.sound && w.arch == unwind.ArchARM64 {
		return w.byRecord(g), 0, true
	}
	if w.regs.Known&(1<<w.sp()) != 0 && w.searches < unwind.GuessSearches {
		w.searches++ // stacks can be made so that each frame's search is long
		if next, ok := w.scan(g); ok {
			return next, 0, true
		}
	}
	if g.stop == unwind.StopNoTable {
		return frame{}, g.stop, false
	}
	return w.byFP(g)
}

// byFP steps by the frame pointer's record, as nothing better was found, or says why the walk ends.
func (w *Walker) byFP(g *guessed) (next frame, stop unwind.StopReason, ok bool) {
	if g.record && (g.sound || w.returnsToCode(g)) {
		return w.byRecord(g), 0, true
	}
	if g.stop != 0 {
		return frame{}, g.stop, false
	}
	if g.reason != 0 {
		return frame{}, g.reason, false
	}
	// The end of a chain of frame pointers, if it is known to be one.
	if g.hasFP && (g.fp == 0 || g.record && g.ra == 0) && (!g.own.NoTable || w.flags&unwind.FrameGuessed != 0) {
		return frame{}, unwind.StopRoot, false
	}
	if g.own.NoTable {
		return frame{}, unwind.StopNoUnwindInfo, false
	}
	return frame{}, unwind.StopNoRule, false
}

// stackWord reads a word of the stack for a guess.
func (w *Walker) stackWord(g *guessed, a unwind.Addr) (uint64, bool) {
	v, stop, ok := w.word(a)
	if stop == unwind.StopCopyEnd && uint64(a-w.low) < 2*unwind.GuessNear {
		g.stop = stop
	}
	return v, ok
}

// readRecord reads the pair that the frame pointer points to, if it may be a frame record.
//
//	fp -> | caller's fp | return address |
func (w *Walker) readRecord(g *guessed) bool {
	if g.fp%8 != 0 || g.fp < w.low {
		return false
	}
	var b [16]byte
	if err := w.mem.Read(g.fp, b[:]); err != nil {
		if memoryStop(err) == unwind.StopCopyEnd && uint64(g.fp-w.low) < unwind.GuessNear {
			g.stop = unwind.StopCopyEnd
		}
		return false
	}
	g.callerFP = binary.LittleEndian.Uint64(b[:])
	g.ra = w.arch.CodeAddr(binary.LittleEndian.Uint64(b[8:]))
	return true
}

// chained tells whether the frame pointer leads to a frame of the same mapping: such code keeps a chain of them.
func (w *Walker) chained(g *guessed) bool {
	m := g.own.Mapping
	if !g.own.NoTable || !m.Contains(g.ra-1) || g.callerFP <= uint64(g.fp) || g.callerFP-uint64(g.fp) >= unwind.GuessNear {
		return false
	}
	kind, target := w.callBefore(m.Start, g.ra)
	return kind == callDirect && target >= m.Start && target <= w.regs.PC && w.savesFP(target) || kind == callIndirect || kind == callUnreadable
}

// byRecord is the step by the frame record.
func (w *Walker) byRecord(g *guessed) frame {
	next := frame{flags: unwind.FrameReturn | unwind.FrameGuessed, low: g.fp + 16}
	next.regs.PC = g.ra
	set(&next.regs, w.fp(), g.callerFP)
	if w.arch == unwind.ArchAMD64 {
		// Not on arm64: gcc puts the record at the frame's lower end.
		set(&next.regs, w.sp(), uint64(g.fp+16))
	}
	return next
}

// to is the step to the caller that ra, at slot, returns to. Nobody knows what became of the registers: the frame pointer
// is taken for untouched if it may be one.
func (w *Walker) to(g *guessed, slot, ra unwind.Addr) frame {
	sp := slot + 8
	next := frame{flags: unwind.FrameReturn | unwind.FrameGuessed, low: sp}
	next.regs.PC = ra
	if g.hasFP && g.fp%8 == 0 && g.fp >= sp && uint64(g.fp-sp) < unwind.GuessNear {
		set(&next.regs, w.fp(), uint64(g.fp))
	}
	if w.arch == unwind.ArchAMD64 {
		set(&next.regs, w.sp(), uint64(sp)) // not on arm64: it is saved anywhere in the frame
	}
	return next
}

// codeRule finds the code that an address is in and its rule. A gap in a table is no code, unless it is the one that pc is
// in.
func (w *Walker) codeRule(g *guessed, a unwind.Addr) (c Code, r unwind.Rule, pending, ok bool) {
	c, stop, ok := w.lookup.Find(a)
	if !ok {
		return c, r, true, stop == unwind.StopNoTable
	}
	r = c.Table.Lookup(c.Mapping.FileAddr(a))
	ok = c.NoTable || r != (unwind.Rule{}) || c.Mapping.Start == g.own.Mapping.Start
	return c, r, false, ok
}

// grade grades ra, which lies at slot, as a return address. fp is what the frame pointer would be in the caller; trusted: the
// code itself or a chain of frame pointers led there.
func (w *Walker) grade(g *guessed, slot, ra unwind.Addr, fp uint64, trusted bool) grade {
	g.cfa = 0
	c, r, pending, ok := w.codeRule(g, ra-1)
	if !ok {
		return gradeNone
	}
	kind, target := w.callBefore(c.Mapping.Start, ra)
	if kind == callNone {
		switch {
		case r.CFA == unwind.CFASignal:
			return gradeStrong
		case trusted && c.NoTable && !pending && w.recordLeadsOn(g, slot, fp):
			return gradeWeak // an interpreter pushes where it goes on, and jumps
		}
		return gradeNone
	}
	own, other := true, false
	if kind == callDirect && !g.own.Mapping.Contains(target) {
		own = false
		t, stop, ok := w.lookup.Find(target)
		if !ok && stop != unwind.StopNoTable {
			return gradeNone
		}
		other = (!ok || !t.NoTable) && !w.jumpsOn(target)
	}
	switch {
	case pending && w.NoCode:
		g.stop = unwind.StopNoTable // there is more to see once its table is there
		return gradeNone
	case pending && kind == callUnreadable:
		return gradeNone
	case pending:
		return gradeWeak
	case r.CFA != unwind.CFANone:
		if !w.leadsOn(g, r, slot+8, fp) {
			return gradeNone
		}
		if kind == callUnreadable || other {
			return gradeWeak
		}
		return gradeStrong
	case trusted:
		return gradeWeak
	case kind == callUnreadable || other:
		return gradeNone
	case kind == callDirect && own && target <= w.regs.PC && !w.savesFP(target):
		return gradeStrong
	}
	return gradeWeak
}

// leadsOn tells whether a frame with the rule r whose stack pointer is sp leads on: up the stack, to a return address.
// Stale ones mostly don't.
func (w *Walker) leadsOn(g *guessed, r unwind.Rule, sp unwind.Addr, fp uint64) bool {
	switch {
	case r.CFA != unwind.CFAReg && r.CFA != unwind.CFAMem && r.CFA != unwind.CFAPLT:
		return true
	case r.CFA == unwind.CFAReg && unwind.CFANote(r.Offset2) == unwind.CFANoteOtherStack:
		return true
	case r.Reg != w.sp() && r.Reg != w.fp(), r.RA != unwind.RAAtCFA:
		return false
	case w.arch == unwind.ArchARM64 && r.Reg == w.sp() && !g.exactSP:
		return true // nobody knows
	}
	base := fp
	if r.Reg == w.sp() {
		base = uint64(sp)
	}
	cfa := unwind.Addr(base + uint64(int64(r.Offset)))
	if r.CFA == unwind.CFAMem {
		v, ok := w.stackWord(g, cfa)
		if !ok {
			return false
		}
		cfa = unwind.Addr(v + uint64(int64(r.Offset2)))
	}
	if cfa <= sp || uint64(cfa-sp) >= unwind.GuessNear {
		return false
	}
	if r.Reg == w.sp() {
		g.cfa = cfa
	}
	v, ok := w.stackWord(g, cfa+unwind.Addr(8*int64(r.RAOffset)))
	if !ok {
		return false
	}
	ra := w.arch.CodeAddr(v)
	c, above, _, ok := w.codeRule(g, ra-1)
	if !ok {
		return false
	}
	kind, _ := w.callBefore(c.Mapping.Start, ra)
	if kind == callUnreadable {
		return above.CFA != unwind.CFANone
	}
	return kind != callNone || above.CFA == unwind.CFASignal
}

// recordLeadsOn tells whether the frame pointer of the caller whose return address lies at slot points to a frame record that
// leads on.
func (w *Walker) recordLeadsOn(g *guessed, slot unwind.Addr, fp uint64) bool {
	a := unwind.Addr(fp)
	if fp%8 != 0 || a <= slot || uint64(a-slot) >= unwind.GuessNear {
		return false
	}
	var b [16]byte
	if err := w.mem.Read(a, b[:]); err != nil {
		return false
	}
	above := binary.LittleEndian.Uint64(b[:])
	if above <= fp || above-fp >= unwind.GuessNear {
		return false
	}
	ra := w.arch.CodeAddr(binary.LittleEndian.Uint64(b[8:]))
	c, _, _, ok := w.codeRule(g, ra-1)
	if !ok || c.NoTable {
		return ok
	}
	kind, _ := w.callBefore(c.Mapping.Start, ra)
	return kind != callNone
}

// savesFP tells whether the function at a begins by saving the frame pointer.
func (w *Walker) savesFP(a unwind.Addr) bool {
	if w.arch == unwind.ArchARM64 {
		return true
	}
	v, ok := w.instruction(a)
	if ok && v == endbr64 {
		a += 4
		v, ok = w.instruction(a)
	}
	if ok && v&0xffffff == probeStack {
		v, ok = w.instruction(a + 7)
		return !ok || v == 0xec8b4855 || v == 0xe5894855 // push %rbp; mov %rsp, %rbp
	}
	return !ok || v&0xff == pushRBP
}

// readWords reads the words of the stack at a for a scan, up to the end of their page if the next one can't be read.
func (w *Walker) readWords(g *guessed, a unwind.Addr, b []byte) []byte {
	err := w.mem.Read(a, b)
	if err == nil {
		return b
	}
	if memoryStop(err) == unwind.StopCopyEnd {
		g.stop = unwind.StopCopyEnd
	}
	if room := int(4096 - a%4096); room < len(b) && w.mem.Read(a, b[:room]) == nil {
		return b[:room]
	}
	return nil
}

// scan looks for a return address from the stack pointer on. Below the frame pointer's record, if that leads on, only a
// strong one counts that does not contradict it.
func (w *Walker) scan(g *guessed) (next frame, ok bool) {
	at := w.low
	if at%8 != 0 {
		return frame{}, false
	}
	chunks, tries := unwind.GuessMaxChunks, unwind.GuessMaxTries
	if w.Old {
		chunks, tries = unwind.GuessMinChunks, unwind.GuessMinTries
	}
	var b [8 * unwind.GuessWords]byte
	for range chunks {
		words := w.readWords(g, at, b[:])
		found := 0
		for i := 0; i < len(words) && found < tries; i += 8 {
			slot, ra := at+unwind.Addr(i), w.arch.CodeAddr(binary.LittleEndian.Uint64(words[i:]))
			c, stop, ok := w.lookup.Find(ra - 1)
			if !ok && stop != unwind.StopNoTable {
				continue
			}
			if kind, _ := w.callBefore(c.Mapping.Start, ra); kind == callNone {
				continue
			}
			found++
			if g.sound && slot >= g.fp+8 {
				return frame{}, false
			}
			v := w.grade(g, slot, ra, uint64(g.fp), false)
			if g.stop == unwind.StopNoTable {
				return frame{}, false // wait for it
			}
			if g.sound && v == gradeStrong && g.cfa < g.fp+8 || !g.sound && v != gradeNone {
				return w.to(g, slot, ra), true
			}
		}
		if len(words) < len(b) {
			break
		}
		at += unwind.Addr(len(b))
	}
	return frame{}, false
}

// returnsToCode tells whether the code that the record returns to is there at all.
func (w *Walker) returnsToCode(g *guessed) bool {
	c, _, _, ok := w.codeRule(g, g.ra-1)
	if !ok {
		return false
	}
	kind, _ := w.callBefore(c.Mapping.Start, g.ra)
	return kind != callNone
}
