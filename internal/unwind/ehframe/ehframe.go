// Package ehframe turns call frame information, .eh_frame and .debug_frame, into unwind tables.
//
// CIE: Common Information Entry, what many functions share. FDE: Frame Description Entry, one function's instructions
// for the table of rules. CFA: canonical frame address, the stack pointer's value just before the call.
//
// Sources: DWARF 5, 6.4; LSB Core 5.0, 10.6; System V ABI AMD64 1.0, 3.7; "DWARF for the Arm 64-bit Architecture" 2023Q3.
package ehframe

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

// MaxSection is how much of a section is read, decompressed: 256 MiB.
const MaxSection = 256 << 20

// Stats says what became of a section.
type Stats struct {
	CIEs, FDEs    int          // understood
	Malformed     int          // entries that make no sense
	Outside       int          // FDEs for addresses in no executable segment: discarded functions
	Rows          int          // of the table
	Inexpressible [Reasons]int // rows that became CFANone
	LostSaves     int          // rows where a saved register could not be expressed
}

// EHFrame builds the table of a file's .eh_frame; an empty one if it has none. It is found by its section or, in files
// without section headers, by PT_GNU_EH_FRAME. Errors are of reading the section, or that there are too many entries, or
// more than the file's Budget has room for (the table, which counts in it, is good as far as it goes then); malformed
// entries are counted and left out.
func EHFrame(f *elffile.File) (*unwind.Table, Stats, error) {
	s, err := findEHFrame(f)
	if err != nil || s == nil {
		return &unwind.Table{}, Stats{}, err
	}
	return s.table(f)
}

// DebugFrame builds the table of a file's .debug_frame; an empty one if it has none. Errors are as EHFrame's.
func DebugFrame(f *elffile.File) (*unwind.Table, Stats, error) {
	s, err := findDebugFrame(f)
	if err != nil || s == nil {
		return &unwind.Table{}, Stats{}, err
	}
	return s.table(f)
}

// findDebugFrame reads .debug_frame; nil if there is none.
func findDebugFrame(f *elffile.File) (*section, error) {
	sec := f.Section(".debug_frame")
	if sec == nil {
		sec = f.Section(".zdebug_frame")
	}
	if sec == nil {
		return nil, nil
	}
	data, err := f.SectionData(sec, MaxSection)
	if err != nil {
		return nil, err
	}
	return &section{data: data, debug: true, arch: f.Arch}, nil
}

// table runs all FDEs in the order of their addresses. The section is used up.
func (s *section) table(f *elffile.File) (*unwind.Table, Stats, error) {
	var st Stats
	held := f.Budget().Used() - uint64(len(s.data)) // all else is given back in the end
	cies, fdes, err := s.entries(f, &st)
	if err != nil {
		s.data = nil
		f.Budget().Keep(held)
		return &unwind.Table{}, st, err
	}
	byAddr := func(a, b fde) int {
		if c := cmp.Compare(a.start, b.start); c != 0 {
			return c
		}
		return cmp.Compare(a.off, b.off)
	}
	if !slices.IsSortedFunc(fdes, byAddr) {
		slices.SortFunc(fdes, byAddr)
	}
	// Two FDEs for one start are copies of one function that the linker folded: the first counts.
	fdes = slices.CompactFunc(fdes, func(a, b fde) bool { return a.start == b.start })

	r := runner{sec: s, stats: &st, b: tablebuild.Builder{Budget: f.Budget()}}
	r.m = machine{sec: s, emit: r.emit}
	var end uint64
	for i, d := range fdes {
		if i+1 < len(fdes) { // overlapping: the one that starts later is more exact
			d.end = min(d.end, fdes[i+1].start)
		}
		if d.start > end {
			r.add(end, unwind.Rule{})
		}
		r.function(d, cies[d.cie])
		if r.err != nil {
			break
		}
		end = d.end
	}
	entries := s.bytes(cies, fdes)
	s.data, r.m, cies, fdes = nil, machine{}, nil, nil // the rows need the room
	f.Budget().Give(entries)
	t := r.b.Table(unwind.FileAddr(end))
	st.Rows = len(t.Rows)
	return t, st, r.b.Err()
}

// bytes is what a section and its entries take.
func (s *section) bytes(cies []*cie, fdes []fde) uint64 {
	return uint64(len(s.data)) + uint64(len(cies))*cieBytes + uint64(cap(fdes))*fdeBytes
}

// runner runs one FDE after the other.
type runner struct {
	sec    *section
	b      tablebuild.Builder
	m      machine
	signal bool
	stats  *Stats
	err    error
}

