package hostbpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

// jitAt is a mapping of generated code.
const jitAt = codeAt + 0x10000

// jitted is a world for guesses: the pc is in generated code, whose bytes are given, and the stack has 64 words. Function 2 is the
// caller, with a frame of 16 bytes, function 3 is the root; both have made calls: see callsBefore.
type jitted struct {
	*world
	code  []byte // of the table's mapping
	stack []uint64
}

func newJitted(arch unwind.Arch, generated []byte) *jitted {
	r := unwind.Rule{CFA: unwind.CFAReg, Reg: stackPointer(arch), Offset: 16, RAOffset: -1}
	j := &jitted{world: newWorld(arch, r, r, r, rootRule), code: make([]byte, 0x1000), stack: make([]uint64, 64)}
	if arch == unwind.ArchARM64 {
		j.world = newWorld(arch, r, r, rootRule, rootRule) // its stack pointer would not be known there
	}
	j.Mappings = append(j.Mappings, tape.Mapping{Mapping: unwind.Mapping{Start: jitAt, End: jitAt + 0x1000}, NoTable: true})
	j.Registers.PC = jitAt + 0x100
	j.Registers.Reg[stackPointer(arch)] = stackAt
	if generated != nil {
		j.Memory.Add(jitAt+0x100, append(generated, make([]byte, 512)...))
	}
	for i := range j.stack {
		j.stack[i] = uint64(i)
	}
	for _, n := range []int{2, 3} {
		if arch == unwind.ArchARM64 {
			j.callsBefore(n, 0, []byte{0, 0, 0x3f, 0xd6}) // blr x0
		} else {
			j.callsBefore(n, 0, []byte{0xff, 0xd0}) // call *%rax
		}
	}
	return j
}

// callsBefore puts bytes right before an address in function n.
func (j *jitted) callsBefore(n int, more uint64, b []byte) {
	copy(j.code[at(n)+more-codeAt-uint64(len(b)):], b)
}

func (j *jitted) run(t *testing.T, h hosts, what string, stop unwind.StopReason, pcs ...uint64) {
	t.Helper()
	j.Memory.Add(codeAt, j.code)
	var stack []byte
	for _, v := range j.stack {
		stack = binary.LittleEndian.AppendUint64(stack, v)
	}
	j.Memory.Add(stackAt, stack)
	j.walk(t, h, what, stop, append([]uint64{uint64(j.Registers.PC)}, pcs...)...)
}

