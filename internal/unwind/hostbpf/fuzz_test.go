package hostbpf_test

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

// source turns fuzzing input into choices; when it is used up, all choices are zero.
type source struct {
	b     []byte
	stack uint64
}

func (s *source) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

func (s *source) n(n int) int { return int(s.byte()) % n }

func (s *source) word() (v uint64) {
	for range 8 {
		v = v<<8 | uint64(s.byte())
	}
	return v
}

const (
	codeAt  = 0x5555_0000_0000
	stackAt = 0x7ffc_0000_1000

	lowStackAt = 0x1000_0000_1000
)

// address is one that a walk may meet: code, stack, or anything.
func (s *source) address(words int) uint64 {
	switch c := s.byte(); c % 8 {
	case 0, 1, 2:
		return s.code()
	case 3, 4, 5:
		return s.stack + 8*uint64(s.n(words+2))
	case 6:
		return uint64(c / 8)
	default:
		return s.word()
	}
}

// code is an address in one of the mappings.
func (s *source) code() uint64 { return codeAt + uint64(s.n(3))*0x2000 + uint64(s.byte())*8 }

func (s *source) rule(arch unwind.Arch) unwind.Rule {
	small := func() int16 { return int16(int8(s.byte())) / 4 }
	if s.n(4) != 0 { // what compilers make
		return unwind.Rule{CFA: unwind.CFAReg, Reg: stackPointer(arch), Offset: 8 * int32(1+s.n(8)), RAOffset: -1,
			FP: unwind.SaveKind(s.n(2)), FPOffset: -2}
	}
	r := unwind.Rule{CFA: unwind.CFAKind(s.n(8)), RAOffset: -1}
	r.Reg = [...]uint8{unwind.AMD64RSP, unwind.AMD64RBP, unwind.AMD64RBX, unwind.AMD64R8 + 2}[s.n(4)]
	if arch == unwind.ArchARM64 {
		r.Reg = [...]uint8{unwind.ARM64SP, unwind.ARM64FP, unwind.ARM64SP, 9}[s.n(4)]
	}
	r.Offset, r.Offset2 = 8*int32(small()), small()
	if r.CFA == unwind.CFAPLT {
		r.Offset2 = int16(s.n(18)) - 1
	}
	r.FP, r.FPOffset = unwind.SaveKind(s.n(4)), small()
	if arch == unwind.ArchAMD64 {
		r.BX, r.BXOffset = unwind.SaveKind(s.n(4)), small()
	}
	switch s.n(8) {
	case 0:
		r.RA, r.RAOffset = unwind.RAReg, int16(s.n(32))
	case 1:
		r.RAOffset = small()
	case 2, 3:
		r.FP, r.FPOffset = unwind.SaveAtCFA, -2 // what nearly every frame has
	}
	return r
}

func stackPointer(arch unwind.Arch) uint8 {
	if arch == unwind.ArchARM64 {
		return unwind.ARM64SP
	}
	return unwind.AMD64RSP
}

func (s *source) table(arch unwind.Arch) *unwind.Table {
	var b tablebuild.Builder
	at := unwind.FileAddr(0x1000)
	for range s.n(32) {
		if b.Add(at, s.rule(arch)) != nil {
			break
		}
		at += 1 + unwind.FileAddr(s.byte())*unwind.FileAddr(1+s.n(3)*7)
	}
	return b.Table(at)
}

// addCalls makes code that can be read: before many of the addresses that code() makes is a call.
func (s *source) addCalls(arch unwind.Arch, m *tape.Memory) {
	for i := range 3 {
		start := codeAt + uint64(i)*0x2000
		code := make([]byte, 0x800)
		for at := 8; at < len(code); at += 8 {
			choice := s.n(24)
			rel := s.code() - start - uint64(at)
			if arch == unwind.ArchARM64 {
				if word, ok := branch(choice, rel); ok {
					binary.LittleEndian.PutUint32(code[at-4:], word)
				}
				continue
			}
			calls := [][]byte{
				binary.LittleEndian.AppendUint32([]byte{0xe8}, uint32(rel)), binary.LittleEndian.AppendUint32([]byte{0xe8}, uint32(s.word())),
				{0xff, 0xd0}, {0x41, 0xff, 0xd2}, {0xff, 0x10}, {0xff, 0x14, 0xc8}, {0xff, 0x50, 8}, {0xff, 0x54, 0x24, 8},
				{0xff, 0x15, 1, 2, 3, 4}, {0xff, 0x90, 1, 2, 3, 4}, {0xff, 0x94, 0x24, 1, 2, 3, 4}, {0xff, 0x14, 0x25, 1, 2, 3, 4},
				{0xc3}, {0x55, 0x48, 0x89, 0xe5}, {0xf3, 0x0f, 0x1e, 0xfa},
			}
			if choice < len(calls) {
				copy(code[at-len(calls[choice]):], calls[choice])
			} else if choice == len(calls) && at >= 16 { // movabs; call
				copy(code[at-12:], append(binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8}, s.code()), 0xff, 0xd0))
			}
		}
		for at := 1; arch == unwind.ArchAMD64 && at < len(code)-8; at++ { // prologues and epilogues, whole or not, between calls
			tokens := [][]byte{
				{0x55}, {0xc3}, {0x55, 0x48, 0x89, 0xe5}, {0x48, 0x83, 0xc4, 8 * byte(s.n(17))}, {0x48, 0x81, 0xc4, byte(s.n(4)) * 8, 0, 0, byte(s.n(2))},
				{0x5b}, {0x5d}, {0x41, 0x5c}, {0xc9, 0xc3}, {0xf3, 0xc3}, {0x5d, 0xc3}, {0x53}, {0x41, 0x54}, {0x48, 0x83, 0xec, 0x10},
				{0x48, 0x81, 0xec, 0x20, 0, 0, 0}, {0x48, 0x81, 0xec, 0xf0, 0xff, 0xff, byte(s.n(256))}, {0x48, 0x8d, 0x65, 0xf0}, {0x48, 0x89, 0xec}, {0x48, 0x8b, 0xe5}, {0xc2, 8}, {0x5b, 0x5d, 0xc3},
			}
			if token := tokens[s.n(len(tokens))]; at%8+len(token) <= 4 || s.n(8) == 0 {
				at += copy(code[at:], token) - 1
			}
		}
		m.Add(unwind.Addr(start), code[:len(code)-8*s.n(3)])
	}
}

