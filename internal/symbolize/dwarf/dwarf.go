// Package dwarf names addresses of native code by DWARF debug information, versions 2 to 5: functions with the calls that
// were inlined into them, and their source lines. It reads by ReadAt only, and decodes no more than the units that the
// asked-for addresses fall into.
//
// Of a unit, three things are made as they are wanted, each small and each in a cache with a limit: a table of the
// functions that have code (scan), for one function the tree of what was inlined into it (tree), and of its line program
// the state at every some hundred rows (lineTable), from which the rows around an address are run again.
//
//	address -> index -> unit -> scan -> function -> tree -> chain of calls -> names, files
//	                     \-> lineTable -> rows near the address -> line
//
// Debug information is as hostile as any file. Every offset, length, chain of references and depth is bounded. What is
// kept counts in the file's elffile.Budget, and what a lookup does is counted in steps.
//
// Words as in the standard: a unit is a compilation unit with its tree of DIEs (debugging information entries); an
// abbreviation says which attributes a DIE has, a form how a value is written; a skeleton unit stands for one in a .dwo
// file; a supplementary file (dwz's "alternate" one) has what several files share.
//
// Layouts: DWARF Debugging Information Format, versions 2 (1993), 3 (2005), 4 (2010) and 5 (2017); the page DebugFission of
// GCC's wiki for split units of version 4 and .dwp files of version 2; the manual of dwz 0.15 for GNU_ref_alt.
package dwarf

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

var (
	// ErrNoDWARF: the file has no debug information.
	ErrNoDWARF = errors.New("no DWARF debug information")
	// ErrNotCovered: no unit has the address.
	ErrNotCovered = errors.New("no unit covers the address")
	// ErrFormat: the debug information contradicts itself or the standard.
	ErrFormat = errors.New("malformed debug information")
	// ErrTooMuchWork: a lookup would have taken more steps than Options allow.
	ErrTooMuchWork = errors.New("too much work")
	// ErrNoSplit: a .dwo file was not found; what the skeleton unit has is used.
	ErrNoSplit = errors.New("no split unit")
	// ErrNoSupplement: a supplementary file is wanted and was not given.
	ErrNoSupplement = errors.New("no supplementary file")
)

const (
	defaultBudget = 64 << 20
	defaultSteps  = 1 << 27

	defaultSpillSize = 1 << 20

	// MaxInlined is how many inlined calls of a chain are returned, the innermost; the function around them follows.
	MaxInlined = 63
)

// Options say where the other files are and bound what lookups take. Zero values mean the defaults.
type Options struct {
	// Supplement is the supplementary file, which .gnu_debugaltlink or .debug_sup names.
	Supplement *elffile.File
	// Package is the .dwp file with the split units.
	Package *elffile.File
	// OpenSplit opens a .dwo file that a skeleton unit names, as the compiler was told to name it, in the directory that it
	// ran in. The io.Closer may be nil. It is called again if the file was closed since, to make room for others.
	OpenSplit func(name, compDir string, id uint64) (*elffile.File, io.Closer, error)

	// MaxSteps is how many DIEs, rows of lines, ranges and the like one lookup, or Open, may look at; 128 Mi, some seconds.
	MaxSteps int
	// Spill, if it is not nil, makes a place outside of memory for so many bytes, where large sections that are compressed are
	// decompressed to. It is closed with the file that the section is of. An error, also of writing to it, means that they
	// have to fit the budget.
	Spill func(size uint64) (Spill, error)
	// SpillSize is from how many bytes on a section is large; 1 MiB.
	SpillSize uint64
	// Stop is asked now and then; Open and lookups end with its error.
	Stop func() error
}

// Spill is a place for the bytes of a section: a temporary file, as a rule.
type Spill interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Stats count what went wrong, and how much was done.
type Stats struct {
	MissingSplit int    // split units that were not found
	Failed       int    // units, functions or line tables that could not be decoded, wholly or in part
	BytesRead    uint64 // of sections that are not compressed
	Decoded      int    // units, functions, pieces of line tables
}

// Data finds functions and lines by address. It is for one goroutine at a time.
type Data struct {
	opts   Options
	budget *elffile.Budget
	pages  *pages
	cache  *cache
	// cacheLimit is how many bytes of what was decoded are kept, at most.
	cacheLimit uint64
	main       *object
	dwp        *object
	code       []unwind.Extent
	index      index

	splits  *simplelru.LRU[uint64, *object] // by the skeleton's offset
	closing []*object                       // gone from splits

	held     uint64 // bytes taken from the budget
	objects  uint32 // ids given out
	steps    int    // until Stop is asked
	left     int    // after those
	maxSteps int
	stats    Stats
	problems []error
}

