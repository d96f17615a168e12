package workloads

import "strings"

// step is one command of a recipe. The words {src}, {out}, {name}, {cc} and {strip} in it are replaced.
type step struct {
	argv []string
	dir  string
	env  []string
}

func words(s string) step { return step{argv: strings.Fields(s)} }

const (
	cFlags   = "-O2 -fomit-frame-pointer -Wall -Wextra -I{src}/common"
	rustc    = "rustc --edition 2021 -O -C force-frame-pointers=no"
	stripAll = "{strip} -o {out}/{name} {out}/{name}.full"
)

// cPrograms are the ways to compile and link the C program.
func cPrograms() []Program {
	variant := func(name, compile string) Program {
		return Program{
			Name: name, Truth: cThreeWay, Covered: 0.97, AboveChain: 3,
			steps: []step{words(compile + " " + cFlags + " {src}/c/threeway.c -o {out}/{name}")},
		}
	}
	stripped := func(p Program) Program {
		p.steps = []step{words(strings.Join(p.steps[0].argv, " ") + ".full"), words(stripAll)}
		p.stripped = true
		return p
	}
	native := func(p Program) Program {
		p.native = true
		return p
	}
	noTables := " -fno-asynchronous-unwind-tables -fno-unwind-tables"
	shallow := variant("c-shallow", "{cc}")
	// One iteration to a slice: the time goes into prologues, epilogues, PLT stubs and libc's setjmp, not into the loops.
	// What cannot be walked is longjmp between restoring the stack pointer and the jump.
	shallow.Args, shallow.Truth, shallow.Covered, shallow.Complete = []string{"-slice", "1"}, nil, 0, 0.985
	// No table at all: the walk follows frame pointers. A leaf has none, so its caller is not found.
	framePointer := variant("c-framepointer", "{cc}")
	framePointer.steps[0].argv = append(framePointer.steps[0].argv, strings.Fields(noTables+" -fno-omit-frame-pointer")...)
	framePointer.Truth = withoutLeafCallers(framePointer.Truth)
	// Only musl's own functions have symbols in it, of which the clock's is called once in some rounds: short ones.
	muslStripped := stripped(variant("musl-stripped", "musl-gcc"))
	muslStripped.Args = []string{"-slice", "1000"}
	return []Program{
		variant("c", "{cc}"),
		stripped(variant("c-stripped", "{cc}")),
		shallow,
		variant("c-nopie", "{cc} -no-pie -fno-pie"),
		variant("c-static", "{cc} -static"),
		stripped(variant("c-static-stripped", "{cc} -static")),
		variant("c-static-pie", "{cc} -static-pie"),
		variant("c-nohdr", "{cc} -Wl,--no-eh-frame-hdr"),
		variant("c-debugframe", "{cc} -g"+noTables),
		framePointer,
		native(variant("musl", "musl-gcc")),
		native(muslStripped),
		native(variant("musl-static", "musl-gcc -static")),
		native(stripped(variant("musl-static-stripped", "musl-gcc -static"))),
	}
}

// withoutLeafCallers has any frame, or none, stand for each function's caller.
func withoutLeafCallers(truth []Share) []Share {
	var changed []Share
	for _, s := range truth {
		c := append([]string(nil), s.Chain...)
		c[len(c)-2] = Any
		changed = append(changed, Share{s.Function, s.Of, c})
	}
	return changed
}

