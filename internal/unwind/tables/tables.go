// Package tables makes the unwind table of an executable out of everything that it brings along: Go's pc-line table,
// .eh_frame, .debug_frame, and what code itself tells.
package tables

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/codeflow"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/startcode"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

// Info says where a table's rows come from.
type Info struct {
	// Go describes the Go program that the file is; nil if it is none.
	Go *GoInfo
	// EHFrame and DebugFrame say what was understood of those sections. DebugFrame is read only where the sources
	// before it leave gaps that it can fill: not in Go programs, whose pc-line table has the same.
	EHFrame, DebugFrame ehframe.Stats
	// Start says what was found by looking at code that nothing else describes.
	Start startcode.Stats
	// Flow says what was found by following code that has no rules yet.
	Flow codeflow.Stats
	// HasCFI tells whether the file has any unwind information of its own. Without,
	// all rules come from its instructions.
	HasCFI bool
	// Rows and Rules count the table's.
	Rows, Rules int
}

// GoInfo describes a Go program.
type GoInfo struct {
	Version          string // "go1.26.3", empty if it is not recorded
	TextStart        unwind.FileAddr
	TextEnd          unwind.FileAddr
	Rows             int  // of its own table
	TableUnsupported bool // its frame sizes could not be read
	// Offsets are what stack switches need; nil if they are not known for the version.
	Offsets *gopclntab.Offsets
}

// Inexpressible is how many rows of call frame information had no rule, by reason.
func (i Info) Inexpressible() (n [ehframe.Reasons]int) {
	for r := range n {
		n[r] = i.EHFrame.Inexpressible[r] + i.DebugFrame.Inexpressible[r]
	}
	return n
}

// Build makes the table of f. Each source fills what the ones before it left open: Go's table, .eh_frame, .debug_frame,
// start code, and following the code itself. A source that fails, or that f's Budget has no room for, is left out, or used
// as far as it goes, and the rest is still good: then the table is not nil and the error names the source. A file without
// unwind information has an empty table, which is no error. Without a Budget, defaultBudget holds.
func Build(f *elffile.File) (*unwind.Table, Info, error) {
	if f.Budget() == nil {
		f = f.Within(elffile.NewBudget("file", defaultBudget))
	}
	b := builder{f: f, budget: f.Budget(), t: &unwind.Table{}}
	before := b.budget.Used()
	if err := b.budget.Take(min(fixedBytes, b.budget.Left()/8), "rules and buffers"); err != nil {
		return b.t, b.info, err
	}
	b.held = b.budget.Used()
	b.golang()
	b.frames()
	b.code()
	coverReturns(b.t)
	b.fits()
	b.budget.Keep(before + tablebuild.Bytes(b.t))
	b.info.Rows, b.info.Rules = len(b.t.Rows), len(b.t.Rules)
	return b.t, b.info, errors.Join(b.errs...)
}

// fixedBytes is what is not counted piece by piece, since it is small whatever the file is: rules, their index, buffers.
const fixedBytes = 4 << 20

// Estimate is about what Build takes for a file, in bytes, by what its headers say: they may lie.
func Estimate(f *elffile.File) (bytes uint64) {
	add := func(n, factor uint64) {
		if n > 1<<40/factor {
			n = 1 << 40 / factor
		}
		bytes += n * factor
	}
	for i := range f.Sections {
		switch s := &f.Sections[i]; s.Name {
		case ".eh_frame", ".debug_frame":
			add(s.Size, 5) // itself, its entries, the rows; LLVM's and rustc's libraries take four to five times of it
		case ".zdebug_frame", ".gopclntab", ".data.rel.ro.gopclntab":
			add(s.Size, 2)
		}
	}
	if len(f.Sections) == 0 {
		for _, p := range f.Progs {
			if p.Type == elf.PT_GNU_EH_FRAME {
				add(p.FileSize, 24) // eight bytes for each function
			}
		}
	}
	return bytes
}

// defaultBudget is what a build takes at most if nobody says: enough for the largest programs.
const defaultBudget = 256 << 20

// builder is the state of Build.
type builder struct {
	f      *elffile.File
	budget *elffile.Budget
	held   uint64 // of the budget, before
	t      *unwind.Table
	info   Info
	errs   []error
}

func (b *builder) note(what string, err error) {
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("building unwind table from %s: %w", what, err))
	}
}

// merge takes what a source has; all else that it took of the budget is given back.
func (b *builder) merge(what string, source *unwind.Table, err error) {
	b.note(what, err)
	b.budget.Keep(b.held + tablebuild.Bytes(b.t) + tablebuild.Bytes(source))
	t, err := Merge(b.budget, b.t, source)
	b.note(what, err)
	b.t = t
	b.budget.Keep(b.held + tablebuild.Bytes(t))
}

func (b *builder) golang() {
	t, err := goTable(b.f, &b.info)
	b.merge("pclntab", t, err)
}

func (b *builder) frames() {
	t, stats, err := ehframe.EHFrame(b.f)
	b.info.EHFrame = stats
	b.merge(".eh_frame", t, err)
	if b.info.Go == nil || b.info.Go.Rows == 0 {
		t, stats, err := ehframe.DebugFrame(b.f)
		b.info.DebugFrame = stats
		b.merge(".debug_frame", t, err)
	}
	b.info.HasCFI = len(b.t.Rows) > 0
}