// TestCallEncodings has each kind of call, and what looks like one, before the only word that may be a return address.
func TestCallEncodings(t *testing.T) {
	e8 := func(target uint64) []byte {
		return binary.LittleEndian.AppendUint32([]byte{0xe8}, uint32(target-at(2)))
	}
	bl := func(target uint64) []byte {
		return binary.LittleEndian.AppendUint32(nil, 0x94000000|uint32(target-at(2)+4)>>2&0x3ffffff)
	}
	movabs := func(target uint64, call ...byte) []byte {
		op := []byte{0x48, 0xb8}
		if len(call) == 3 {
			op = []byte{0x49, 0xb8 | call[2]&7}
		}
		return append(binary.LittleEndian.AppendUint64(op, target), call...)
	}
	word := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	for _, tt := range []struct {
		arch unwind.Arch
		code []byte
		good bool
	}{
		{unwind.ArchAMD64, e8(jitAt + 0x80), true},
		{unwind.ArchAMD64, e8(codeAt + 0x30), true}, // code with a table, which jumped here
		{unwind.ArchAMD64, e8(codeAt + 0x5000), false},
		{unwind.ArchAMD64, e8(stackAt), false},
		{unwind.ArchAMD64, []byte{0xff, 0xd0}, true},                                // call *%rax
		{unwind.ArchAMD64, []byte{0x41, 0xff, 0xd7}, true},                          // call *%r15
		{unwind.ArchAMD64, []byte{0x3e, 0xff, 0xd2}, true},                          // notrack call *%rdx
		{unwind.ArchAMD64, []byte{0xff, 0x13}, true},                                // call *(%rbx)
		{unwind.ArchAMD64, []byte{0x41, 0xff, 0x14, 0x24}, true},                    // call *(%r12)
		{unwind.ArchAMD64, []byte{0xff, 0x14, 0xd8}, true},                          // call *(%rax,%rbx,8)
		{unwind.ArchAMD64, []byte{0xff, 0x55, 0x10}, true},                          // call *16(%rbp)
		{unwind.ArchAMD64, []byte{0xff, 0x54, 0x24, 0x10}, true},                    // call *16(%rsp)
		{unwind.ArchAMD64, []byte{0xff, 0x15, 0x12, 0x34, 0x56, 0x00}, true},        // call *n(%rip)
		{unwind.ArchAMD64, []byte{0x41, 0xff, 0x97, 0x12, 0x34, 0x56, 0x00}, true},  // call *n(%r15)
		{unwind.ArchAMD64, []byte{0xff, 0x94, 0xd8, 0x12, 0x34, 0x56, 0x00}, true},  // call *n(%rax,%rbx,8)
		{unwind.ArchAMD64, []byte{0xff, 0x14, 0xdd, 0x12, 0x34, 0x56, 0x00}, true},  // call *n(,%rbx,8)
		{unwind.ArchAMD64, movabs(jitAt+0x40, 0xff, 0xd0), true},                    // movabs; call *%rax
		{unwind.ArchAMD64, movabs(jitAt+0x40, 0x41, 0xff, 0xd2), true},              // movabs; call *%r10
		{unwind.ArchAMD64, movabs(codeAt+0x5000, 0x41, 0xff, 0xd2), false},          // not to code
		{unwind.ArchAMD64, []byte{0xff, 0xe0}, false},                               // jmp *%rax
		{unwind.ArchAMD64, []byte{0xff, 0xd8}, false},                               // lcall
		{unwind.ArchAMD64, []byte{0xff, 0x14}, false},                               // SIB is missing
		{unwind.ArchAMD64, []byte{0xff, 0x15}, false},                               // so is the displacement
		{unwind.ArchAMD64, []byte{0xff, 0x14, 0x25}, false},                         // here too
		{unwind.ArchAMD64, []byte{0xff, 0x50, 0x10, 0x00}, false},                   // too long
		{unwind.ArchAMD64, []byte{0xff, 0x94, 0x12, 0x34, 0x56, 0x00}, false},       // too short
		{unwind.ArchAMD64, []byte{0xff, 0x90, 0xd8, 0x12, 0x34, 0x56, 0x00}, false}, // no SIB there
		{unwind.ArchAMD64, []byte{0x90, 0x90}, false},
		{unwind.ArchARM64, bl(jitAt + 0x80), true},
		{unwind.ArchARM64, bl(codeAt + 0x30), true},
		{unwind.ArchARM64, bl(codeAt - 0x5000), false},
		{unwind.ArchARM64, word(0xd63f0000), true},         // blr x0
		{unwind.ArchARM64, word(0xd63f03c0), true},         // blr x30
		{unwind.ArchARM64, word(0xd63f083f), true},         // blraaz x1
		{unwind.ArchARM64, word(0xd63f0c3f), true},         // blrabz x1
		{unwind.ArchARM64, word(0xd73f0822), true},         // blraa x1, x2
		{unwind.ArchARM64, word(0xd73f0c22), true},         // blrab x1, x2
		{unwind.ArchARM64, word(0xd61f0000), false},        // br x0
		{unwind.ArchARM64, word(0xd65f03c0), false},        // ret
		{unwind.ArchARM64, word(0x14000000 | 0x20), false}, // b
	} {
		t.Run(fmt.Sprintf("%v %x", tt.arch, tt.code), func(t *testing.T) {
			j := newJitted(tt.arch, nil)
			clear(j.code[0x10 : at(2)-codeAt])
			j.callsBefore(2, 0, tt.code)
			j.stack[5], j.stack[7] = at(2), at(3)
			h := startHosts(t, tt.arch)
			switch {
			case !tt.good:
				if j.stack[7] = 7; tt.arch == unwind.ArchAMD64 {
					j.stack[7] = at(3) + 1 // leads on, but not to here
				}
				j.run(t, h, "no call", unwind.StopNoUnwindInfo)
			case tt.arch == unwind.ArchAMD64:
				j.run(t, h, "a call", unwind.StopRoot, at(2), at(3))
			default:
				j.run(t, h, "a call", unwind.StopRoot, at(2))
			}
		})
	}
}