// branch is an arm64 instruction that may be a call.
func branch(choice int, rel uint64) (uint32, bool) {
	words := []uint32{
		0x94000000 | uint32(rel/4)&0x3ffffff, 0x94000000 | uint32(rel/4)&0x3ffffff, 0xd63f0000, 0xd63f0100, 0xd63f093f, 0xd63f0d1f, 0xd73f0a1f,
		0xd73f0e01, 0xd65f03c0, 0xa9bf7bfd, 0x910003fd, 0xd503233f,
	}
	if choice < len(words) {
		return words[choice], true
	}
	return 0, false
}

// tape makes a process of three mappings and a stack.
func (s *source) tape(arch unwind.Arch) *tape.Tape {
	p := &tape.Tape{Arch: arch, MaxFrames: 1 + s.n(64)*s.n(17), ThreadPointer: unwind.Addr(s.byte()) * 8}
	for i := range 3 {
		m := tape.Mapping{Mapping: unwind.Mapping{Start: unwind.Addr(codeAt + i*0x2000), End: unwind.Addr(codeAt + i*0x2000 + 0x800)}}
		m.Bias = uint64(m.Start) - 0x1000
		switch c := s.n(16); c {
		case 0:
		case 1:
			m.NoTable = true
		default:
			m.Table = s.table(arch)
			if c > 12 {
				m.Go = &gopclntab.Offsets{GReg: 14, GM: 48, MG0: 0, MCurg: 24, MGSignal: 16, GStackHi: 8, GSchedSP: 56, GSchedPC: 64, GSchedBP: 96, GSchedLR: 88}
			}
		}
		p.Mappings = append(p.Mappings, m)
	}
	words := 16 + s.n(240)
	s.stack = stackAt
	switch s.n(4) {
	case 0, 1:
		// All addresses of code are good for a stack too, above the real one: whatever is taken for a saved register leads
		// on, and somewhere else than the right one.
		s.stack = lowStackAt
		var code []byte
		for range 0x6000 / 8 {
			code = binary.LittleEndian.AppendUint64(code, s.code())
		}
		p.Memory.Add(codeAt, code)
	case 2:
		s.addCalls(arch, &p.Memory)
	}
	stack := make([]byte, 0, 8*words)
	returns := 128 + s.byte()/2 // how much of the stack are return addresses: the more, the deeper are walks
	for range words {
		a := s.address(words)
		if s.byte() < returns {
			a = s.code()
		}
		stack = binary.LittleEndian.AppendUint64(stack, a)
	}
	p.Memory.Add(unwind.Addr(s.stack), stack)
	if s.n(4) == 0 { // another one, apart
		p.Memory.Add(unwind.Addr(s.stack)+unwind.Addr(len(stack))+4096, stack)
	}
	for i := range p.Registers.Reg {
		p.Registers.Reg[i] = s.address(words)
	}
	p.Registers.Known = 0xffff
	if arch == unwind.ArchARM64 {
		p.Registers.Known = 0xffffffff
	}
	if s.n(8) != 0 {
		p.Registers.Reg[stackPointer(arch)] = s.stack + 8*uint64(s.n(8))
	}
	p.Registers.PC = unwind.Addr(s.code())
	if s.n(16) == 0 {
		p.Registers.PC = unwind.Addr(s.address(words))
	}
	return p
}

var randomWalks = flag.Int("walks", 1000, "how many processes TestRandomWalks makes up")

// randomInput is what FuzzWalk takes.
func randomInput(random *rand.Rand) []byte {
	b := make([]byte, 12000)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestRandomWalks is FuzzWalk over much that no coverage leads to.
func TestRandomWalks(t *testing.T) {
	random := rand.New(rand.NewPCG(7, uint64(*randomWalks)))
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		h := startHosts(t, arch)
		for range *randomWalks {
			s := source{b: randomInput(random)}
			p := s.tape(arch)
			load(t, h, p.Mappings)
			compare(t, h, p, &p.Memory)
			if comparePlain(t, h, p, &p.Memory); t.Failed() {
				return
			}
		}
	}
}

// FuzzWalk: hostile registers, memory and tables crash nothing, and everyone finds the same.
func FuzzWalk(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		f.Add(randomInput(random))
	}
	all := map[unwind.Arch]hosts{
		unwind.ArchAMD64: startHosts(f, unwind.ArchAMD64),
		unwind.ArchARM64: startHosts(f, unwind.ArchARM64),
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for arch, h := range all {
			s := source{b: b}
			p := s.tape(arch)
			load(t, h, p.Mappings)
			compare(t, h, p, &p.Memory)
		}
	})
}
