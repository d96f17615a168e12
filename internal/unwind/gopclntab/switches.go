package gopclntab

import (
	"bytes"
	"math"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Go code runs on goroutine stacks, on each thread's system stack (g0's) and on its signal stack. The functions that
// change between them, and how a walk crosses them, are told in docs/decisions/0010-go-stack-switches.md. Here is what
// that means for their rows. Functions are known by name: their numbers (funcID) change from version to version.

// wholeRule is the rule of functions that have the same one everywhere.
func (t *Table) wholeRule(name string, flags uint8) (unwind.Rule, bool) {
	switch name {
	case "runtime.sigreturn", "runtime.sigreturn__sigaction":
		if t.arch == unwind.ArchAMD64 { // elsewhere the kernel's trampoline is used
			return unwind.Rule{CFA: unwind.CFASignal}, true
		}
	case "runtime.sigtramp", "runtime.cgoSigtramp":
		// outermost for Go's own traceback, but the kernel called it, on the way back to what the signal interrupted
		return unwind.Rule{}, false
	case "_rt0_amd64", "_rt0_arm64", "_rt0_amd64_linux", "_rt0_arm64_linux", "main":
		return unwind.Rule{CFA: unwind.CFARoot}, true // where the kernel starts the program; no return address
	}
	return unwind.Rule{CFA: unwind.CFARoot}, flags&flagTopFrame != 0
}

// switches changes the rows of functions that change stacks.
func (t *Table) switches(rows []row, name string, flags uint8, code []byte, a *asmFunc) []row {
	root, gosched := unwind.Rule{CFA: unwind.CFARoot}, unwind.Rule{CFA: unwind.CFAGoSwitch}
	end := uint64(len(code))
	writes := t.stackWrites(code)
	first := uint64(0) // without a known write: everywhere
	if len(writes) > 0 {
		first = writes[0]
	}
	if t.arch == unwind.ArchARM64 && !a.framed {
		// save_g is called just before the switch, with the new g; that destroys the link register.
		first = lastBL(code, first)
	}
	if name == "runtime.morestack_noctxt" {
		first = end // it jumps to morestack
	}
	switch name {
	case "gogo", "runtime.mcall", "runtime.switchToCrashStack0":
		// From the switch on there is no way back: gogo becomes another goroutine, mcall never returns, and Go's own
		// profiles end there too.
		return override(rows, end, first, end, root)
	case "runtime.morestack", "runtime.morestack_noctxt":
		if t.arch == unwind.ArchARM64 {
			// The function that needs more stack put its return address into x3 to call this one; that it has no
			// frame yet and no link register any more can be told only as if it were not there.
			rule := linkRule(0)
			rule.RAOffset = 3
			rows = override(rows, end, 0, first, rule)
		}
		if name == "runtime.morestack_noctxt" {
			return rows
		}
		return override(rows, end, first, end, gosched)
	case "runtime.systemstack":
		if t.keepsFramePointer(code, writes, a) {
			return otherStack(rows, a, writes)
		}
		back := end
		if len(writes) > 1 {
			back = writes[1]
		}
		return override(rows, end, first, back, gosched)
	case "runtime.asmcgocall":
		switch {
		case t.arch == unwind.ArchARM64:
			return overrideCgocallARM64(rows, code, writes, a)
		case a.framed:
			return otherStack(rows, a, writes)
		}
		// Up to Go 1.20 it has no frame pointer of its own, but its caller has: an ABI wrapper of the same name.
		return overrideCgocallAMD64(rows, code, writes, otherStackRule(a))
	}
	if flags&flagSPWrite != 0 && a.framed {
		return otherStack(rows, a, writes)
	}
	return rows
}

// overrideCgocallAMD64 takes runtime.asmcgocall apart where it has no frame: it switches, calls, switches back and
// returns; a second part does the same for callers that are on the system stack already.
func overrideCgocallAMD64(rows []row, code []byte, writes []uint64, rule unwind.Rule) []row {
	end := uint64(len(code))
	if len(writes) < 3 {
		return override(rows, end, 0, end, rule)
	}
	ret := writes[1] + uint64(bytes.IndexByte(code[writes[1]:], 0xc3)) + 1
	rows = override(rows, end, writes[0], writes[1], rule)
	if ret < writes[2] {
		rows = override(rows, end, ret, writes[2], rule)
	}
	return rows
}

// overrideCgocallARM64 does it where g and the depth are on the system stack: from the calls on until the stack pointer
// is set back. Between the switch and the call nothing is saved there yet.
func overrideCgocallARM64(rows []row, code []byte, writes []uint64, a *asmFunc) []row {
	end := uint64(len(code))
	if len(writes) == 0 || !a.framed {
		return override(rows, end, 0, end, unwind.Rule{CFA: unwind.CFAGoSwitch})
	}
	switched := false
	calls := 0
	for at := uint64(0); at+4 <= end && calls < maxOverrides/2; at += 4 {
		if arm64Ins(code, at)&blrMask != blrARM64 {
			continue
		}
		calls++ // there are two
		back := end
		if i := slices.IndexFunc(writes, func(w uint64) bool { return w > at }); i >= 0 {
			back = writes[i]
		}
		if !switched {
			rows = override(rows, end, min(writes[0], at), at, unwind.Rule{CFA: unwind.CFAGoSwitch})
		}
		switched = true
		rows = override(rows, end, at, back, cgocallARM64(a))
	}
	return rows
}

