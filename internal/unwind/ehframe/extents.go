package ehframe

import (
	"cmp"
	"errors"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Extents returns what the FDEs of .eh_frame and .debug_frame are for, in ascending order, each start once. An error says what
// is missing; the rest is there. It counts in f's Budget, by its capacity.
func Extents(f *elffile.File) ([]unwind.Extent, error) {
	eh, ehErr := findEHFrame(f)
	list, err := appendExtents(nil, f, eh)
	debug, debugErr := findDebugFrame(f)
	list, err2 := appendExtents(list, f, debug)
	byStart := func(a, b unwind.Extent) int { return cmp.Compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(list, byStart) {
		slices.SortStableFunc(list, byStart)
	}
	list = slices.CompactFunc(list, func(a, b unwind.Extent) bool { return a.Start == b.Start })
	return list, errors.Join(ehErr, err, debugErr, err2)
}

// appendExtents appends what the FDEs of a section are for, which is used up; s may be nil.
func appendExtents(list []unwind.Extent, f *elffile.File, s *section) ([]unwind.Extent, error) {
	if s == nil {
		return list, nil
	}
	before := f.Budget().Used() - uint64(len(s.data)) // with the list that there is
	cies, fdes, err := s.entries(f, &Stats{})
	if err != nil {
		s.data = nil
		f.Budget().Keep(before)
		return list, err
	}
	entries := s.bytes(cies, fdes)
	s.data, cies = nil, nil
	n := len(list) + len(fdes)
	if err := f.Budget().Take(uint64(n)*unwind.ExtentBytes, "functions"); err != nil {
		f.Budget().Give(entries)
		return list, err
	}
	all := append(make([]unwind.Extent, 0, n), list...)
	for _, d := range fdes {
		all = append(all, unwind.Extent{Start: unwind.FileAddr(d.start), End: unwind.FileAddr(d.end)})
	}
	f.Budget().Give(entries + uint64(cap(list))*unwind.ExtentBytes)
	return all, nil
}