// linkages are entries of procedure linkage tables, and others that are none.
func linkages(arch unwind.Arch) (good, bad [][]byte) {
	if arch == unwind.ArchARM64 {
		adrp, ldr, bti := []byte{0x10, 0, 0, 0xb0}, []byte{0x11, 0xde, 0x47, 0xf9}, []byte{0x5f, 0x24, 3, 0xd5}
		return [][]byte{slices.Concat(adrp, ldr), slices.Concat(bti, adrp, ldr)}, [][]byte{slices.Concat(ldr, adrp), slices.Concat(adrp, bti), slices.Concat(bti, ldr)}
	}
	return [][]byte{
			{0xff, 0x25, 1, 2, 3, 4}, {0xf2, 0xff, 0x25, 1, 2, 3, 4}, // jmp, bnd jmp
			{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1, 2}, {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1}, // behind endbr64
		}, [][]byte{
			{0xff, 0x15, 1, 2, 3, 4}, {0xff, 0x35, 1, 2, 3, 4}, {0xf3, 0xff, 0x25, 1}, {0xf3, 0x0f, 0x1e, 0xfa, 0x55}, {0x90, 0xff, 0x25}, // call, push and others
		}
}

// TestLinkageTables has callers that call through a procedure linkage table: that is no sign that they called something else.
func TestLinkageTables(t *testing.T) {
	const entry = codeAt + 0x80
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		callTo := func(from, to uint64) []byte {
			if arch == unwind.ArchARM64 {
				return binary.LittleEndian.AppendUint32(nil, 0x94000000|uint32(to-from+4)>>2&0x3ffffff)
			}
			return binary.LittleEndian.AppendUint32([]byte{0xe8}, uint32(to-from))
		}
		linked := func(entryCode []byte) *jitted {
			j := newJitted(arch, nil)
			copy(j.code[entry-codeAt:], entryCode)
			return j
		}
		caller := uint64(jitAt + 0x208) // without a table
		withoutTable := func(entryCode []byte) *jitted {
			j := linked(entryCode)
			j.Memory.Add(unwind.Addr(caller)-16, append(make([]byte, 16-len(callTo(0, 0))), callTo(caller, entry)...))
			j.stack[5] = caller
			return j
		}
		// with a table, below a frame record that leads on: arm64 looks no further than there
		belowRecord := func(entryCode []byte) *jitted {
			j := linked(entryCode)
			clear(j.code[0x10 : at(2)-codeAt])
			j.callsBefore(2, 0, callTo(at(2), entry))
			j.stack[5], j.stack[7] = at(2), at(3)
			j.stack[20], j.stack[21] = stackAt+8*30, at(3)
			j.Registers.Reg[unwind.AMD64RBP] = stackAt + 8*20
			return j
		}
		good, bad := linkages(arch)
		for _, b := range good {
			withoutTable(b).run(t, h, fmt.Sprintf("%x, without a table", b), unwind.StopNoUnwindInfo, caller)
			if arch == unwind.ArchAMD64 {
				belowRecord(b).run(t, h, fmt.Sprintf("%x, below a record", b), unwind.StopRoot, at(2), at(3))
			}
		}
		for _, b := range bad {
			withoutTable(b).run(t, h, fmt.Sprintf("%x, without a table", b), unwind.StopNoUnwindInfo)
			if arch == unwind.ArchAMD64 {
				belowRecord(b).run(t, h, fmt.Sprintf("%x, below a record", b), unwind.StopRoot, at(3))
			}
		}
	})
}

