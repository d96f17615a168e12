package hostbpf_test

import (
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// What HotSpot (JDK 17) has in prologues and epilogues: mov %eax, -0x14000(%rsp), and cmp 0x340(%r15), %rsp; ja.
var (
	hotspotProbe = []byte{0x89, 0x84, 0x24, 0x00, 0xc0, 0xfe, 0xff}
	hotspotPoll  = []byte{0x49, 0x3b, 0xa7, 0x40, 0x03, 0x00, 0x00, 0x0f, 0x87, 0x12, 0x00, 0x00, 0x00}
)

// TestPushedReturns has a caller in generated code that was not left by a call: interpreters push where they go on, and jump. It
// counts if the frame pointers lead on.
func TestPushedReturns(t *testing.T) {
	const interpreter = jitAt + 0x800
	pushed := func(arch unwind.Arch) *jitted {
		code := []byte{0x90, 0xc9, 0xc3} // leave
		if arch == unwind.ArchARM64 {
			code = []byte{0x1f, 0x20, 0x03, 0xd5}
		}
		j := newJitted(arch, code)
		j.Memory.Add(interpreter-0x20, make([]byte, 0x200))
		fp := unwind.AMD64RBP
		if arch == unwind.ArchARM64 {
			fp = unwind.ARM64FP
		}
		j.Registers.Reg[fp] = stackAt + 8*10
		j.stack[10], j.stack[11] = stackAt+8*20, interpreter
		j.stack[20], j.stack[21], j.stack[23] = stackAt+8*30, at(2), at(3)
		return j
	}
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		want := []uint64{interpreter, at(2), at(3)}
		if arch == unwind.ArchARM64 {
			want = want[:2]
		}
		pushed(arch).run(t, h, "the next record leads on", unwind.StopRoot, want...)
		for name, change := range map[string]func(j *jitted){
			"the next record's frame pointer is below": func(j *jitted) { j.stack[20] = stackAt + 8*19 },
			"the next record returns to no code":       func(j *jitted) { j.stack[21] = stackAt },
			"there is no next record":                  func(j *jitted) { j.stack[10] = stackAt + 8*15 + 4 },
		} {
			j := pushed(arch)
			change(j)
			for _, i := range []int{21, 23} { // not behind a call, so that a search does not find them
				if j.stack[i] == at(2) || j.stack[i] == at(3) {
					j.stack[i]++
				}
			}
			j.run(t, h, name, unwind.StopNoUnwindInfo)
		}
	})
}

// TestProbingCallees: HotSpot's functions save the frame pointer whether they keep one or not. A chain of frame pointers counts only
// if they do. Where they begin with endbr64, what the probe's bytes look like does not count.
func TestProbingCallees(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	const function, pc, caller = jitAt + 0x180, jitAt + 0x1a0, jitAt + 0x300
	endbr := []byte{0xf3, 0x0f, 0x1e, 0xfa}
	probe := []byte{0x89, 0x84, 0x24, 0x55, 0x48, 0x8b, 0xec} // its offset looks like push %rbp; mov %rsp, %rbp
	for _, tt := range []struct {
		begins []byte
		keeps  bool
	}{
		{hotspotProbe, true}, {hotspotProbe, false}, {slices.Concat(endbr, hotspotProbe), true}, {slices.Concat(endbr, probe), false},
	} {
		keeps := tt.keeps
		prologue := append(slices.Clone(tt.begins), 0x55)
		if keeps {
			prologue = append(prologue, 0x48, 0x8b, 0xec)
		}
		code := make([]byte, 0x1000)
		code[0x100] = 0xc3                                                    // the leaf
		copy(code[function-jitAt:], append(prologue, 0x48, 0x83, 0xec, 0x10)) // sub $16, %rsp
		copy(code[pc-2-jitAt:], []byte{0xff, 0xd0, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d})
		copy(code[pc+6-jitAt:], append(append([]byte{}, hotspotPoll...), 0xc3))
		copy(code[caller-5-jitAt:], []byte{0xe8, 0x80, 0xfe, 0xff, 0xff}) // call function
		j := newJitted(unwind.ArchAMD64, nil)
		j.Memory.Add(jitAt, code)
		j.Registers.Reg[unwind.AMD64RBP] = stackAt + 8*10
		j.stack[0], j.stack[4], j.stack[6] = pc, at(2), at(3) // as the epilogue has it
		j.stack[10], j.stack[11] = stackAt+8*20, caller       // as the frame pointer has it
		j.stack[20], j.stack[21], j.stack[23] = stackAt+8*30, at(2), at(3)
		if keeps {
			j.run(t, h, "a frame pointer", unwind.StopRoot, pc, caller, at(2), at(3))
		} else {
			j.run(t, h, "no frame pointer", unwind.StopRoot, pc, at(2), at(3))
		}
	}
}

// TestLostRegisters has a rule that finds the frame by a register that a call loses: the caller is guessed.
func TestLostRegisters(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		lost, call := uint8(unwind.AMD64RAX), []byte{0xff, 0xd0}
		if arch == unwind.ArchARM64 {
			lost, call = 9, []byte{0, 0, 0x3f, 0xd6}
		}
		for _, there := range []bool{true, false} {
			j := &jitted{world: newWorld(arch, based(stackPointer(arch)), based(lost), rootRule), code: make([]byte, 0x1000), stack: make([]uint64, 64)}
			j.Registers.Reg[stackPointer(arch)] = stackAt
			j.callsBefore(2, 0, call)
			j.stack[1] = at(1)
			if there {
				j.stack[7] = at(2)
				j.run(t, h, "a return address", unwind.StopRoot, at(1), at(2))
			} else {
				j.run(t, h, "none", unwind.StopRegister, at(1))
			}
		}
	})
}
