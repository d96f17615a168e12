package workloads

// CompiledProgram is a program in a language whose compiler is a large package of its own: `make test-full` alone builds it.
type CompiledProgram struct {
	Program
	// Language and Compiler are what the table in docs/languages.md calls them, the compiler without its version.
	Language, Compiler string
	// Readable are names as people write them in the language, which must be shown for functions of the program: those of Truth and
	// others of its chains.
	Readable []string
	// LeavesOnly: stacks are not walked; only the functions that run are known.
	LeavesOnly bool
}

// Compiled returns the programs of natively compiled languages that Debian has compilers of.
func Compiled() []CompiledProgram {
	var all []CompiledProgram
	for _, list := range [][]CompiledProgram{
		dPrograms(), adaPrograms(), ocamlPrograms(), nimPrograms(), valaPrograms(), crystalPrograms(), fortranPrograms(),
		gccgoPrograms(), pascalPrograms(), haskellPrograms(),
	} {
		all = append(all, list...)
	}
	for i := range all {
		p := &all[i]
		p.native = true
		if p.Covered == 0 {
			p.Covered = 0.95
		}
		if p.AboveChain == 0 {
			p.AboveChain = 3
		}
	}
	return all
}

// under returns a chain that begins with others.
func under(root []string, names ...string) []string {
	return append(append([]string(nil), root...), names...)
}

func dPrograms() []CompiledProgram {
	main := chain("_Dmain", "_D8threeway6roundsFCQs6BurnermZm")
	level := func(n string) string { return "~LevelTdVii" + n + "Z" }
	truth := threeWay(
		under(main, level("3"), level("2"), level("1"), level("0"), "_D8threeway8hotSixtyFmZm"),
		under(main, "~8threeway6Thirty4burnMFAxamZm", "_D8threeway9hotThirtyFmZm"),
		under(main, Any, "_D8threeway6hotTenFmZm"))
	readable := []string{
		"D main", "threeway.rounds(threeway.Burner, ulong)", "threeway.hotSixty(ulong)", "threeway.hotThirty(ulong)",
		"threeway.hotTen(ulong)", "threeway.Level!(double, 2).Level.run(ulong)", "thunk to threeway.Thirty.burn(const(char)[], ulong)",
	}
	program := func(name, compiler, command string) CompiledProgram {
		return CompiledProgram{
			Language: "D", Compiler: compiler, Readable: readable,
			Program: Program{Name: name, Truth: truth, AboveChain: 12, steps: []step{words(command)}},
		}
	}
	return []CompiledProgram{
		program("d-ldc", "LDC", "ldc2 -O2 -release -od={out} -of={out}/{name} {src}/d/threeway.d"),
		program("d-gdc", "GDC", "gdc -O2 -frelease -o {out}/{name} {src}/d/threeway.d"),
	}
}

func adaPrograms() []CompiledProgram {
	main := chain("main", "_ada_threeway", "burning__rounds")
	compile := words("gnatmake -q -O2 -D {out} -o {out}/{name} {src}/ada/threeway.adb")
	compile.dir = "{out}"
	return []CompiledProgram{{
		Language: "Ada", Compiler: "GNAT",
		Readable: []string{"threeway", "burning.rounds", "burning.hot_sixty", "burning.hot_thirty", "burning.hot_ten",
			"burning.levels.run", `burning.twice."+" [clone .constprop.0]`},
		Program: Program{
			Name: "ada", steps: []step{compile},
			Truth: threeWay(
				under(main, "burning__sixty_1", "burning__sixty_2", "burning__hot_sixty"),
				under(main, "burning__thirty_1", "~burning__twice__Oadd", "burning__levels__run", "burning__hot_thirty"),
				under(main, "burning__ten_1", "burning__hot_ten")),
		},
	}}
}

