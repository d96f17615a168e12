package hostbpf_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

var record = flag.Bool("record", false, "write what TestRecord finds to testdata/tapes")

// stepsBetween is how many instructions behind each point are compared too.
const stepsBetween = 100

// nearRows of each row that a walk used are kept: enough for a search to go wrong.
const nearRows = 3

// machine runs a program and shows one thread of it.
type machine interface {
	unwind.Memory
	run()                    // to the next breakpoint instruction
	breakAt(function string) // run to where it begins
	step() (ended bool)      // one instruction
	pc() unwind.Addr
	name(at uint64) string // of the code there
	tape() *tape.Tape      // the thread as it is, with all of its process's tables and without memory
}

// scenario is a program and a place in it.
type scenario struct {
	name, about string
	build       []string // compiler, source, flags
	args        []string
	stripped    bool
	plain       bool                                  // what is known of the code is .eh_frame alone
	points      int                                   // breakpoint instructions to pass; the last one is where it begins
	at          string                                // then run to the beginning of this function
	until       func(p machine) bool                  // then step until this holds
	want        []string                              // functions that are found, in this order, the leaf first
	root        []string                              // the outermost function is one of these; none: the walk stops
	stop        unwind.StopReason                     // then for this reason
	max         int                                   // frames, if not 1024
	hide        func(m *tape.Mapping, at uint64) bool // mappings that are not known yet
}

// in: that many instructions of a file were executed.
func in(mapping string, instructions int) func(machine) bool {
	return func(p machine) bool {
		if m := tape.Code(p.tape().Mappings).At(p.pc()); m != nil && m.Name == mapping {
			instructions--
		}
		return instructions < 0
	}
}

func inFunction(prefix string, instructions int) func(machine) bool {
	return func(p machine) bool {
		if strings.HasPrefix(p.name(uint64(p.pc())), prefix) {
			instructions--
		}
		return instructions < 0
	}
}

// compile builds a scenario's program; symbols is the path of what it was before it was stripped.
func (s *scenario) compile(t *testing.T) (program, symbols string) {
	t.Helper()
	source := filepath.Join(tapes, "src", s.build[1])
	program = filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(s.build[1]), filepath.Ext(s.build[1]))+"-"+s.name)
	unwindtest.Need(t, s.build[0])
	var cmd *exec.Cmd
	if s.build[0] == "go" {
		cmd = exec.Command("go", "build", "-trimpath", "-o", program, ".")
		cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
		if len(s.build) > 2 {
			cmd.Env = append(cmd.Env, "GOARCH="+s.build[2])
		}
	} else {
		cmd = exec.Command(s.build[0], append([]string{source, "-o", program}, s.build[2:]...)...)
	}
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	if !s.stripped {
		return program, program
	}
	full := program + ".full"
	if err := os.Rename(program, full); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("strip", "-o", program, full).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, b)
	}
	return program, full
}

// reach runs the program to the scenario's place.
func (s *scenario) reach(t *testing.T, p machine) {
	t.Helper()
	for range s.points {
		p.run()
	}
	if s.at != "" {
		p.breakAt(s.at)
	}
	for n := 0; s.until != nil && !s.until(p); n++ {
		if n > 100_000 || p.step() {
			t.Fatalf("not reached in %d steps", n)
		}
	}
}

