package workloads

// exoticPrograms are those that a profiler must survive and account for.
func exoticPrograms() []Program {
	c := func(name, source string, more ...string) Program {
		flags := "{cc} " + cFlags
		for _, m := range more {
			flags += " " + m
		}
		return Program{Name: name, Exotic: true, steps: []step{words(flags + " {src}/c/" + source + ".c -o {out}/{name}")}}
	}
	withArgs := func(p Program, args ...string) Program {
		p.Args = args
		return p
	}
	many := c("manymaps", "manymaps", "-Wl,-z,separate-code")
	many.Exotic, many.AboveChain, many.Covered = false, 3, 0.5
	many.Truth = []Share{{"hot_island", 1, chain("main", "rounds", "hot_island")}}
	jit := c("jit", "jit")
	jit.Exotic, jit.AboveChain, jit.Covered = false, 3, 0.97
	jit.Truth = threeWay(chain("main", "rounds", Any, "sixty_1", "hot_sixty"), chain("main", "rounds", Any, "thirty_1", "hot_thirty"),
		chain("main", "rounds", Any, "ten_1", "hot_ten"))
	noFP := withArgs(c("jit-nofp", "jit"), "-arg", "1")
	noFP.Covered = 0.97
	noFP.Truth = threeWay(chain("sixty_1", "hot_sixty"), chain("thirty_1", "hot_thirty"), chain("ten_1", "hot_ten"))
	late := c("late", "late")
	late.Exotic, late.AboveChain = false, 3
	late.Truth = []Share{{"hot_first", 1, chain("main", "first_1", "first_2", "first_3", "hot_first")}}
	return []Program{
		many, jit, noFP, late,
		c("nostack", "nostack"),
		withArgs(c("nostack-leaf", "nostack"), "-arg", "1"),
		c("memfd", "memfd"),
		c("bpfhammer", "bpfhammer"),
		c("bpfobjects", "bpfobjects"),
		c("ticks", "ticks"),
		c("storm", "storm", "-static"),
	}
}