func (b *builder) code() {
	start, startStats, err := startcode.Find(b.f, b.t)
	b.info.Start = startStats
	b.merge("start code", start, err)

	flow, flowStats, err := codeflow.Find(b.f, b.t)
	b.info.Flow = flowStats
	b.merge("instructions", flow, err)
}

// fits drops a table that there is no room to lay out.
func (b *builder) fits() {
	if err := b.budget.Take(layoutBytes(b.t), "layout of the table"); err != nil {
		b.note("all sources", err)
		b.t = &unwind.Table{}
	}
	b.budget.Keep(b.held + tablebuild.Bytes(b.t))
}

// layoutBytes is about what laying a table out for BPF takes: a word for each row, two for each page of addresses from the
// first row to the last, all of it twice.
func layoutBytes(t *unwind.Table) uint64 {
	if len(t.Rows) == 0 {
		return 0
	}
	const pageBits = uint(abi.LoopLimitsTABLE_PAGE_BITS)
	pages := uint64(t.Rows[len(t.Rows)-1].Start)>>pageBits - uint64(t.Rows[0].Start)>>pageBits + 1
	return 8 * (uint64(len(t.Rows)) + 2*pages)
}

// goTable is the table of the file's Go code; empty if it has none.
func goTable(f *elffile.File, info *Info) (*unwind.Table, error) {
	p, err := gopclntab.Find(f)
	if errors.Is(err, gopclntab.ErrNotGo) {
		return &unwind.Table{}, nil
	}
	if err != nil {
		return &unwind.Table{}, err
	}
	g := &GoInfo{Version: p.Version()}
	g.TextStart, g.TextEnd = p.Text()
	if o, err := p.Offsets(); err == nil {
		g.Offsets = &o
	}
	info.Go = g
	t, err := p.UnwindTable()
	g.TableUnsupported = err != nil
	g.Rows = len(t.Rows)
	return t, err
}

// Merge returns a table with primary's rules and, where it has none, secondary's. It may use the memory of both, which must
// not be used any more; more memory comes from the budget. If there is no room, or there would be too many rows, the result
// is primary, with an error.
func Merge(budget *elffile.Budget, primary, secondary *unwind.Table) (*unwind.Table, error) {
	p, s := len(primary.Rows), len(secondary.Rows)
	switch {
	case s == 0:
		return primary, nil
	case p == 0:
		return secondary, nil
	case p+s > tablebuild.MaxRows:
		return primary, &tablebuild.FullError{What: "rows"}
	}
	rules, numbers := unite(primary.Rules, secondary.Rules)
	rows := primary.Rows
	if cap(rows) < p+s {
		if err := budget.Take(uint64((p+s)*tablebuild.RowBytes), "merged rows"); err != nil {
			return primary, err
		}
		rows = make([]unwind.Row, 0, p+s)
	}
	// In primary's own memory: its rows move to the end, and since no more rows are written than were read, what is written
	// from the start never reaches those that are still to be read.
	from := rows[:p+s][s:]
	copy(from, primary.Rows)
	rows = mergeRows(rows[:0], rules, side{rows: from}, side{rows: secondary.Rows, numbers: numbers})
	return &unwind.Table{Rows: rows, Rules: rules}, nil
}

// mergeRows appends to rows what holds where either of two tables has a row; p goes before s.
func mergeRows(rows []unwind.Row, rules []unwind.Rule, p, s side) []unwind.Row {
	last := uint32(0) // before the first row there is no rule
	for p.more() || s.more() {
		var at unwind.FileAddr
		switch {
		case !s.more() || p.more() && p.next() < s.next():
			at = p.advance()
		case !p.more() || s.next() < p.next():
			at = s.advance()
		default:
			at = p.advance()
			s.advance()
		}
		rule := p.rule
		if rules[rule].CFA == unwind.CFANone {
			rule = s.rule
		}
		if rule != last {
			rows = append(rows, unwind.Row{Start: at, Rule: rule})
			last = rule
		}
	}
	return rows
}

// unite appends to rules those of more that are not among them, and returns the numbers that those of more have then. What
// there is no room for gets number 0, no rule.
func unite(rules, more []unwind.Rule) (all []unwind.Rule, numbers []uint32) {
	index := make(map[unwind.Rule]uint32, len(rules)+len(more))
	for i, r := range rules {
		index[r] = uint32(i)
	}
	all = slices.Clone(rules)
	numbers = make([]uint32, len(more))
	for i, r := range more {
		n, ok := index[r]
		if !ok && len(all) < tablebuild.MaxRules {
			n = uint32(len(all))
			index[r] = n
			all = append(all, r)
		}
		numbers[i] = n
	}
	return all, numbers
}

// side is one of the tables that are merged, and the rule that holds where the merge is.
type side struct {
	rows    []unwind.Row
	numbers []uint32 // of its rules in the merged table; nil if they stay the same
	i       int
	rule    uint32
}

func (s *side) more() bool            { return s.i < len(s.rows) }
func (s *side) next() unwind.FileAddr { return s.rows[s.i].Start }

func (s *side) advance() unwind.FileAddr {
	r := s.rows[s.i]
	s.rule = r.Rule
	if s.numbers != nil {
		s.rule = s.numbers[r.Rule]
	}
	s.i++
	return r.Start
}
