// Package unwind holds the values that stack unwinding is made of: addresses, mappings, rules, tables and the frames and
// samples that a walk produces. It has no state and makes no system calls.
package unwind

import "unsafe"

// Addr is a virtual address inside a process.
type Addr uint64

// FileAddr is an ELF virtual address: what st_value, p_vaddr and .eh_frame speak of. It is the same in every process
// that maps the file.
type FileAddr uint64

// FileOffset is a position in a file, in bytes.
type FileOffset uint64

// Arch is an instruction set that can be unwound.
type Arch uint8

// The architectures, in no particular order; the zero value is none.
const (
	ArchNone Arch = iota
	ArchAMD64
	ArchARM64
)

// String returns Go's name of the architecture.
func (a Arch) String() string {
	switch a {
	case ArchAMD64:
		return "amd64"
	case ArchARM64:
		return "arm64"
	}
	return "none"
}

// CodeAddr is the address in a word that was saved as one of code. arm64 puts pointer authentication codes and tags above
// the 48 bits of a user-space address; code above 2^48, which needs an explicit request for 52-bit addresses, would be cut.
func (a Arch) CodeAddr(word uint64) Addr {
	if a == ArchARM64 {
		word &= 1<<48 - 1
	}
	return Addr(word)
}

// DWARF register numbers. amd64: System V ABI AMD64 1.0, figure 3.36. arm64: "DWARF for the Arm 64-bit Architecture"
// 2023Q3, table 4.1.
const (
	AMD64RAX = 0
	AMD64RDX = 1
	AMD64RCX = 2
	AMD64RBX = 3
	AMD64RSI = 4
	AMD64RDI = 5
	AMD64RBP = 6
	AMD64RSP = 7
	AMD64R8  = 8
	AMD64R15 = 15
	AMD64RIP = 16

	ARM64FP = 29
	ARM64LR = 30
	ARM64SP = 31
)

// Segment is a PT_LOAD program header: the only link between offsets in a file and its ELF virtual addresses.
//
//	file     |......[Offset .......... Offset+FileSize)......|
//	                    |  +(VAddr-Offset)
//	ELF      |......[VAddr  .......... VAddr+FileSize )......|
type Segment struct {
	Offset   FileOffset
	VAddr    FileAddr
	FileSize uint64
	MemSize  uint64
	Exec     bool
}

// FileAddr converts an offset inside the segment; ok is false outside it.
func (s Segment) FileAddr(o FileOffset) (_ FileAddr, ok bool) {
	if o < s.Offset || uint64(o-s.Offset) >= s.FileSize {
		return 0, false
	}
	return s.VAddr + FileAddr(o-s.Offset), true
}

// Extent is a range of a file's addresses, [Start, End): a function's code, as a rule.
type Extent struct{ Start, End FileAddr }

// ExtentBytes is what an Extent takes in memory.
const ExtentBytes = uint64(unsafe.Sizeof(Extent{}))

// Mapping is one executable range of a process's address space.
//
//	process  |......[Start ............ End)......|
//	                    |  -Start +Offset
//	file     |......[Offset ...................)..|
//	                    |  Segment.FileAddr
//	ELF      |......[Start-Bias ......  End-Bias).|
type Mapping struct {
	Start, End Addr
	Offset     FileOffset
	// Bias is what to subtract from an Addr in the mapping to get its FileAddr; it is known once the file's segments
	// are, see SetBias.
	Bias uint64
}

// Contains tells whether a lies in the mapping.
func (m Mapping) Contains(a Addr) bool { return a >= m.Start && a < m.End }

// FileAddr converts an address inside the mapping.
func (m Mapping) FileAddr(a Addr) FileAddr { return FileAddr(uint64(a) - m.Bias) }

// Addr converts an ELF virtual address of the mapped file into this process.
func (m Mapping) Addr(f FileAddr) Addr { return Addr(uint64(f) + m.Bias) }

// SetBias derives Bias from the segment that holds the mapping's offset; ok is false when no executable segment fits. Where
// segments share pages of the file (see SharePages) it takes the first one: SetBiasAmong knows better.
func (m *Mapping) SetBias(segments []Segment, pageSize uint64) (ok bool) {
	for _, s := range segments {
		if bias, ok := s.bias(m, pageSize); ok {
			m.Bias = bias
			return true
		}
	}
	return false
}

// Biases counts how many of a process's mappings of one file may have a bias. The zero value counts none.
type Biases struct {
	votes    map[uint64]vote
	mappings int
}

// vote is how many mappings may have a bias, and which of them was the last.
type vote struct{ n, last int }

// Add counts a mapping: once for each bias that it has if it is of one of the segments.
func (b *Biases) Add(m Mapping, segments []Segment, pageSize uint64) {
	if b.votes == nil {
		b.votes = map[uint64]vote{}
	}
	b.mappings++
	for _, s := range segments {
		bias, ok := s.bias(&m, pageSize)
		if !ok {
			continue
		}
		if v := b.votes[bias]; v.last != b.mappings {
			b.votes[bias] = vote{v.n + 1, b.mappings}
		}
	}
}

// Len is how many biases were seen.
func (b *Biases) Len() int { return len(b.votes) }

// SetBiasAmong is SetBias for files whose segments share pages: a mapping's offset may then be of several. all counts the
// process's mappings of the file. Those of one image have the same bias, so the one counts that most of them can have, and among
// equals the one that is 0, that of a program at its own addresses.
func (m *Mapping) SetBiasAmong(all *Biases, segments []Segment, pageSize uint64) (ok bool) {
	most := -1
	for _, s := range segments {
		bias, fits := s.bias(m, pageSize)
		if !fits {
			continue
		}
		if n := all.votes[bias].n; n > most || n == most && bias == 0 {
			m.Bias, most, ok = bias, n, true
		}
	}
	return ok
}

// bias is what the mapping's Bias is if it is of this segment; ok is false if it cannot be. The kernel maps whole pages, so a
// segment's first page may start before the segment does.
func (s Segment) bias(m *Mapping, pageSize uint64) (_ uint64, ok bool) {
	if !s.Exec || m.Offset < s.Offset-FileOffset(uint64(s.Offset)%pageSize) || m.Offset >= s.Offset+FileOffset(s.FileSize) {
		return 0, false
	}
	return uint64(m.Start) - uint64(m.Offset) - (uint64(s.VAddr) - uint64(s.Offset)), true
}

// SharePages tells whether executable segments at different distances from their places in the file share pages of it.
func SharePages(segments []Segment, pageSize uint64) bool {
	for i, a := range segments {
		for _, b := range segments[i+1:] {
			if !a.Exec || !b.Exec || uint64(a.VAddr)-uint64(a.Offset) == uint64(b.VAddr)-uint64(b.Offset) {
				continue
			}
			if a.Offset > b.Offset {
				a, b = b, a
			}
			if uint64(b.Offset)&^(pageSize-1) < uint64(a.Offset)+a.FileSize {
				return true
			}
		}
	}
	return false
}
