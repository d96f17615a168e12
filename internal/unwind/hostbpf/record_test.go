//go:build amd64

package hostbpf_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

var record = flag.Bool("record", false, "write what TestRecord finds to testdata/tapes")

// stepsBetween is how many instructions behind each point are compared too.
const stepsBetween = 100

// nearRows of each row that a walk used are kept: enough for a search to go wrong.
const nearRows = 3

// scenario is a program and a place in it.
type scenario struct {
	name, about string
	build       []string // compiler, source, flags
	args        []string
	stripped    bool
	plain       bool                                  // what is known of the code is .eh_frame alone
	points      int                                   // breakpoint instructions to pass; the last one is where it begins
	at          string                                // then run to the beginning of this function
	until       func(p *tracee) bool                  // then step until this holds
	want        []string                              // functions that are found, in this order, the leaf first
	root        []string                              // the outermost function is one of these; none: the walk stops
	stop        unwind.StopReason                     // then for this reason
	max         int                                   // frames, if not 1024
	hide        func(m *tape.Mapping, at uint64) bool // mappings that are not known yet
}

// in: that many instructions of a file were executed.
func in(mapping string, instructions int) func(*tracee) bool {
	return func(p *tracee) bool {
		if m := p.code.At(unwind.Addr(p.regs.Rip)); m != nil && m.Name == mapping {
			instructions--
		}
		return instructions < 0
	}
}

func inFunction(prefix string, instructions int) func(*tracee) bool {
	return func(p *tracee) bool {
		if strings.HasPrefix(p.name(p.regs.Rip), prefix) {
			instructions--
		}
		return instructions < 0
	}
}

var glibcRoot = []string{"_start", "__libc_start_main", "__libc_start_call_main"}

