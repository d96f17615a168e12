package codeflow

import (
	"debug/elf"
	"errors"
	"maps"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// findStarts collects functions' starts from symbols, sections, the entry point, and from what code calls or takes the
// address of, if it looks like a function and nothing says that it is a label in one.
func (a *analyzer) findStarts() error {
	held := a.f.Budget().Used()
	defer func() {
		a.extents = nil
		a.f.Budget().Keep(held)
	}()
	tables := 0
	for i := range a.f.Sections {
		switch s := &a.f.Sections[i]; {
		case s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM:
			if tables++; tables <= maxTables {
				a.symbols(s)
			}
		case s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0: // .init and .fini have no symbols in stripped files
			a.start(s.Addr)
		}
	}
	a.sortExtents()
	a.start(a.f.Entry)
	a.sure(a.f.Entry)
	seen, err := a.targets()
	if err != nil {
		return err
	}
	sorted := slices.Sorted(maps.Keys(seen))
	a.fallen(seen, sorted)
	for _, at := range slices.Backward(sorted) { // so that each ends where the next is known to begin
		r, x := a.region(at), seen[at]
		off := int(at - r.at)
		// The bytes of one call may be those of something else.
		if r.start[off] && r.owned == nil || x.calls < 2 && x.label || x.calls == 0 && a.inside(at) {
			continue
		}
		if (off == 0 || a.m.boundary(r.code[:off], at)) && a.plausible(r, off, maxDepth) >= trialEndless {
			r.start[off] = true
			if x.calls > 1 || at%functionAlign == 0 {
				a.sure(at)
			}
		}
	}
	return nil
}

// target is what is known of an address that code calls or takes.
type target struct {
	calls uint8 // as far as 2
	label bool  // code leads there that is of the same function
}

// targets searches code for calls, and for addresses that it takes.
func (a *analyzer) targets() (map[unwind.FileAddr]target, error) {
	seen := map[unwind.FileAddr]target{}
	buf := make([]byte, 64<<10)
	left := uint64(maxCallers)
	for _, g := range a.f.Code() {
		size := min(g.FileSize, left)
		left -= size
		for off := uint64(0); off < size; off += uint64(len(buf)) - 16 {
			b := buf[:min(uint64(len(buf)), size-off)]
			if err := a.f.ReadAddr(b, g.VAddr+unwind.FileAddr(off)); err != nil {
				if errors.Is(err, elffile.ErrTruncated) || errors.Is(err, elffile.ErrNoData) {
					break
				}
				return nil, err
			}
			a.m.calls(b, g.VAddr+unwind.FileAddr(off), func(at, behind unwind.FileAddr, called bool) {
				r := a.region(at)
				if r == nil {
					return
				}
				x, known := seen[at]
				if !known && (len(seen) >= maxTargets || !a.take(targetBytes, "calls")) {
					return
				}
				switch {
				case called && a.f.Arch == unwind.ArchARM64:
					x.calls = 2 // no instruction is in the midst of another
				case called && x.calls < 2:
					x.calls++
				case !called && !x.label:
					x.label = a.leadsTo(r, behind, at)
				}
				seen[at] = x
			})
		}
	}
	return seen, nil
}
