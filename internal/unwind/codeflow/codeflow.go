// Package codeflow makes unwind rules by following the instructions of code that nothing else describes: it keeps track of
// how far the stack pointer is from where it was at a function's entry. That is how whole libcs (musl) and hand-written
// assembly are walked.
//
// Words: a *region* is a run of code without rules; a function's *start* is found by symbols, calls and what follows
// the end of another function; a *state* is what is known before an instruction.
package codeflow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

const (
	// maxCode bounds how much code of one file is followed; of more, nothing is. musl has 0.6 MiB.
	maxCode = 4 << 20
	// minRegion is the smallest region looked at: what is shorter is padding.
	minRegion = 16
	maxStates = 1<<16 - 1
	// maxCallers bounds how much code is searched for calls, and maxTargets what they may lead to.
	maxCallers = 16 << 20
	maxTargets = 1 << 17
	// maxTrial bounds the instructions that are followed to see whether they are a function.
	maxTrial   = 4096
	maxRetries = 64
	maxCuts    = 16
	maxDepth   = 4
	maxPasses  = 4
	maxJumps   = 8
	// maxTables bounds the symbol tables that are read (files have at most two), and maxSymbols the bytes of one.
	maxTables  = 4
	maxSymbols = 32 << 20
	// regionBytes is what a byte of code takes while it is followed: itself, and what region has for each.
	regionBytes = 1 + 2 + 1 + 1 + 1 + 4
	// What comes up on the way is bounded as well, far above what real code has: places that are still to be followed of one
	// function, its instructions, the functions with jump tables, and the calls that do not return.
	maxPending    = 1 << 13
	maxLog        = 1 << 17
	maxJumpTables = 1 << 12
	maxEnds       = 1 << 15
	// wayBytes is what all of that takes at most for a byte of code, and maxWay altogether.
	wayBytes = 24
	maxWay   = 18 << 20
	// emptyRegion is what a region takes beside its code: itself, and what its slices are rounded up by; spanBytes is what its
	// bounds take while they are collected.
	emptyRegion = 400
	spanBytes   = 48
	// stateBytes is what a state takes, with its place in the index, what both leave behind as they grow, and its rule, of
	// which ruleBytes is the part.
	stateBytes = 320 + ruleBytes
	ruleBytes  = uint64(unsafe.Sizeof(unwind.Rule{}))
	// targetBytes is about what a call's target takes, while the set of them grows.
	targetBytes = 96
)

// Stats says what was found.
type Stats struct {
	Code      uint64 // bytes looked at
	Functions int    // functions followed
	Followed  uint64 // bytes that got rules
	Lost      int    // instructions behind which the stack pointer was not known
	TooLarge  bool   // there was more code than is followed
}

// region is code without rules.
type region struct {
	at    unwind.FileAddr
	code  []byte
	state []uint16 // by offset: 0, or the number of the state before the instruction that begins there
	size  []uint8  // of the instruction
	start []bool   // a function starts there
	trial []trialResult
	// visited has the number of the last trial that came by.
	visited []uint32
	// owned is there only for Functions.
	owned []ownership
	sure  []int // the offsets where functions begin for sure, sorted
}

// state is what is known before an instruction: where the CFA is, and the caller's registers.
type state struct {
	base   uint8 // the register that the CFA is based on: stack or frame pointer
	cfa    int32 // CFA - base
	fp     int32 // CFA - frame pointer, if framed
	framed bool
	// Where the return address, the caller's frame pointer and rbx are.
	ra, fpSaved, bxSaved slot
}

// slot is where a value of the caller is.
type slot struct {
	kind slotKind
	at   int32 // CFA - address
}

type slotKind uint8

const (
	inRegister slotKind = iota
	onStack
	lost
)

// flow says where control goes behind an instruction.
type flow uint8

const (
	flowNext     flow = iota
	flowCall          // on, if the called function returns
	flowBranch        // to the target or on
	flowJump          // to the target
	flowIndirect      // to some block of the function, or out of it
	flowReturn
	flowForeign // out of it, by a convention of calls that has its return addresses elsewhere
	flowEnd     // nowhere
)