func scenarios() []scenario {
	c := func(source string, flags ...string) []string {
		return append([]string{"gcc", source, "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-std=gnu11"}, flags...)
	}
	deep := []string{"leaf", "with_array", "with_alloca", "recursion", "recursion", "recursion", "compare", "main"}
	golang := []string{"go", "go"}
	return []scenario{
		{name: "c-deep", about: "C, gcc -O2, without frame pointers: recursion below qsort", build: c("deep.c"), points: 1,
			want: deep, root: glibcRoot},
		{name: "c-clang", about: "the same, compiled by clang", build: append([]string{"clang"}, c("deep.c")[1:]...), points: 1,
			want: deep, root: glibcRoot},
		{name: "c-stripped", about: "the same as c-deep without symbols", build: c("deep.c"), stripped: true, points: 1,
			want: deep, root: glibcRoot},
		{name: "c-static", about: "the same, statically linked with glibc", build: c("deep.c", "-static"), points: 1,
			want: deep, root: glibcRoot},
		{name: "c-max-frames", about: "the same with at most 20 frames", build: c("deep.c"), points: 1, max: 20,
			want: deep[:6], stop: unwind.StopMaxFrames},
		{name: "musl-static", about: "C, statically linked with musl", points: 1,
			build: append([]string{"musl-gcc"}, c("realign.c", "-static")[1:]...), want: []string{"leaf", "variable", "arguments", "main"},
			root: []string{"_start", "libc_start_main_stage2", "__libc_start_main"}},
		{name: "musl-callback", plain: true, about: "C, called back by musl, whose own code has neither unwind information nor frame pointers",
			build: append([]string{"musl-gcc"}, c("deep.c", "-static")[1:]...), points: 1, want: append(deep[:7:7], "trinkle"),
			stop: unwind.StopNoRule},
		{name: "c-debug-frame", about: "C with .debug_frame only", points: 1, want: deep, root: glibcRoot,
			build: c("deep.c", "-g", "-fno-asynchronous-unwind-tables")},
		{name: "c-frame-pointer", plain: true, about: "C with frame pointers and without unwind information: guesses, which miss the caller of a leaf without a frame", points: 1,
			build: c("deep.c", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"), want: append([]string{"leaf"}, deep[2:]...), root: glibcRoot},
		{name: "c-no-rule", plain: true, about: "C with neither frame pointers nor unwind information", points: 1,
			build: c("deep.c", "-fno-asynchronous-unwind-tables"), want: deep[:1], stop: unwind.StopNoRule},
		{name: "realign", about: "C: functions that realign the stack, with a variable-sized array", build: c("realign.c"), points: 1,
			want: []string{"leaf", "variable", "arguments", "main"}, root: glibcRoot},
		{name: "thread", about: "C: a thread that pthread_create started", build: c("thread.c", "-pthread"), points: 1,
			want: []string{"work", "run"}, root: []string{"__clone3", "clone3", "libc.so"}},
		{name: "signal", about: "C: a signal handler on an alternate stack, at an instruction after a system call",
			build: c("signal.c", "-static"), points: 1,
			want: []string{"in_handler", "handler", "kill", "interrupted", "middle", "main"}, root: glibcRoot},
		{name: "signal-fault", about: "C: a handler of a fault, on an alternate stack", build: c("signal.c", "-static"), args: []string{"fault"},
			points: 1, want: []string{"in_handler", "handler", "interrupted", "middle", "main"}, root: glibcRoot},
		{name: "signal-trampoline", about: "C: in the trampoline, the handler has returned", build: c("signal.c", "-static"), points: 1,
			until: inFunction("__restore_rt", 0), want: []string{"__restore_rt", "kill", "interrupted", "middle", "main"}, root: glibcRoot},
		{name: "vdso", about: "C: in the vdso, below clock_gettime", build: c("calls.c"), points: 1, until: in("[vdso]", 5),
			want: []string{"clock_gettime", "clock_caller", "main"}, root: glibcRoot},
		{name: "plt", about: "C: in a stub of .plt that binds lazily, its relocation's number pushed",
			build: c("calls.c", "-Wl,-z,lazy", "-fcf-protection=none"), args: []string{"lazy"}, points: 1, until: inPLT,
			want: []string{"calls-plt", "lazy_caller", "main"}, root: glibcRoot},
		{name: "plt-ibt", about: "C: in a stub of .plt, with indirect branch tracking",
			build: c("calls.c", "-Wl,-z,lazy", "-fcf-protection", "-Wl,-z,ibtplt"), args: []string{"lazy"}, points: 1, until: inPLT,
			want: []string{"calls-plt", "lazy_caller", "main"}, root: glibcRoot},
		{name: "runtime-resolve", about: "C: in the dynamic linker's _dl_runtime_resolve, which realigns the stack",
			build: c("calls.c", "-Wl,-z,lazy"), args: []string{"lazy"}, points: 1, until: in("ld-linux-x86-64.so.2", 60),
			want: []string{"ld-linux", "ld-linux", "lazy_caller", "main"}, root: glibcRoot},
		{name: "vfork", about: "C: in vfork, whose return address is in a register", build: c("calls.c"), args: []string{"vfork", "x"},
			points: 1, until: inFunction("vfork", 2), want: []string{"vfork", "vfork_caller", "main"}, root: glibcRoot},
		{name: "jit", about: "C: code in anonymous memory with a frame pointer", build: c("jit.c"), points: 1,
			want: []string{"back", "anonymous", "caller", "main"}, root: glibcRoot},
		{name: "jit-no-frame-pointer", about: "C: code in anonymous memory without a frame pointer", build: c("jit.c"),
			args: []string{"without"}, points: 1, want: []string{"back", "anonymous"}, stop: unwind.StopNoRule},
		{name: "exception", about: "C++: a destructor that runs while an exception passes",
			build: []string{"g++", "exception.cc", "-O2", "-fomit-frame-pointer"}, points: 2,
			want: []string{"_ZN5Guard", "between", "catcher", "main"}, root: glibcRoot},
		{name: "exception-personality", about: "C++: libgcc looks for the frame that catches an exception",
			build: []string{"g++", "exception.cc", "-O2", "-fomit-frame-pointer"}, points: 1, at: "__gxx_personality_v0",
			want: []string{"__gxx_personality_v0", "_Unwind_RaiseException", "__cxa_throw", "thrower", "between", "catcher", "main"},
			root: glibcRoot},
		{name: "rust", about: "Rust -O: closures, a boxed function, catch_unwind",
			build: []string{"rustc", "deep.rs", "-O", "--edition=2021"}, points: 1,
			want: []string{"leaf", "caught", "boxed", "recursion", "recursion", "main", "lang_start", "main"}, root: glibcRoot},
		{name: "go-goroutine", about: "Go: a goroutine", build: golang, points: 1,
			want: []string{"runtime.breakpoint", "main.point", "main.recursion", "main.recursion", "main.main.func"}, root: []string{"runtime.goexit"}},
		{name: "go-systemstack", about: "Go: the runtime on its system stack, called by a goroutine", build: golang, points: 1,
			at: "runtime.newproc1", want: []string{"runtime.newproc1", "runtime.systemstack", "runtime.newproc", "main.recursion"},
			root: []string{"runtime.goexit"}},
		{name: "go-morestack", about: "Go: a goroutine's stack grows; the walk goes on at g.m.curg.sched", build: golang, points: 1,
			at: "runtime.copystack", want: []string{"runtime.copystack", "runtime.newstack", "runtime.morestack", "main.grow", "main.recursion"},
			root: []string{"runtime.goexit"}},
		{name: "go-mcall", about: "Go: the scheduler, which no goroutine called", build: golang, points: 1,
			at: "runtime.park_m", want: []string{"runtime.park_m"}, root: []string{"runtime.mcall"}},
		{name: "no-table", about: "C: a library's table is not there yet; user space goes on", build: c("deep.c"), points: 1,
			want: deep[:6], stop: unwind.StopNoTable,
			hide: func(m *tape.Mapping, _ uint64) bool { return strings.HasPrefix(m.Name, "libc") }},
		{name: "no-mapping", about: "C: the program's own mapping is not known yet", build: c("deep.c"), points: 1,
			want: []string{""}, stop: unwind.StopNoMapping,
			hide: func(m *tape.Mapping, at uint64) bool { return m.Contains(unwind.Addr(at)) }},
	}
}

// inPLT: in the program's own code but in none of its functions, behind a push.
func inPLT(p *tracee) bool {
	var before [5]byte
	if !strings.HasPrefix(p.name(p.regs.Rip), "calls-") || p.Read(unwind.Addr(p.regs.Rip-5), before[:]) != nil {
		return false
	}
	return before[0] == 0x68
}

// compile builds a scenario's program; symbols is the path of what it was before it was stripped.
func (s *scenario) compile(t *testing.T) (program, symbols string) {
	t.Helper()
	source := filepath.Join(tapes, "src", s.build[1])
	program = filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(s.build[1]), filepath.Ext(s.build[1]))+"-"+s.name)
	var cmd *exec.Cmd
	if s.build[0] == "go" {
		cmd = exec.Command("go", "build", "-trimpath", "-o", program, ".")
		cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	} else {
		cmd = exec.Command(s.build[0], append([]string{source, "-o", program}, s.build[2:]...)...)
	}
	if _, err := exec.LookPath(s.build[0]); err != nil {
		t.Skipf("not supported: %v", err)
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
func (s *scenario) reach(t *testing.T, im images) *tracee {
	t.Helper()
	program, symbols := s.compile(t)
	p := start(t, im, program, s.args...)
	p.symbols[program], p.plain = symbols, s.plain
	for range s.points {
		p.run()
	}
	p.readMaps()
	if s.at != "" {
		p.breakAt(s.at)
	}
	for n := 0; s.until != nil && !s.until(p); n++ {
		if n > 100_000 || p.step(0) {
			t.Fatalf("not reached in %d steps", n)
		}
	}
	return p
}

// TestRecord takes tapes of live programs, whose functions are known, and compares all walkers there and at the next
// instructions. With -record the tapes are kept.
func TestRecord(t *testing.T) {
	runtime.LockOSThread() // ptrace belongs to a thread
	defer runtime.UnlockOSThread()
	h := startHosts(t, unwind.ArchAMD64)
	im := images{}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p := s.reach(t, im)
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
		})
	}
}