// all takes a scenario's tape, keeps it if that is asked for, and goes on.
func (s *scenario) all(t *testing.T, h hosts, p machine) {
	t.Helper()
	s.reach(t, p)
	made := s.take(t, h, p)
	if *record && !t.Failed() {
		var b bytes.Buffer
		if err := made.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tapes, s.name+".tape"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.stepOn(t, h, p)
}

// take records the tape of where the program stands.
func (s *scenario) take(t *testing.T, h hosts, p machine) *tape.Tape {
	t.Helper()
	live := p.tape()
	live.About = s.about
	if s.max != 0 {
		live.MaxFrames = s.max
	}
	if s.hide != nil {
		live.Mappings = slices.Clone(live.Mappings)
		for i := range live.Mappings {
			if m := &live.Mappings[i]; s.hide(m, uint64(p.pc())) {
				m.Table, m.NoTable = nil, false
				if s.stop == unwind.StopNoMapping {
					m.Start = m.End - 1
				}
			}
		}
	}
	load(t, h, live.Mappings)
	memory := &tape.Recorder{From: tape.Frugal{Memory: p}}
	frames, stop := compare(t, h, live, memory)
	small := minimal(live, memory, frames)
	for _, f := range frames {
		small.Frames = append(small.Frames, tape.Frame{RawFrame: f, Name: p.name(uint64(f.LookupAddr()))})
	}
	small.Stop = stop
	s.check(t, small)
	load(t, h, small.Mappings)
	if again, stopAgain := compare(t, h, small, &small.Memory); stopAgain != stop || !slices.Equal(again, frames) {
		t.Errorf("the tape gives\n%s, the program\n%s", show(small.Mappings, again, stopAgain), show(live.Mappings, frames, stop))
	}
	return small
}

// minimal keeps of a process what a walk needed.
func minimal(live *tape.Tape, memory *tape.Recorder, frames []unwind.RawFrame) *tape.Tape {
	small := *live
	small.Memory = memory.Got
	small.Mappings = nil
	for _, m := range live.Mappings {
		var at []unwind.FileAddr
		for _, f := range frames {
			if m.Contains(f.LookupAddr()) {
				at = append(at, m.FileAddr(f.LookupAddr()))
			}
		}
		if len(at) == 0 && m.Table != nil {
			continue
		}
		if m.Table != nil {
			m.Table = tape.Near(m.Table, at, nearRows)
		}
		small.Mappings = append(small.Mappings, m)
	}
	return &small
}

// check holds a walk against what the scenario knows of its program.
func (s *scenario) check(t *testing.T, p *tape.Tape) {
	t.Helper()
	var names []string
	for _, f := range p.Frames {
		names = append(names, f.Name)
	}
	next := 0
	for _, want := range s.want {
		i := slices.IndexFunc(names[next:], func(n string) bool { return strings.Contains(n, want) })
		if i < 0 {
			t.Errorf("no %s after frame %d of %q", want, next, names)
			return
		}
		next += i + 1
	}
	if !strings.Contains(names[0], s.want[0]) {
		t.Errorf("the leaf is %s, not %s", names[0], s.want[0])
	}
	want := s.stop
	if s.root != nil {
		want = unwind.StopRoot
		if last := names[len(names)-1]; !slices.ContainsFunc(s.root, func(r string) bool { return strings.HasPrefix(last, r) }) {
			t.Errorf("the outermost function is %s, not one of %q", last, s.root)
		}
	}
	if p.Stop != want {
		t.Errorf("the walk stops: %v, not %v; %q", p.Stop, want, names)
	}
}

// stepOn compares walks at the following instructions.
func (s *scenario) stepOn(t *testing.T, h hosts, p machine) {
	t.Helper()
	var mappings []tape.Mapping
	for range stepsBetween {
		if t.Failed() || p.step() {
			return
		}
		live := p.tape()
		if len(live.Mappings) != len(mappings) {
			mappings = live.Mappings
			load(t, h, mappings)
		}
		// Memory is sent at once: a question for each word would take thousands of switches between processes.
		seen := &pages{from: p}
		live.Walk(seen)
		compare(t, h, live, &seen.got)
	}
}

// pages keeps the pages of what was read.
type pages struct {
	from unwind.Memory
	got  tape.Memory
}

func (p *pages) Read(a unwind.Addr, b []byte) error {
	const size = 4096
	for page := a &^ (size - 1); page < a+unwind.Addr(len(b)); page += size {
		whole := make([]byte, size)
		if p.got.Read(page, whole) == nil {
			continue
		}
		if p.from.Read(page, whole) == nil {
			p.got.Add(page, whole)
		}
	}
	return p.got.Read(a, b)
}
