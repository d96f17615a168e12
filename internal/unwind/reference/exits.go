package reference

import (
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// exit is what the code from pc on says of its frame: how a function leaves tells where its return address is. Code is not
// decoded: looked for are the few instructions that epilogues are made of, right before a return. What is found so is a hint
// only: the return address that it leads to is verified.
type exit struct {
	kind exitKind
	size int64 // from the stack pointer to the return address
	fpAt int64 // where the frame pointer was saved; -1: nowhere
}

const jump = 0xe9

type exitKind uint8

const (
	exitBySP exitKind = iota
	exitByFP
	exitBare // a byte that is a return, or part of something else
	exitLeaf // nothing says so: there may be no frame at all
)

// byCode steps by what the code at pc tells. A leaf may also have no frame.
func (w *Walker) byCode(g *guessed) (next frame, ok bool) {
	if w.arch == unwind.ArchARM64 {
		return w.byInstructionARM64(g)
	}
	isLeaf := w.flags&unwind.FrameReturn == 0
	var exits []exit
	offset, told := unwind.Addr(0), false
	if isLeaf {
		offset, told = w.returnSlot(g)
	}
	if told {
		exits = append(exits, exit{kind: exitBySP, size: int64(offset), fpAt: -1})
	}
	exits, rest := w.findExits(exits, isLeaf)
	switch {
	case told:
		exits[0].size += int64(rest.pushed)
	case len(exits) == unwind.GuessExits:
	case rest.bare:
		exits = append(exits, exit{kind: exitBare, fpAt: -1})
	case isLeaf:
		exits = append(exits, exit{kind: exitLeaf, size: int64(rest.pushed), fpAt: -1})
	}
	for _, e := range exits {
		if next, ok := w.byExit(g, e, rest); ok {
			return next, true
		}
	}
	return frame{}, false
}

// byExit steps to the caller if the return address is where an exit says, once the rest of the prologue was executed.
func (w *Walker) byExit(g *guessed, e exit, rest prologue) (next frame, ok bool) {
	var ra, slot unwind.Addr
	fp, restored := uint64(g.fp), false
	if e.kind == exitByFP {
		if rest.framing || !g.record {
			return frame{}, false
		}
		slot, ra, fp, restored = g.fp+8, g.ra, g.callerFP, true
	} else {
		above := e.size - int64(rest.pushed)
		if above < 0 || above >= unwind.GuessNear {
			return frame{}, false
		}
		slot = w.low + unwind.Addr(above)
		v, ok := w.stackWord(g, slot)
		if !ok {
			return frame{}, false
		}
		ra = unwind.Addr(v)
		if above = e.fpAt - int64(rest.pushed); above >= 0 {
			if fp, ok = w.stackWord(g, w.low+unwind.Addr(above)); !ok {
				return frame{}, false
			}
			restored = true
		}
	}
	v := w.grade(g, slot, ra, fp, e.kind == exitBySP || e.kind == exitByFP)
	if v == gradeNone || e.kind == exitLeaf && (v != gradeStrong || g.cfa > g.fp) {
		return frame{}, false
	}
	next = frame{flags: unwind.FrameReturn | unwind.FrameGuessed, low: slot + 8}
	next.regs.PC = ra
	if g.hasFP || restored {
		set(&next.regs, w.fp(), fp)
	}
	set(&next.regs, w.sp(), uint64(slot+8))
	return next, true
}

// readCode reads the code at pc: what is left of its page at least.
func (w *Walker) readCode() []byte {
	if w.NoCode {
		return nil
	}
	pc := w.regs.PC
	b := make([]byte, unwind.GuessCode)
	if w.mem.Read(pc, b) == nil {
		return b
	}
	if room := int(4096 - pc%4096); room < len(b) && w.mem.Read(pc, b[:room]) == nil {
		return b[:room]
	}
	return nil
}

// prologue is what is left of one.
type prologue struct {
	pushed  uint32 // bytes that it will push
	framing bool   // it will set the frame pointer
	bare    bool   // behind it is a byte that may be a return without an epilogue
}

// findExits adds how the function at pc ends, and says, if it may not have begun yet, what is left of its prologue.
func (w *Walker) findExits(exits []exit, begins bool) (_ []exit, rest prologue) {
	code := w.readCode()
	for i, at := 0, 0; begins && i < unwind.GuessTokens && at+8 <= len(code); i++ {
		n := rest.token(code[at:])
		if n == 0 {
			break
		}
		at += n
	}
	returns := 0
	for i := 0; i < len(code) && returns < unwind.GuessReturns; i++ {
		if code[i]&0xfe != 0xc2 && code[i] != jump { // ret
			continue
		}
		returns++
		e, jumps, first := readExit(code, i), code[i] == jump, i == 0
		if w.endsFunction(code, i, e.kind == exitBare) {
			i = len(code)
		}
		if e.kind == exitBare {
			rest.bare = rest.bare || !jumps || first
		} else if len(exits) < unwind.GuessExits {
			exits = append(exits, e)
		}
	}
	return exits, rest
}

// endsFunction tells whether another function begins right behind the return or jump at number i: there is padding, or an
// address that compilers align functions to. Without an epilogue a byte that is a return and has padding behind it will do.
func (w *Walker) endsFunction(code []byte, i int, bare bool) bool {
	if bare && code[i] != 0xc3 {
		return false
	}
	next := i + 1
	switch code[i] {
	case jump:
		next = i + 5
	case 0xc2:
		next = i + 3
	}
	if (w.regs.PC+unwind.Addr(next))%16 == 0 && !bare {
		return true
	}
	if next+2 > len(code) {
		return false
	}
	switch v := binary.LittleEndian.Uint16(code[next:]); {
	case v&0xff == 0xcc, v&0xff == 0x90, v == 0x9066, v == 0x2e66, v == 0x0f66, v == 0x1f0f:
		return true
	}
	return false
}

// token reads an instruction of a prologue: push, sub $n, %rsp, mov %rsp, %rbp, endbr64. Its length is 0 if it is another, or
// if n is so large that the sum of GuessTokens of them may not fit BPF's 32 bits.
func (p *prologue) token(b []byte) (length int) {
	v := binary.LittleEndian.Uint32(b)
	switch v3 := v & 0xffffff; {
	case v&0xf8 == 0x50:
		p.pushed += 8
		return 1
	case v&0xf8ff == 0x5041:
		p.pushed += 8
		return 2
	case v3 == 0xec8348 && v>>31 == 0:
		p.pushed += v >> 24
		return 4
	case v3 == 0xec8148 && b[6]>>4 == 0:
		p.pushed += binary.LittleEndian.Uint32(b[3:])
		return 7
	case v3 == 0xe58948, v3 == 0xec8b48:
		p.framing = true
		return 3
	case v == endbr64:
		return 4
	case v3 == probeStack && b[6] == 0xff:
		return 7
	}
	return 0
}

// readExit reads the epilogue before the return, or the jump to another function, at number at, backwards: pops, add $n, %rsp,
// and what takes the stack pointer from the frame pointer.
func readExit(code []byte, at int) exit {
	jumps := code[at] == jump
	if at > 0 && code[at-1] == 0xf3 {
		at--
	}
	// HotSpot looks whether it has to stop before it returns: cmp n(%r15), %rsp; ja (MacroAssembler::safepoint_poll in
	// cpu/x86/macroAssembler_x86.cpp, JDK 17).
	if at >= 13 && binary.LittleEndian.Uint32(code[at-13:])&0xffffff == 0xa73b49 && binary.LittleEndian.Uint16(code[at-6:]) == 0x870f {
		at -= 13
	}
	found, size, fpFromAbove := at == 0 && !jumps, int32(0), int32(0)
	for i := 0; i < unwind.GuessTokens; i++ {
		if at >= 7 {
			switch binary.LittleEndian.Uint32(code[at-7:]) & 0xffffff {
			case 0xc48148:
				size += int32(binary.LittleEndian.Uint32(code[at-4:]))
				return wholeExit(size, fpFromAbove)
			case 0xa58d48:
				return exit{kind: exitByFP, fpAt: -1}
			}
		}
		if at >= 4 {
			v := binary.LittleEndian.Uint32(code[at-4:])
			switch {
			case v&0xffffff == 0xc48348 && v>>31 == 0:
				return wholeExit(size+int32(v>>24), fpFromAbove)
			case v&0xffffff == 0x658d48, v>>8 == 0xec8948, v>>8 == 0xe58b48:
				return exit{kind: exitByFP, fpAt: -1}
			}
		}
		if at == 0 {
			break
		}
		v := code[at-1]
		if v == 0xc9 {
			return exit{kind: exitByFP, fpAt: -1}
		}
		if v&0xf8 != 0x58 {
			break
		}
		found = true
		size += 8
		if at--; at >= 1 && code[at-1] == 0x41 {
			at--
		} else if v == 0x5d {
			fpFromAbove = size
		}
	}
	if !found {
		return exit{kind: exitBare, fpAt: -1}
	}
	return wholeExit(size, fpFromAbove)
}

func wholeExit(size, fpFromAbove int32) exit {
	e := exit{kind: exitBySP, size: int64(size), fpAt: -1}
	if fpFromAbove != 0 {
		e.fpAt = int64(size - fpFromAbove)
	}
	return e
}