// TestExits has code whose end tells where the return address is, above stale ones.
func TestExits(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	frame := []byte{0x90, 0x90, 0x90}
	for _, tt := range []struct {
		name string
		code [][]byte
		slot int // of the return address
	}{
		{"add, ret", [][]byte{frame, {0x48, 0x83, 0xc4, 0x28, 0xc3}}, 5},
		{"add of 32 bits, pops, ret", [][]byte{frame, {0x48, 0x81, 0xc4, 0x20, 0, 0, 0, 0x5b, 0x41, 0x5c, 0xc3}}, 6},
		{"an immediate that looks like a pop", [][]byte{frame, {0x48, 0x83, 0xc4, 0x58, 0xc3}}, 11},
		{"pops", [][]byte{frame, {0x5b, 0x5d, 0x41, 0x5e, 0xf3, 0xc3}}, 3},
		{"amid the pops", [][]byte{{0x5d, 0x41, 0x5e, 0xc3}}, 2},
		{"at the return", [][]byte{{0xc3}}, 0},
		{"a tail call", [][]byte{frame, {0x48, 0x83, 0xc4, 0x10, 0xe9, 1, 2, 3, 4}}, 2},
		{"ret n", [][]byte{frame, {0x48, 0x83, 0xc4, 0x10, 0xc2, 8, 0}}, 2},
		{"a first return that leads nowhere", [][]byte{frame, {0x5b, 0xc3, 0x31, 0xc0}, frame, {0x48, 0x83, 0xc4, 0x20, 0xc3}}, 4},
		{"another function behind", [][]byte{frame, {0x48, 0x83, 0xc4, 0x20, 0xc3, 0xcc, 0xcc}, frame, {0x5b, 0x5b, 0xc3}}, 4},
		{"no frame, another function behind", [][]byte{frame, {0xc3, 0x0f, 0x1f, 0x40, 0x00}, frame, {0x5b, 0x5b, 0xc3}}, 0},
		{"before the pushes", [][]byte{{0x53, 0x41, 0x54, 0x48, 0x83, 0xec, 0x18}, frame, {0x48, 0x83, 0xc4, 0x18, 0x41, 0x5c, 0x5b, 0xc3}}, 0},
		{"between the pushes", [][]byte{{0x41, 0x54, 0x48, 0x83, 0xec, 0x18}, frame, {0x48, 0x83, 0xc4, 0x18, 0x41, 0x5c, 0x5b, 0xc3}}, 1},
		{"endbr64", [][]byte{{0xf3, 0x0f, 0x1e, 0xfa, 0x53}, frame, {0x5b, 0xc3}}, 0},
		{"HotSpot's, with a look whether to stop", [][]byte{frame, {0x48, 0x83, 0xc4, 0x10, 0x5d}, hotspotPoll, {0xc3}}, 3},
		{"at HotSpot's look whether to stop", [][]byte{hotspotPoll, {0xc3}}, 0},
		{"before HotSpot's pushes", [][]byte{hotspotProbe, {0x55, 0x48, 0x83, 0xec, 0x10}, frame, {0x48, 0x83, 0xc4, 0x10, 0x5d}, hotspotPoll,
			{0xc3}}, 0},
		{"no frame", [][]byte{{0x48, 0x8d, 0x04, 0x7f, 0xc3}}, 0},
	} {
		j := newJitted(unwind.ArchAMD64, bytes.Join(tt.code, nil))
		for i := range tt.slot { // they lead on too
			j.stack[i] = at(2)
		}
		if tt.name == "a first return that leads nowhere" {
			j.stack[1] = 1
		}
		j.stack[tt.slot], j.stack[tt.slot+2] = at(2), at(3)
		if tt.slot > 0 {
			j.stack[0] = 1 // or a leaf may have no frame
		}
		j.Registers.Reg[unwind.AMD64RBP] = 17
		j.run(t, h, tt.name, unwind.StopRoot, at(2), at(3))
	}
}