// otherStack makes rows depend on the frame pointer from where the function has one of its own, which stays on the
// stack that the function was called on, until the stack pointer is back there.
func otherStack(rows []row, a *asmFunc, writes []uint64) []row {
	back := uint64(math.MaxUint64)
	if len(writes) > 0 {
		back = writes[len(writes)-1]
	}
	rule := otherStackRule(a)
	split := make([]row, 0, len(rows)+2)
	for i, r := range rows {
		end := uint64(math.MaxUint64)
		if i+1 < len(rows) {
			end = rows[i+1].start
		}
		from, to := max(r.start, a.own), min(end, back)
		if r.rule.CFA != unwind.CFAReg || r.rule.FP != unwind.SaveAtCFA || from >= to {
			split = append(split, r)
			continue
		}
		if r.start < from {
			split = append(split, r)
		}
		split = append(split, row{from, rule})
		if to < end {
			split = append(split, row{to, r.rule})
		}
	}
	return split
}

// otherStackRule finds the frame by the frame pointer.
func otherStackRule(a *asmFunc) unwind.Rule {
	if a.arch == unwind.ArchARM64 {
		rule := savedLinkRule(a.frame+8, a.frame)
		rule.Reg, rule.Offset2 = unwind.ARM64FP, int16(unwind.CFANoteOtherStack)
		return rule
	}
	return unwind.Rule{
		CFA: unwind.CFAReg, Reg: unwind.AMD64RBP, Offset: 16, Offset2: int16(unwind.CFANoteOtherStack),
		RAOffset: -1, FP: unwind.SaveAtCFA, FPOffset: -2, BX: unwind.SaveUndefined,
	}
}

// cgocallARM64 is the rule of arm64's runtime.asmcgocall while it calls C: it loads g0's frame pointer, so that only
// what it left on the system stack leads back. It is a CFAGoSwitch that names the stack pointer as its register:
//
//	g, depth = *(sp+Offset), *(sp+Offset2)
//	saved    = g == 0 ? depth : g.stack.hi - depth
//	CFA      = saved - 8*RAOffset, return address and frame pointer stored relative to it as usual
//
// A plain CFAGoSwitch would be right only until C calls Go back.
func cgocallARM64(a *asmFunc) unwind.Rule {
	return unwind.Rule{
		CFA: unwind.CFAGoSwitch, Reg: unwind.ARM64SP, Offset: 0, Offset2: 8,
		RAOffset: int16(-a.frame / 8), FP: unwind.SaveAtCFA, FPOffset: int16(-a.frame/8 - 1),
	}
}

// override puts a rule over [from, to) of a function of size bytes.
func override(rows []row, size, from, to uint64, rule unwind.Rule) []row {
	out := make([]row, 0, len(rows)+2)
	var after unwind.Rule
	for _, r := range rows {
		if r.start < from {
			out = append(out, r)
		}
		if r.start <= to {
			after = r.rule
		}
	}
	out = append(out, row{from, rule})
	if to < size {
		out = append(out, row{to, after})
	}
	for _, r := range rows {
		if r.start > to {
			out = append(out, r)
		}
	}
	return out
}

// keepsFramePointer tells whether runtime.systemstack leaves the frame pointer alone when it goes to the system stack:
// on amd64 where it has a frame (Go 1.21 and newer), on arm64 from Go 1.25 on; before, it loaded g0's.
func (t *Table) keepsFramePointer(code []byte, writes []uint64, a *asmFunc) bool {
	if !a.framed || len(writes) == 0 || t.arch == unwind.ArchAMD64 {
		return a.framed && len(writes) > 0
	}
	const ldrFP, mask = 0xf9400000 | 28<<5 | 29, imm12Mask // ldr x29, [x28, #imm]
	for at := writes[0]; at+4 <= uint64(len(code)); at += 4 {
		ins := arm64Ins(code, at)
		if ins&^uint32(mask) == ldrFP {
			return false
		}
		if ins&blrMask == blrARM64 {
			return true
		}
	}
	return false
}

// stackWrites finds the instructions that set the stack pointer to another register's value or to a word in memory:
// the offsets of what follows them. Prologues and epilogues do not.
func (t *Table) stackWrites(code []byte) []uint64 {
	var writes []uint64
	if t.arch == unwind.ArchARM64 {
		for at := uint64(0); at+4 <= uint64(len(code)); at += 4 {
			if arm64Ins(code, at)&^uint32(movRegMask) == movToSP {
				writes = append(writes, at+4)
			}
		}
		return writes
	}
	for i := 0; i+3 <= len(code); i++ {
		rex, op, modrm := code[i], code[i+1], code[i+2]
		switch {
		case (rex == 0x48 || rex == 0x4c) && op == 0x89 && modrm&0xc7 == 0xc4: // mov rsp, reg
			writes = append(writes, uint64(i+3))
		case (rex == 0x48 || rex == 0x49) && op == 0x8b && modrm&0xf8 == 0x60 && modrm != 0x64: // mov rsp, [reg+disp8]
			writes = append(writes, uint64(i+4))
		case (rex == 0x48 || rex == 0x49) && op == 0x8b && modrm&0xf8 == 0x20 && modrm&7 < 4: // mov rsp, [reg]
			writes = append(writes, uint64(i+3))
		}
	}
	return writes
}

// lastBL is the offset of an arm64 function's last direct call before the instruction that ends at an offset, or that
// offset if there is none.
func lastBL(code []byte, end uint64) uint64 {
	for at := end; at >= 4; at -= 4 {
		if arm64Ins(code, at-4)&blMask == blARM64 {
			return at - 4
		}
	}
	return end
}