// shapePrograms are C programs with stacks of unusual shape.
func shapePrograms() []Program {
	c := func(name, source string) []step {
		return []step{words("{cc} " + cFlags + " {src}/c/" + source + ".c -pthread -o {out}/" + name)}
	}
	library := words("{cc} " + cFlags + " -fPIC -shared {src}/c/libhot.c -o {out}/libhot.so")
	plugin := words("{cc} " + cFlags + " -fPIC -shared {src}/c/libplugin.c -o {out}/libplugin.so")
	linked := func(source string) step {
		return words("{cc} " + cFlags + " {src}/c/" + source + ".c -L{out} -lhot -ldl -Wl,-rpath,$ORIGIN -Wl,-z,lazy -o {out}/{name}")
	}
	handler := []string{"main", "synchronous", "interrupted", Any, "handler"}
	// Only what the timer interrupted: the instruction may be in any of the three.
	async := []string{"main", "asynchronous", Any, "handler"}
	under := func(prefix []string, names ...string) []string {
		return append(append([]string(nil), prefix...), names...)
	}
	recurse := func(name, depth string) Program {
		return Program{
			Name: name, Args: []string{"-arg", depth}, Covered: 0.96, AboveChain: 3, steps: c("{name}", "recurse"),
			Truth: threeWay(chain("main", Any, "descend", "bottom", "hot_sixty"),
				chain("main", Any, "descend", "bottom", "hot_thirty"), chain("main", Any, "descend", "bottom", "hot_ten")),
		}
	}
	deep := recurse("recurse-1100", "1100")
	deep.Exotic = true
	deep.Truth = threeWay(chain("descend", "bottom", "hot_sixty"), chain("descend", "bottom", "hot_thirty"),
		chain("descend", "bottom", "hot_ten"))
	return []Program{
		recurse("recurse-900", "900"), deep,
		{
			Name: "threads", Covered: 0.95, AboveChain: 2, steps: c("{name}", "threads"),
			Truth: threeWay(chain("worker", "sixty_1", "sixty_2", "hot_sixty"), chain("worker", "thirty_1", "hot_thirty"),
				chain("worker", "ten_1", "hot_ten")),
		},
		{
			Name: "signals", Args: []string{"-slice", "60000"}, Covered: 0.9, OtherStack: true, AboveChain: 3, steps: c("{name}", "signals"),
			Truth: threeWay(under(handler, "sixty_1", "sixty_2", "hot_sixty"), under(handler, "thirty_1", "hot_thirty"),
				under(handler, "ten_1", "hot_ten")),
		},
		{
			Name: "signals-async", Args: []string{"-arg", "1", "-slice", "300000"}, AboveChain: 3, OtherStack: true, steps: c("{name}", "signals"),
			Truth: threeWay(under(async, "sixty_1", "sixty_2", "hot_sixty"), under(async, "thirty_1", "hot_thirty"),
				under(async, "ten_1", "hot_ten")),
		},
		{
			Name: "libs", Covered: 0.97, AboveChain: 3, steps: []step{library, plugin, linked("libs")},
			libraries: []string{"libhot.so", "libplugin.so"},
			Truth: threeWay(chain("main", "rounds", "library_call", "sixty_1", "hot_sixty"),
				chain("main", "rounds", "library_burn", "library_inner", "hot_thirty"),
				chain("main", "rounds", "plugin_burn", "plugin_inner", "hot_ten")),
		},
		{
			Name: "plt", Args: []string{"-slice", "6000"}, Covered: 0.97, AboveChain: 3, steps: []step{library, linked("plt")},
			libraries: []string{"libhot.so"},
			Truth:     threeWay(chain("main", "hot_sixty"), chain("main", "hot_thirty"), chain("main", "hot_ten")),
		},
	}
}

// kernelPrograms burn in the kernel and in the vdso.
func kernelPrograms() []Program {
	truth := threeWay(
		chain("main", "rounds", "sixty_1", "sixty_2", "sixty_3", "sixty_4", "sixty_5", "sixty_6", "hot_sixty"),
		chain("main", "rounds", "thirty_1", "thirty_2", "thirty_3", "hot_thirty"),
		chain("main", "rounds", "ten_1", "ten_2", "ten_3", "hot_ten"))
	variant := func(name, compile string) Program {
		return Program{
			Name: name, Covered: 0.95, AboveChain: 3, Truth: truth,
			steps: []step{words(compile + " " + cFlags + " {src}/c/kernelmode.c -o {out}/{name}")},
		}
	}
	return []Program{
		variant("kernelmode", "{cc}"),
		variant("kernelmode-static", "{cc} -static"),
		{
			Name: "lockstep", Covered: 0.97, AboveChain: 3,
			Truth: []Share{{"hot_even", 0.5, chain("main", "rounds", "hot_even")}, {"hot_odd", 0.5, chain("main", "rounds", "hot_odd")}},
			steps: []step{words("{cc} " + cFlags + " {src}/c/lockstep.c -o {out}/{name}")},
		},
	}
}
