//go:build amd64

package hostbpf_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

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
		{name: "c-frame-pointer", plain: true, about: "C with frame pointers and without unwind information: guesses", points: 1,
			build: c("deep.c", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"), want: deep, root: glibcRoot},
		{name: "c-no-rule", plain: true, about: "C with neither frame pointers nor unwind information: guesses", points: 1,
			build: c("deep.c", "-fno-asynchronous-unwind-tables"), want: deep, root: glibcRoot},
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
			args: []string{"without"}, points: 1, want: []string{"back", "anonymous", "caller", "main"}, root: glibcRoot},
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
			program, symbols := s.compile(t)
			p := start(t, im, program, s.args...)
			p.symbols[program], p.plain = symbols, s.plain
			s.all(t, h, p)
		})
	}
}

// inPLT: in the program's own code but in none of its functions, behind a push.
func inPLT(p machine) bool {
	var before [5]byte
	if !strings.HasPrefix(p.name(uint64(p.pc())), "calls-") || p.Read(p.pc()-5, before[:]) != nil {
		return false
	}
	return before[0] == 0x68
}
