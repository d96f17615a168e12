// Package tables makes the unwind table of an executable out of everything that it brings along: Go's pc-line table,
// .eh_frame, .debug_frame, and what code itself tells.
package tables

import (
	"errors"
	"fmt"
	"slices"

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
// start code, and following the code itself. A source that fails is left out and the rest is still good: then the table is not nil and the error names
// the source. A file without unwind information has an empty table, which is no error.
func Build(f *elffile.File) (*unwind.Table, Info, error) {
	var info Info
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("building unwind table from %s: %w", what, err))
		}
	}
	t, err := goTable(f, &info)
	note("pclntab", err)

	eh, stats, err := ehframe.EHFrame(f)
	note(".eh_frame", err)
	t, info.EHFrame = Merge(t, eh), stats

	if info.Go == nil || info.Go.Rows == 0 {
		debug, stats, err := ehframe.DebugFrame(f)
		note(".debug_frame", err)
		t, info.DebugFrame = Merge(t, debug), stats
	}
	info.HasCFI = len(t.Rows) > 0

	start, startStats, err := startcode.Find(f, t)
	note("start code", err)
	t, info.Start = Merge(t, start), startStats

	flow, flowStats, err := codeflow.Find(f, t)
	note("instructions", err)
	t, info.Flow = Merge(t, flow), flowStats

	coverReturns(t)
	info.Rows, info.Rules = len(t.Rows), len(t.Rules)
	return t, info, errors.Join(errs...)
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
	if err != nil {
		g.TableUnsupported = true
		return &unwind.Table{}, err
	}
	g.Rows = len(t.Rows)
	return t, nil
}

// Merge returns a table with primary's rules and, where it has none, secondary's. Neither is changed; the result may be
// one of them.
func Merge(primary, secondary *unwind.Table) *unwind.Table {
	if len(secondary.Rows) == 0 {
		return primary
	}
	if len(primary.Rows) == 0 {
		return secondary
	}
	rules, numbers := unite(primary.Rules, secondary.Rules)
	if len(primary.Rows)+len(secondary.Rows) > tablebuild.MaxRows {
		return primary
	}
	rows := make([]unwind.Row, 0, len(primary.Rows)+len(secondary.Rows))
	p, s := side{rows: primary.Rows}, side{rows: secondary.Rows, numbers: numbers}
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
	return &unwind.Table{Rows: rows, Rules: rules}
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
