package hostbpf_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// emulator is a statically linked arm64 program.
type emulator struct {
	*unwindtest.Emulator
	t      *testing.T
	code   tape.Code
	loaded mapped
	regs   unwind.Registers
	done   bool
}

func emulate(t *testing.T, im images, program string, plain bool, args ...string) *emulator {
	t.Helper()
	env := []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off"}
	e := &emulator{Emulator: unwindtest.Emulate(t, env, append([]string{program}, args...)...), t: t}
	e.Ask("qXfer:features:read:target.xml:0,ffb") // or it refuses to set registers one by one
	i := im.load(t, program, "", plain)
	for _, s := range i.segments {
		if !s.Exec {
			continue
		}
		e.code = append(e.code, tape.Mapping{
			Mapping: unwind.Mapping{Start: unwind.Addr(s.VAddr), End: unwind.Addr(uint64(s.VAddr) + s.MemSize), Offset: s.Offset},
			Name:    i.name, Table: i.table, Go: i.golang,
		})
		e.loaded = append(e.loaded, i)
	}
	return e
}

// stopped takes the registers after the program has stopped as the answer says.
func (e *emulator) stopped(answer string) {
	e.t.Helper()
	if strings.HasPrefix(answer, "W") || strings.HasPrefix(answer, "X") {
		e.done = true
		return
	}
	if !strings.HasPrefix(answer, "T05") && !strings.HasPrefix(answer, "S05") {
		e.t.Fatalf("the program stopped: %q", answer)
	}
	var err error
	if e.regs, err = e.Registers(); err != nil {
		e.t.Fatal(err)
	}
}

// leave steps over a breakpoint instruction, at which the pc stays.
func (e *emulator) leave() {
	var ins [4]byte
	if e.Read(e.regs.PC, ins[:]) != nil || binary.LittleEndian.Uint32(ins[:])&0xffe0001f != 0xd4200000 { // brk
		return
	}
	e.regs.PC += 4
	var pc [8]byte
	binary.LittleEndian.PutUint64(pc[:], uint64(e.regs.PC))
	if ok := e.Ask(fmt.Sprintf("P20=%x", pc)); ok != "OK" {
		e.t.Fatalf("setting the pc: %q", ok)
	}
}

func (e *emulator) run() {
	e.t.Helper()
	e.leave()
	if e.stopped(e.Ask("c")); e.done {
		e.t.Fatal("the program ended before its breakpoint")
	}
}

func (e *emulator) step() (ended bool) {
	e.t.Helper()
	e.leave()
	e.stopped(e.Ask("s"))
	return e.done
}

func (e *emulator) breakAt(function string) {
	e.t.Helper()
	for i, m := range e.code {
		for _, s := range e.loaded[i].functions {
			at := m.Addr(unwind.FileAddr(s.Value))
			if s.Name != function || !m.Contains(at) {
				continue
			}
			point := fmt.Sprintf("0,%x,4", uint64(at))
			if ok := e.Ask("Z" + point); ok != "OK" {
				e.t.Fatalf("setting a breakpoint: %q", ok)
			}
			e.run()
			if ok := e.Ask("z" + point); ok != "OK" {
				e.t.Fatalf("removing a breakpoint: %q", ok)
			}
			if e.regs.PC != at {
				e.t.Fatalf("stopped at %#x, not in %s", e.regs.PC, function)
			}
			return
		}
	}
	e.t.Fatalf("no function %s", function)
}

func (e *emulator) pc() unwind.Addr { return e.regs.PC }

func (e *emulator) name(a uint64) string { return e.loaded.name(e.code, a) }

func (e *emulator) tape() *tape.Tape {
	return &tape.Tape{Arch: unwind.ArchARM64, Registers: e.regs, MaxFrames: 1024, Mappings: e.code}
}