// machine knows an architecture's instructions.
type machine interface {
	// entry is the state at a function's start.
	entry() state
	// step decodes the instruction at b[0], which lies at the address at, and changes s to what is known behind it.
	// size is 0 if it is none. known is false if the stack pointer is not known any more.
	step(s *state, b []byte, at unwind.FileAddr) (size int, f flow, target unwind.FileAddr, known bool)
	// calls yields the targets of direct calls in b, and other addresses that it can tell, which may be functions', and where the
	// code goes on behind the instruction.
	calls(b []byte, at unwind.FileAddr, yield func(target, behind unwind.FileAddr, called bool))
	// padding is the length of the padding that b begins with.
	padding(b []byte) int
	// boundary tells whether a function may begin behind b, which lies before the address at.
	boundary(b []byte, at unwind.FileAddr) bool
	// rule expresses a state.
	rule(s state) unwind.Rule
}

type analyzer struct {
	f       *elffile.File
	m       machine
	regions []*region
	states  []state
	index   map[state]uint16
	ends    map[unwind.FileAddr]bool // where a call ends that does not return
	budget  int                      // instructions that may still be decoded
	trials  int
	found   []found
	extents []unwind.Extent // of functions with symbols, while starts are looked for
	stats   Stats
	owners  bool  // the regions have owners
	refused error // the first thing that there was no room for, where the rest went on

	// Buffers of walks, used again by the next one: garbage would count as much as they do.
	current      place
	strong, weak []place
	log          []int
	noted        []uint16
	chains       [][]callEnd
}

// Find returns rules for code of f's executable segments where t has none. Errors are those of reading and of f's Budget; the
// table is good as far as it goes.
func Find(f *elffile.File, t *unwind.Table) (*unwind.Table, Stats, error) {
	a := newAnalyzer(f)
	if ok, err := a.run(t); !ok {
		return &unwind.Table{}, a.stats, err
	}
	t, err := a.table()
	return t, a.stats, errors.Join(a.refused, err)
}

func newAnalyzer(f *elffile.File) *analyzer {
	a := &analyzer{
		f: f, m: amd64{}, ends: map[unwind.FileAddr]bool{}, index: map[state]uint16{},
		states: make([]state, 1),
	}
	if f.Arch == unwind.ArchARM64 {
		a.m = arm64{}
	}
	return a
}

// run follows the code where t has no rule. ok is false if there is none, or more than is followed.
func (a *analyzer) run(t *unwind.Table) (ok bool, err error) {
	if err := a.read(t); err != nil {
		return false, fmt.Errorf("reading code: %w", err)
	}
	if a.stats.TooLarge || len(a.regions) == 0 {
		return false, a.refused
	}
	a.budget = 4*int(a.stats.Code) + 1<<16
	if err := a.findStarts(); err != nil {
		return false, fmt.Errorf("looking for functions: %w", err)
	}
	for _, r := range a.regions {
		r.sort()
		for off := range r.start {
			if r.start[off] {
				a.function(r, off)
			}
		}
	}
	for _, r := range a.regions {
		a.rest(r)
	}
	return true, nil
}

// take asks the budget for room for something without which the rest can go on.
func (a *analyzer) take(n uint64, part string) bool {
	if a.refused != nil && n > a.f.Budget().Left() {
		return false // so many more errors would take room themselves
	}
	err := a.f.Budget().Take(n, part)
	if err != nil && a.refused == nil {
		a.refused = err
	}
	return err == nil
}