// TestFramePointerExits has code that keeps a frame pointer, with return addresses below its record.
func TestFramePointerExits(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	for name, code := range map[string][]byte{
		"leave":              {0x90, 0xc9, 0xc3},
		"mov, pop":           {0x90, 0x48, 0x89, 0xec, 0x5d, 0xc3},
		"mov as others do":   {0x90, 0x48, 0x8b, 0xe5, 0x5d, 0xc3},
		"lea, pops":          {0x90, 0x48, 0x8d, 0x65, 0xf0, 0x5b, 0x41, 0x5c, 0x5d, 0xc3},
		"lea of 32 bits":     {0x90, 0x48, 0x8d, 0xa5, 0, 0xff, 0xff, 0xff, 0x5b, 0x5d, 0xc3},
		"amid a prologue":    {0x53, 0x48, 0x83, 0xec, 0x18, 0x90, 0xc9, 0xc3},
		"without any return": {0x90},
	} {
		j := newJitted(unwind.ArchAMD64, code)
		j.stack[3], j.stack[5] = at(2)+1, at(3)+1 // not behind a call
		j.Registers.Reg[unwind.AMD64RBP] = stackAt + 8*10
		j.stack[10], j.stack[11], j.stack[13] = stackAt+8*20, at(2), at(3)
		j.run(t, h, name, unwind.StopRoot, at(2), at(3))
	}
}

// TestHugePrologues begin with frames whose size fits no int: they say nothing, and the return address is where the stack pointer
// points to, which is not aligned, so that no search finds it.
func TestHugePrologues(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	endbr := []byte{0xf3, 0x0f, 0x1e, 0xfa}
	for name, subs := range map[string][]byte{
		"as int32 it is negative": {0x48, 0x81, 0xec, 0, 0, 0, 0x80},
		"all ones":                {0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0xff},
		"the sum of two is":       {0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0x7f, 0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0x7f},
		"the sum of seven fits":   bytes.Repeat([]byte{0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0x0f}, 7),
		"a large one that counts": {0x48, 0x81, 0xec, 0xf0, 0xff, 0xff, 0x0f},
	} {
		j := newJitted(unwind.ArchAMD64, slices.Concat(endbr, subs))
		j.Registers.Reg[unwind.AMD64RSP] = stackAt + 4
		j.stack[0], j.stack[1] = at(2)<<32, at(2)>>32
		j.stack[2], j.stack[3] = at(3)<<32, at(3)>>32
		j.run(t, h, name, unwind.StopRoot, at(2), at(3))
	}
}

// deep is a stack of generated code's frames alone, n deep, with size bytes from one return address to the next. Each returns to where
// the epilogue is.
func deep(n int, size uint64, epilogue []byte) *jitted {
	const ra = jitAt + 0x200
	j := newJitted(unwind.ArchAMD64, epilogue)
	j.MaxFrames = 1024
	j.Memory.Add(ra-16, slices.Concat(make([]byte, 14), []byte{0xff, 0xd0}, epilogue, make([]byte, 512)))
	j.stack = make([]uint64, uint64(n)*size/8+2*unwind.GuessWords) // so much is read at once
	for i := range uint64(n) {
		j.stack[(i+1)*size/8-1] = ra
	}
	j.Registers.Reg[unwind.AMD64RBP] = 1
	return j
}