func emulatedScenarios() []scenario {
	c := func(compiler, source string, flags ...string) []string {
		return append([]string{"aarch64-linux-gnu-" + compiler, source, "-O2", "-static", "-fno-optimize-sibling-calls"}, flags...)
	}
	deep := []string{"leaf", "with_array", "with_alloca", "recursion", "recursion", "recursion", "compare", "main"}
	root := []string{"_start", "__libc_start_main", "__libc_start_call_main"}
	golang := []string{"go", "go", "arm64"}
	return []scenario{
		{name: "arm64-c-deep", about: "arm64: C, gcc -O2: recursion below qsort", build: c("gcc", "deep.c"), points: 1, want: deep, root: root},
		{name: "arm64-c-no-frame-pointer", about: "arm64: the same without frame pointers", points: 1, want: deep, root: root,
			build: c("gcc", "deep.c", "-fomit-frame-pointer")},
		{name: "arm64-c-guess", about: "arm64: the same with frame pointers and without unwind information: guesses", plain: true, points: 1,
			build: c("gcc", "deep.c", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"),
			want:  []string{"leaf", "with_alloca", "recursion", "recursion", "compare"}, stop: unwind.StopRoot},
		{name: "arm64-realign", about: "arm64: C: large alignment, a variable-sized array, many arguments", build: c("gcc", "realign.c"),
			points: 1, want: []string{"leaf", "variable", "arguments", "main"}, root: root},
		{name: "arm64-pac", about: "arm64: C with signed return addresses", build: c("gcc", "deep.c", "-mbranch-protection=standard"), points: 1,
			want: deep, root: root},
		{name: "arm64-thread", about: "arm64: C: a thread", build: c("gcc", "thread.c", "-pthread"), points: 1, want: []string{"work", "run"},
			root: []string{"thread_start", "__clone", "clone"}},
		{name: "arm64-jit", about: "arm64: C: code in anonymous memory that is not known", build: c("gcc", "jit.c"), points: 1,
			want: []string{"back"}, stop: unwind.StopNoMapping},
		{name: "arm64-exception", about: "arm64: C++: a destructor that runs while an exception passes", build: c("g++", "exception.cc"),
			points: 2, want: []string{"_ZN5Guard", "between", "catcher", "main"}, root: root},
		{name: "arm64-exception-personality", about: "arm64: C++: libgcc looks for the frame that catches an exception",
			build: c("g++", "exception.cc"), points: 1, at: "__gxx_personality_v0", root: root,
			want: []string{"__gxx_personality_v0", "_Unwind_RaiseException", "__cxa_throw", "thrower", "between", "catcher", "main"}},
		{name: "arm64-go-goroutine", about: "arm64: Go: a goroutine", build: golang, points: 1, root: []string{"runtime.goexit"},
			want: []string{"runtime.breakpoint", "main.point", "main.recursion", "main.recursion", "main.main.func"}},
		{name: "arm64-go-systemstack", about: "arm64: Go: the runtime on its system stack, called by a goroutine", build: golang, points: 1,
			at: "runtime.newproc1", want: []string{"runtime.newproc1", "runtime.systemstack", "runtime.newproc", "main.recursion"},
			root: []string{"runtime.goexit"}},
		{name: "arm64-go-morestack", about: "arm64: Go: a goroutine's stack grows; the walk goes on at g.m.curg.sched", build: golang, points: 1,
			at: "runtime.copystack", want: []string{"runtime.copystack", "runtime.newstack", "runtime.morestack", "main.grow", "main.recursion"},
			root: []string{"runtime.goexit"}},
	}
}

// TestRecordEmulated is TestRecord for arm64, under emulation.
func TestRecordEmulated(t *testing.T) {
	h := startHosts(t, unwind.ArchARM64)
	im := images{}
	for _, s := range emulatedScenarios() {
		t.Run(s.name, func(t *testing.T) {
			program, _ := s.compile(t)
			s.all(t, h, emulate(t, im, program, s.plain, s.args...))
		})
	}
}