// read reads the regions, but those that there is no room for.
func (a *analyzer) read(t *unwind.Table) error {
	var spans [][2]unwind.FileAddr
	for _, g := range a.f.Code() {
		for lo, hi := range tablebuild.Uncovered(t, g.VAddr, g.VAddr+unwind.FileAddr(min(g.FileSize, g.MemSize))) {
			if hi-lo < minRegion {
				continue
			}
			if a.stats.Code += uint64(hi - lo); a.stats.Code > maxCode {
				a.stats.TooLarge = true
				return nil
			}
			if err := a.f.Budget().Take(spanBytes, "bounds of code"); err != nil {
				return err
			}
			spans = append(spans, [2]unwind.FileAddr{lo, hi})
		}
	}
	slices.SortFunc(spans, func(x, y [2]unwind.FileAddr) int { return cmp.Compare(x[0], y[0]) })
	if err := a.f.Budget().Take(a.ways(), "ways through code"); err != nil {
		return err
	}
	var end unwind.FileAddr
	for _, x := range spans {
		lo := max(x[0], end)
		if lo >= x[1] {
			continue
		}
		n := x[1] - lo
		need := uint64(n)*regionBytes + emptyRegion
		if a.owners {
			need += uint64(n) * ownedBytes
		}
		if !a.take(need, "code") {
			continue // others may be smaller
		}
		r := &region{at: lo, code: make([]byte, n), state: make([]uint16, n), size: make([]uint8, n),
			start: make([]bool, n), trial: make([]trialResult, n), visited: make([]uint32, n)}
		if err := a.f.ReadAddr(r.code, lo); err != nil {
			if errors.Is(err, elffile.ErrTruncated) || errors.Is(err, elffile.ErrNoData) {
				continue
			}
			return err
		}
		if a.owners {
			r.owned = make([]ownership, n)
		}
		a.regions = append(a.regions, r)
		end = x[1]
	}
	a.f.Budget().Give(uint64(len(spans)) * spanBytes)
	return nil
}

// ways is what walks take at most, in bytes.
func (a *analyzer) ways() uint64 { return min(wayBytes*a.stats.Code, maxWay) }

// region is the region that holds an address.
func (a *analyzer) region(at unwind.FileAddr) *region {
	i, ok := slices.BinarySearchFunc(a.regions, at, func(r *region, at unwind.FileAddr) int { return cmp.Compare(r.at, at) })
	if !ok {
		i--
	}
	if i < 0 || at-a.regions[i].at >= unwind.FileAddr(len(a.regions[i].code)) {
		return nil
	}
	return a.regions[i]
}

// found is a function's start that came up on the way.
type found struct {
	r   *region
	off int
}

// function follows a function from its start, unless that was reached already, and what comes up on the way.
func (a *analyzer) function(r *region, off int) {
	a.found = append(a.found, found{r, off})
	for len(a.found) > 0 {
		f := a.found[len(a.found)-1]
		a.found = a.found[:len(a.found)-1]
		if f.r.state[f.off] == 0 {
			a.stats.Functions++
			a.follow(f.r, f.off, a.m.entry(), f.off)
		}
	}
}

// number interns a state; 0 if there are too many, or no room for them.
func (a *analyzer) number(s state) uint16 {
	n, ok := a.index[s]
	if !ok && len(a.states) < maxStates && a.take(stateBytes, "states of code") {
		n = uint16(len(a.states))
		a.states = append(a.states, s)
		a.index[s] = n
	}
	return n
}

// table makes rows of the states; it is good as far as it goes if there are too many.
func (a *analyzer) table() (*unwind.Table, error) {
	a.strong, a.weak, a.log, a.noted, a.chains, a.ends = nil, nil, nil, nil, nil, nil // the rows need the room
	a.f.Budget().Give(a.ways())
	b := tablebuild.Builder{Budget: a.f.Budget()}
	rules := make([]unwind.Rule, len(a.states))
	for i, s := range a.states[1:] {
		rules[i+1] = a.m.rule(s)
	}
	a.f.Budget().Give(uint64(len(a.states)-1) * (stateBytes - ruleBytes))
	a.states, a.index = nil, nil
	defer a.f.Budget().Give(uint64(len(rules)-1) * ruleBytes)
	var end unwind.FileAddr
	add := func(at unwind.FileAddr, r unwind.Rule) {
		if err := b.Add(at, r); err != nil {
			a.stats.TooLarge = true // rows or rules
		}
		end = at
	}
	for _, r := range a.regions {
		for off := 0; off < len(r.code); {
			if n := r.state[off]; n != 0 {
				add(r.at+unwind.FileAddr(off), rules[n])
				a.stats.Followed += uint64(r.size[off])
				off += int(r.size[off])
				continue
			}
			add(r.at+unwind.FileAddr(off), unwind.Rule{})
			for off < len(r.code) && r.state[off] == 0 {
				off++
			}
		}
		add(r.at+unwind.FileAddr(len(r.code)), unwind.Rule{})
	}
	for _, r := range a.regions {
		a.f.Budget().Give(uint64(len(r.code))*regionBytes + emptyRegion)
	}
	a.regions, a.found = nil, nil
	t := b.Table(end)
	return t, b.Err()
}