func ocamlPrograms() []CompiledProgram {
	// rounds ends by calling fold_left, which jumps there.
	main := chain("main", Any, "caml_start_program", "caml_program", "camlThreeway__entry", "~Stdlib__Array__fold_left_", "~Threeway__fun_")
	readable := []string{"Threeway.hot_sixty", "Threeway.hot_thirty", "Threeway.hot_ten", "Stdlib.Array.fold_left"}
	truth := threeWay(
		under(main, "~Threeway__sixty_1_", "~Threeway__sixty_2_", "~Threeway__hot_sixty_"),
		under(main, "~Threeway__thirty_1_", "~Threeway__through_", "~Threeway__fun_", "~Threeway__hot_thirty_"),
		under(main, "~Threeway__ten_1_", "~Threeway__hot_ten_"))
	program := func(name, compiler string, truth []Share, s step) CompiledProgram {
		s.dir = "{out}"
		return CompiledProgram{Language: "OCaml", Compiler: compiler, Readable: readable,
			Program: Program{Name: name, AboveChain: 3, Truth: truth, steps: []step{s}}}
	}
	return []CompiledProgram{
		program("ocaml", "ocamlopt", truth, step{argv: []string{"sh", "-c",
			"cp {src}/ocaml/threeway.ml . && ocamlopt -O3 -o {name} threeway.ml"}}),
	}
}

func nimPrograms() []CompiledProgram {
	main := chain("main", Any, "~main__threeway_", "~rounds__threeway_")
	return []CompiledProgram{{
		Language: "Nim", Compiler: "Nim",
		Readable: []string{"threeway.hotSixty", "threeway.hotThirty", "threeway.hotTen", "threeway.burn", "threeway.`+%%`"},
		Program: Program{Name: "nim", AboveChain: 6,
			steps: []step{words("nim c --hints:off -d:release --nimcache:{out}/nimcache -o:{out}/{name} {src}/nim/threeway.nim")},
			Truth: threeWay(
				under(main, "~sixtyOne__threeway_", "~sixtyTwo__threeway_", "~hotSixty__threeway_"),
				under(main, Any, "~burn__threeway_", Any, "~hotThirty__threeway_"),
				under(main, "~ten__threeway_", "~pluspercentpercent___threeway_", "~hotTen__threeway_")),
		},
	}}
}

func valaPrograms() []CompiledProgram {
	main := chain("~burning_main", "burning_rounds")
	return []CompiledProgram{{
		Language: "Vala", Compiler: "valac",
		Readable: []string{"burning_hot_sixty", "burning_hot_thirty", "burning_hot_ten", "burning_through"},
		Program: Program{Name: "vala",
			steps: []step{{argv: words("valac -d {out} -o {name} -X -O2 -X -fno-inline -X -w {src}/vala/threeway.vala").argv}},
			Truth: threeWay(
				under(main, "burning_sixty_one", "burning_sixty_two", "burning_hot_sixty"),
				under(main, Any, "burning_through", Any, "burning_hot_thirty"),
				under(main, "burning_ten", "burning_hot_ten")),
		},
	}}
}

func crystalPrograms() []CompiledProgram {
	main := chain("main", "__crystal_main", "~*rounds<")
	const fiber = "*Fiber#run:(IO::FileDescriptor | Nil)" // its first function: what calls it jumps there
	return []CompiledProgram{{
		Language: "Crystal", Compiler: "Crystal",
		Readable: []string{"hot_sixty<UInt64>:UInt64", "hot_thirty<UInt64>:UInt64", "hot_ten<UInt64>:UInt64", "Thirty#burn<UInt64>:UInt64",
			"Level(Int32)@Level(T)#run<UInt64>:UInt64", "Fiber#run:(IO::FileDescriptor | Nil)"},
		Program: Program{
			Name: "crystal", Roots: []string{fiber},
			steps: []step{{dir: "{out}", argv: []string{"sh", "-c",
				"CRYSTAL_CACHE_DIR={out}/cache crystal build --release -o {name} {src}/crystal/threeway.cr && rm -r cache"}}},
			Truth: threeWay(
				under(main, "~*Level(Float64)@", "~*Level(Int32)@", "~*hot_sixty<"),
				under(main, "~*Thirty#burn<", "~*through<", "~~procProc(UInt64, UInt64)@", "~*hot_thirty<"),
				chain(fiber, "~~procProc(Nil)@", "~*ten<", "~*hot_ten<")),
		},
	}}
}