// TestDeepGuesses has recursion of generated code: up to max_frames where its end or the frame pointer tells, and up to GuessSearches
// frames where the stack has to be searched.
func TestDeepGuesses(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	want := func(n int) []uint64 { return slices.Repeat([]uint64{jitAt + 0x200}, n) }
	deep(1100, 0x28, []byte{0x90, 0x48, 0x83, 0xc4, 0x20, 0xc3}).run(t, h, "epilogues", unwind.StopMaxFrames, want(1023)...)
	deep(900, 0x28, []byte{0x90, 0x48, 0x83, 0xc4, 0x20, 0xc3}).run(t, h, "epilogues, all of them", unwind.StopNoUnwindInfo, want(900)...)

	j := deep(1100, 0x20, []byte{0x90})
	for i := range 1099 { // of records
		j.stack[4*i+2] = stackAt + 0x20*uint64(i+1) + 0x10
	}
	j.Registers.Reg[unwind.AMD64RBP] = stackAt + 0x10
	j.run(t, h, "frame pointers", unwind.StopMaxFrames, want(1023)...)

	deep(unwind.GuessSearches-1, 0x28, []byte{0x90}).run(t, h, "searches", unwind.StopNoUnwindInfo, want(unwind.GuessSearches-1)...)
	deep(200, 0x28, []byte{0x90}).run(t, h, "too many searches", unwind.StopNoUnwindInfo, want(unwind.GuessSearches)...)

	// fifteen words that look like return addresses and don't lead on are before each that does
	calls := map[int]int{}
	for _, n := range []int{unwind.GuessSearches, 1000} {
		j = deep(n, 61*8, []byte{0x90})
		for i := range j.stack {
			if i%61%4 == 0 && j.stack[i] == 0 {
				j.stack[i] = at(2)
			}
		}
		j.run(t, h, "long searches", unwind.StopNoUnwindInfo, want(unwind.GuessSearches)...)
		calls[n] = h[hostbpf.Loop].Calls()
	}
	if calls[1000] > calls[unwind.GuessSearches] || calls[1000] > 300*unwind.GuessSearches {
		t.Errorf("%d lookups and reads for 1000 frames, %d for %d", calls[1000], calls[unwind.GuessSearches], unwind.GuessSearches)
	}
}

// TestHostileGuesses: stacks that are made to mislead cost no more than others, as compare checks.
func TestHostileGuesses(t *testing.T) {
	eachArch(t, func(t *testing.T, arch unwind.Arch, h hosts) {
		full := func() *jitted {
			j := newJitted(arch, nil)
			for i := range j.stack {
				j.stack[i] = jitAt + 0x208
			}
			return j
		}
		sp := stackPointer(arch)
		call := []byte{0xff, 0xd0}
		if arch == unwind.ArchARM64 {
			call = []byte{0, 0, 0x3f, 0xd6}
		}

		j := full()
		j.Memory.Add(jitAt+0x208-unwind.Addr(len(call)/2), call[len(call)/2:])
		j.run(t, h, "the code before cannot be read whole", unwind.StopNoUnwindInfo)

		j = full()
		j.Memory.Add(jitAt+0x1f0, append(make([]byte, 0x18-len(call)), call...))
		want := make([]uint64, 19)
		for i := range want {
			want[i] = jitAt + 0x208
		}
		if arch == unwind.ArchAMD64 { // each word leads to the next
			j.run(t, h, "all words are return addresses", unwind.StopMaxFrames, want...)
		} else {
			j.run(t, h, "all words are return addresses", unwind.StopNoUnwindInfo, want[0])
		}

		j = full()
		j.Registers.Reg[sp]++
		j.run(t, h, "a stack pointer that is not aligned", unwind.StopNoUnwindInfo)
		j = full()
		j.Registers.Reg[sp] = ^uint64(7)
		j.run(t, h, "a stack pointer at the end of memory", unwind.StopNoUnwindInfo)
	})
}
