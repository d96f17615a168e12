package python

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Compilers put those parts of a function that a training run never came to into a fragment of its own, elsewhere: of the loop of
// Debian's 3.15 all but 844 bytes. It has no symbol once the file is stripped, but an entry in the unwind table, and the function jumps
// into it, also behind its first instruction, which nothing else does.
const (
	maxLoop      = 1 << 20 // bytes of one part; the largest known has a tenth of it
	maxFragments = 8
	maxLookups   = 256     // in the unwind table
	maxDecoded   = 8 << 20 // bytes of code that are looked through
	// surePlaces is how many places behind its first instruction a part is jumped to that does not jump back: what is no instruction may
	// look like a jump.
	surePlaces = 3
)

// findLoop returns where the code of a function lies, with its fragments, sorted.
func findLoop(f *elffile.File, s *elffile.Symbol) ([]unwind.Extent, error) {
	table, err := ehframe.NewFunctions(f)
	if err != nil {
		return nil, fmt.Errorf("looking for the parts of the interpreter's loop: %w", err)
	}
	first := unwind.Extent{Start: s.Value, End: s.Value + unwind.FileAddr(s.Size)}
	if x, ok, err := table.Extent(s.Value); err != nil {
		return nil, fmt.Errorf("looking for the interpreter's loop: %w", err)
	} else if ok && x.Start == s.Value {
		first.End = max(first.End, x.End)
	}
	if first.End == first.Start {
		return nil, fmt.Errorf("the interpreter's loop has no size: %w", runtimes.ErrUnsupported)
	}
	parts := []unwind.Extent{first}
	left, bytes := maxLookups, unwind.FileAddr(maxDecoded)
	rejected := map[unwind.FileAddr]bool{}
	for n := 0; n < len(parts) && len(parts) < maxFragments; n++ {
		targets, err := outside(f, parts[n])
		if err != nil {
			return nil, err
		}
		var last unwind.Extent
		for _, to := range targets {
			if within(parts, to) || to >= last.Start && to < last.End || left == 0 || len(parts) == maxFragments {
				continue
			}
			left--
			x, ok, err := table.Extent(to)
			if err != nil {
				return nil, fmt.Errorf("looking for parts of the interpreter's loop: %w", err)
			}
			if !ok || to == x.Start { // a jump to a first instruction may be a tail call
				continue
			}
			if last = x; x.End-x.Start > maxLoop || x.End-x.Start > bytes || rejected[x.Start] {
				continue
			}
			bytes -= x.End - x.Start
			back, err := outside(f, x)
			if err != nil {
				return nil, err
			}
			into := 0
			for _, to := range targets {
				if to > x.Start && to < x.End {
					into++
				}
			}
			if into >= surePlaces || slices.ContainsFunc(back, func(to unwind.FileAddr) bool { return within(parts, to) }) {
				parts = append(parts, x)
			} else {
				rejected[x.Start] = true
			}
		}
	}
	return merge(parts), nil
}

// within tells whether one of the extents has an address.
func within(all []unwind.Extent, a unwind.FileAddr) bool {
	return slices.ContainsFunc(all, func(x unwind.Extent) bool { return a >= x.Start && a < x.End })
}

// merge sorts extents, and makes one of those that touch.
func merge(all []unwind.Extent) []unwind.Extent {
	slices.SortFunc(all, func(a, b unwind.Extent) int { return cmp.Compare(a.Start, b.Start) })
	out := all[:1]
	for _, x := range all[1:] {
		if last := &out[len(out)-1]; x.Start <= last.End {
			last.End = max(last.End, x.End)
			continue
		}
		out = append(out, x)
	}
	return out
}

// outside reads a part of the code, and returns its jumps.
func outside(f *elffile.File, x unwind.Extent) ([]unwind.FileAddr, error) {
	code, err := readPart(f, x)
	if err != nil {
		return nil, err
	}
	return leaving(f.Arch, code, x.Start), nil
}

// leaving is jumps, sorted, each once.
func leaving(arch unwind.Arch, code []byte, at unwind.FileAddr) []unwind.FileAddr {
	out := jumps(arch, code, at)
	slices.Sort(out)
	return slices.Compact(out)
}

// readPart reads code.
func readPart(f *elffile.File, x unwind.Extent) ([]byte, error) {
	if x.End-x.Start > maxLoop {
		return nil, fmt.Errorf("%d bytes of the interpreter's loop: %w", x.End-x.Start, runtimes.ErrUnsupported)
	}
	code := make([]byte, x.End-x.Start)
	if err := f.ReadAddr(code, x.Start); err != nil {
		return nil, fmt.Errorf("reading the interpreter's loop: %w", err)
	}
	return code, nil
}

// jumps returns the targets of the direct jumps in code at an address that lead out of it.
func jumps(arch unwind.Arch, code []byte, at unwind.FileAddr) (out []unwind.FileAddr) {
	end := at + unwind.FileAddr(len(code))
	add := func(to unwind.FileAddr) {
		if to < at || to >= end {
			out = append(out, to)
		}
	}
	if arch == unwind.ArchARM64 {
		for i := 0; i+4 <= len(code); i += 4 {
			if offset, ok := arm64Jump(binary.LittleEndian.Uint32(code[i:])); ok {
				add(at + unwind.FileAddr(i) + unwind.FileAddr(offset))
			}
		}
	} else {
		for next, ins := range amd64Instructions(code) {
			if to, ok := ins.Args[0].(x86asm.Rel); ok && ins.Op != x86asm.CALL {
				add(at + unwind.FileAddr(next) + unwind.FileAddr(to))
			}
		}
	}
	return out
}

// arm64Jump decodes b, b.cond, cbz, cbnz, tbz and tbnz: Arm ARM (DDI 0487), C4.1.66.
func arm64Jump(v uint32) (offset int64, ok bool) {
	switch {
	case v>>26 == 0b000101: // b
		return int64(int32(v<<6)>>6) * 4, true
	case v>>24 == 0b01010100, v>>25&0x3f == 0b011010: // b.cond; cbz, cbnz
		return int64(int32(v<<8)>>13) * 4, true
	case v>>25&0x3f == 0b011011: // tbz, tbnz
		return int64(int32(v<<13)>>18) * 4, true
	}
	return 0, false
}