// Open reads the headers of f's units and which addresses they cover. f's reader, and those of the files in Options, must
// stay open as long as the Data is used. It returns ErrNoDWARF if there is none; another error is of reading the file, or
// it is an ErrFormat, ErrTooMuchWork or *elffile.TooLargeError. What a Budget of f lacks is one of the last.
func Open(f *elffile.File, o Options) (*Data, error) {
	budget := f.Budget()
	if budget == nil {
		budget = elffile.NewBudget("debug information", defaultBudget)
	}
	if o.SpillSize == 0 {
		o.SpillSize = defaultSpillSize
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = defaultSteps
	}
	d := &Data{opts: o, budget: budget, maxSteps: o.MaxSteps, left: o.MaxSteps, code: f.CodeExtents()}
	var err error
	if d.pages, err = newPages(); err != nil {
		return nil, err
	}
	if err := d.take(pagesReserve, "pages of debug information"); err != nil {
		return nil, err
	}
	if d.cache, err = newCache(); err != nil {
		return nil, err
	}
	if err := d.newSplits(); err != nil {
		return nil, err
	}
	d.main = d.newObject(f, "")
	if o.Supplement != nil {
		d.main.alt = d.newObject(o.Supplement, "")
	}
	if o.Package != nil {
		d.dwp = d.newObject(o.Package, ".dwo")
		d.dwp.pack = true
	}
	if err := d.open(); err != nil {
		d.Close()
		return nil, err
	}
	d.cacheLimit = d.budget.Left() / 2
	return d, nil
}

func (d *Data) open() error {
	info, err := d.main.section(secInfo)
	if err != nil {
		return err
	}
	if info == nil {
		return ErrNoDWARF
	}
	return d.buildIndex()
}

// Close closes the split files that are open and gives everything back to the budget. The Data is of no use any more.
func (d *Data) Close() {
	d.forget(0)
	d.splits.Purge()
	d.begin()
	for _, o := range []*object{d.main, d.main.alt, d.dwp} {
		if o != nil {
			o.close()
		}
	}
	d.budget.Give(d.held)
	d.held = 0
}

// Trim gives what was read, and what is cached, the least recently used first, back until no more than limit bytes are held if
// that is possible: indexes, and sections in memory, stay.
func (d *Data) Trim(limit uint64) {
	d.pages.lru.Purge()
	if n := uint64(d.Kept()); n > limit {
		d.forget(d.cache.bytes - min(d.cache.bytes, n-limit))
	}
}

// pagesReserve is for the pages that may be read: as much again may be garbage.
const pagesReserve = 2 * pageCount * pageSize

// Bytes is the memory that the Data may take between two calls, as it counts in the budget.
func (d *Data) Bytes() int { return int(d.held) }

// Kept is about the memory that it takes now, less than Bytes after Trim.
func (d *Data) Kept() int { return int(d.held) - pagesReserve + pageSize*d.pages.lru.Len() }

// Stats returns the counts so far.
func (d *Data) Stats() Stats {
	s := d.stats
	s.BytesRead = d.pages.read
	return s
}

// Problems joins the first few different errors because of which lookups found less than there may be.
func (d *Data) Problems() error { return errors.Join(d.problems...) }

const maxProblems = 8

// note remembers what a lookup went on without.
func (d *Data) note(err error) {
	d.stats.Failed++
	if len(d.problems) == maxProblems {
		return
	}
	for _, p := range d.problems {
		if p.Error() == err.Error() {
			return
		}
	}
	d.problems = append(d.problems, err)
}

// pollSteps is how many steps pass before Stop is asked again: less than a millisecond.
const pollSteps = 1 << 12

// step counts work.
func (d *Data) step(n int) error {
	if d.steps -= n; d.steps < 0 {
		return d.more()
	}
	return nil
}

// more goes on after the steps until the next poll are used up.
func (d *Data) more() error {
	n := min(d.left, pollSteps-d.steps)
	d.left -= n
	if d.steps += n; d.steps < 0 {
		return fmt.Errorf("more than %d steps: %w", d.maxSteps, ErrTooMuchWork)
	}
	if d.opts.Stop != nil {
		return d.opts.Stop()
	}
	return nil
}

// Lookup appends the places that the instruction at a stands for, innermost first: at most MaxInlined inlined calls, then
// the function. The error is ErrNotCovered if no unit has the address; nothing and no error means that the unit has
// neither a function nor a line there.
//
// A function has the file that its line is in. That is the file of its declaration, and StartLine the line of it, but
// where lines come from another file (#include inside a function, #line) there is no StartLine. The name is empty if
// there is only a line: for assembly, or if a split file is missing. Lines and columns are 0 if they are not known.
func (d *Data) Lookup(dst []unwind.Line, a unwind.FileAddr) ([]unwind.Line, error) {
	d.begin()
	n, ok, err := d.unitOf(uint64(a))
	if err != nil {
		return dst, err
	}
	if !ok {
		return dst, ErrNotCovered
	}
	return d.lookup(dst, n, uint64(a))
}