// frugal memory refuses the large reads by which stacks are copied for user space: those would fill tapes.
type frugal struct{ unwind.Memory }

func (f frugal) Read(a unwind.Addr, b []byte) error {
	if len(b) > 512 {
		return errors.New("too much for a tape")
	}
	return f.Memory.Read(a, b)
}

// take records the tape of where the program stands.
func (s *scenario) take(t *testing.T, h hosts, p *tracee) *tape.Tape {
	t.Helper()
	live := p.tape()
	live.About = s.about
	if s.max != 0 {
		live.MaxFrames = s.max
	}
	if s.hide != nil {
		live.Mappings = slices.Clone(live.Mappings)
		for i := range live.Mappings {
			if m := &live.Mappings[i]; s.hide(m, p.regs.Rip) {
				m.Table, m.NoTable = nil, false
				if s.stop == unwind.StopNoMapping {
					m.Start = m.End - 1
				}
			}
		}
	}
	load(t, h, live.Mappings)
	memory := &tape.Recorder{From: frugal{p}}
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
func (s *scenario) stepOn(t *testing.T, h hosts, p *tracee) {
	t.Helper()
	load(t, h, p.code)
	for range stepsBetween {
		if t.Failed() || p.step(0) {
			return
		}
		before := len(p.code)
		live := p.tape()
		if len(p.code) != before {
			load(t, h, live.Mappings)
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