// function adds the rows of one FDE.
func (r *runner) function(d fde, p *cie) {
	r.signal = p.signal
	m := &r.m
	m.cie, m.state, m.loc, m.end = p, p.initial, d.start, d.end
	m.c = cursor{b: r.sec.data[:d.ins+d.insN], pos: int(d.ins)}
	m.stack, m.stop, m.failed = m.stack[:0], stopEnd, false
	m.run()
	if m.stop != stopEnd {
		r.stats.Inexpressible[ReasonInstruction]++
		r.add(m.loc, unwind.Rule{})
	}
}

func (r *runner) emit(loc uint64, row *state) bool {
	rule, lost, reason := r.sec.rule(row, r.signal)
	if reason != ReasonNone {
		r.stats.Inexpressible[reason]++
	}
	if lost {
		r.stats.LostSaves++
	}
	return r.add(loc, rule)
}

// add adds a row; false if the table is full.
func (r *runner) add(loc uint64, rule unwind.Rule) bool {
	err := r.b.Add(unwind.FileAddr(loc), rule)
	if err == nil {
		return true
	}
	var full *tablebuild.FullError
	if errors.As(err, &full) && full.What == "rules" {
		r.stats.Inexpressible[ReasonRules]++
		return true
	}
	r.err = err
	return false
}

// entries reads all CIEs and then the headers of all FDEs. Only what the walk from entry to entry meets is a CIE, so
// each is parsed once, wherever hostile pointers point.
func (s *section) entries(f *elffile.File, st *Stats) ([]*cie, []fde, error) {
	var cies []*cie
	index := map[int]uint32{}
	others := uint64(0)
	for off := 0; ; {
		e, ok, _ := s.next(off)
		if !ok {
			break
		}
		off = e.end
		if !e.cie {
			others++
			continue
		}
		p, ok := s.parseCIE(e)
		if !ok {
			st.Malformed++
			continue
		}
		if len(cies) >= maxCIEs {
			return nil, nil, fmt.Errorf("reading CIEs: %w", elffile.ErrTooLarge)
		}
		if err := f.Budget().Take(cieBytes, "CIEs"); err != nil {
			return nil, nil, err
		}
		index[e.off] = uint32(len(cies))
		cies = append(cies, p)
	}
	st.CIEs = len(cies)
	if others > maxFDEs {
		return nil, nil, fmt.Errorf("reading %d FDEs: %w", others, elffile.ErrTooLarge)
	}
	if err := f.Budget().Take(others*fdeBytes, "FDEs"); err != nil {
		return nil, nil, err
	}
	return cies, s.frames(f, cies, index, make([]fde, 0, others), st), nil
}

// frames appends the FDEs that are understood to fdes.
func (s *section) frames(f *elffile.File, cies []*cie, index map[int]uint32, fdes []fde, st *Stats) []fde {
	segments := f.Executable()
	lastRef, lastID, known := -1, uint32(0), false
	for off := 0; ; {
		e, ok, bad := s.next(off)
		if bad {
			st.Malformed++
		}
		if !ok {
			return fdes
		}
		off = e.end
		if e.cie {
			continue
		}
		if e.ref != lastRef {
			lastRef = e.ref
			lastID, known = index[e.ref]
		}
		if !known {
			st.Malformed++
			continue
		}
		d, ok := s.parseFDE(e, cies[lastID])
		if !ok {
			st.Malformed++
			continue
		}
		d.cie = lastID
		if !clip(&d, segments) {
			st.Outside++
			continue
		}
		st.FDEs++
		fdes = append(fdes, d)
	}
}

// clip cuts an FDE at the end of the executable segment that it begins in; ok is false if there is none.
func clip(d *fde, segments []unwind.Segment) (ok bool) {
	for _, g := range segments {
		if lead := d.start - uint64(g.VAddr); d.start >= uint64(g.VAddr) && lead < g.MemSize {
			if room := g.MemSize - lead; d.end-d.start > room {
				d.end = d.start + room
			}
			return d.end > d.start
		}
	}
	return false
}

// findEHFrame reads .eh_frame; nil if there is none.
func findEHFrame(f *elffile.File) (*section, error) {
	if sec := f.Section(".eh_frame"); sec != nil {
		data, err := f.SectionData(sec, MaxSection)
		if err != nil {
			return nil, err
		}
		return &section{data: data, addr: uint64(sec.Addr), arch: f.Arch}, nil
	}
	// A separate debug file has its program headers, but not what they speak of.
	for i := range f.Sections {
		if f.Sections[i].Name == ".eh_frame" {
			return nil, nil
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			return fromHeader(f, p)
		}
	}
	return nil, nil
}