func fortranPrograms() []CompiledProgram {
	main := chain("main", "MAIN__", "__burning_MOD_rounds")
	const sixty = "~__burning_MOD_sixty"
	return []CompiledProgram{{
		Language: "Fortran", Compiler: "gfortran",
		Readable: []string{"burning::rounds", "burning::burn_thirty", "burning::through", "burning::hot_sixty [clone .isra.0]",
			"burning::hot_thirty [clone .isra.0]", "burning::hot_ten [clone .isra.0]"},
		Program: Program{
			Name:  "fortran",
			steps: []step{words("gfortran -O2 -fno-inline -J{out} -o {out}/{name} {src}/fortran/burning.f90 {src}/fortran/threeway.f90")},
			Truth: threeWay(
				under(main, sixty, sixty, sixty, "~__burning_MOD_hot_sixty"),
				under(main, "__burning_MOD_burn_thirty", "__burning_MOD_through", "~inner.", "~__burning_MOD_hot_thirty"),
				under(main, "~__burning_MOD_ten", "~__burning_MOD_hot_ten")),
		},
	}}
}

func gccgoPrograms() []CompiledProgram {
	main := chain("main.main", "~main.rounds")
	return []CompiledProgram{{
		Language: "Go", Compiler: "gccgo",
		Readable: []string{"main.hotSixty", "main.hotThirty", "main.hotTen", "main.node.down"},
		Program: Program{
			Name: "gccgo", Covered: 0.85, AboveChain: 3, Roots: []string{"runtime.kickoff"}, // of all goroutines
			steps: []step{words("gccgo -O2 -o {out}/{name} {src}/gccgo/threeway.go")},
			Truth: threeWay(
				under(main, "main.node.down", "main.node.down", "main.leaf.down", "main.hotSixty"),
				under(main, "~main.thirty", Any, "main.thirty..func1", "~main.through", "main.thirty..func2", "main.hotThirty"),
				chain("~main.go..thunk", "main.worker", "main.ten", "main.hotTen")),
		},
	}}
}

func pascalPrograms() []CompiledProgram {
	const unit = "P$THREEWAY"
	main := chain("main", "~"+unit+"_$$_ROUNDS")
	program := func(name, flags, root string) CompiledProgram {
		return CompiledProgram{
			Language: "Pascal", Compiler: "FPC",
			Readable: []string{"THREEWAY.HOTSIXTY(QWORD): QWORD", "THREEWAY.TTHIRTY.BURN(QWORD): QWORD",
				"THREEWAY.TTHIRTY.BURN.INNER(QWORD): QWORD", "THREEWAY.TLEVEL.RUN(QWORD): QWORD",
				"THREEWAY.ROUNDS(TLEVEL, TBURNER, QWORD): QWORD"},
			Program: Program{
				Name: name, Roots: []string{root}, AboveChain: 5,
				steps: []step{words("fpc -O2 -Xs- " + flags + " -FE{out} -o{name} {src}/pascal/threeway.pas")},
				Truth: threeWay(
					under(main, "~"+unit+"$_$TLEVEL$1$", "~"+unit+"_$$_HOTSIXTY"),
					under(main, "~"+unit+"$_$TTHIRTY_$__$$_BURN", "~$$_INNER", "~"+unit+"_$$_HOTTHIRTY"),
					under(main, "~"+unit+"_$$_TEN", "~"+unit+"_$$_HOTTEN")),
			},
		}
	}
	return []CompiledProgram{
		program("pascal", "", "SI_PRC_$$__FPC_PROC_START"),
		program("pascal-libc", "-dLIBC", "SI_C_$$__FPC_LIBC_START"),
	}
}

func haskellPrograms() []CompiledProgram {
	hot := func(name string) []string { return chain("Burning_zdwhot" + name + "_info") }
	return []CompiledProgram{{
		Language: "Haskell", Compiler: "GHC", LeavesOnly: true,
		Readable: []string{"Burning.$whotSixty", "Burning.$whotThirty", "Burning.$whotTen"},
		Program: Program{
			Name:  "haskell",
			steps: []step{words("ghc -v0 -O2 -outputdir {out}/objects -i{src}/haskell -o {out}/{name} {src}/haskell/Main.hs")},
			Truth: threeWay(hot("Sixty"), hot("Thirty"), hot("Ten")),
		},
	}}
}
