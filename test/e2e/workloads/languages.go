package workloads

import "fmt"

// languagePrograms are the C++, Rust and Go programs.
func languagePrograms() []Program {
	return append(append(cppPrograms(), rustPrograms()...), goPrograms()...)
}

func cppPrograms() []Program {
	// The three functions are found by the middle of their mangled names.
	truth := []Share{
		{"~4burnINS_5SixtyE", 0.6, append(append(chain("main", "~5sixtyEm"), repeat("~5ChainINS_5SixtyEd", 12)...), "~4burnINS_5SixtyE")},
		{"~4burnINS_6ThirtyE", 0.3, append(append(chain("main", "~6thirtyEm"), append(append(repeat("~7unwoundI", 5), Any, "~7CleanupD"),
			repeat("~5ChainINS_6ThirtyEl", 4)...)...), "~4burnINS_6ThirtyE")},
		{"~4burnINS_3TenE", 0.1, append(append(chain("main", "~3tenEm"), repeat("~5ChainINS_3TenEs", 3)...), "~4burnINS_3TenE")},
	}
	p := Program{
		Name: "cpp", Args: []string{"-slice", "60000"}, Truth: truth, Covered: 0.95, AboveChain: 3, native: true,
		steps: []step{words("g++ " + cFlags + " {src}/cpp/threeway.cc -o {out}/{name}")},
	}
	s := p
	s.Name, s.stripped = "cpp-stripped", true
	s.steps = []step{words("g++ " + cFlags + " {src}/cpp/threeway.cc -o {out}/{name}.full"), words(stripAll)}
	return []Program{p, s}
}

func rustPrograms() []Program {
	// Legacy mangling tells the instances of a generic function apart by a hash only, so the functions that count are the
	// three that call them.
	main := chain("~threeway4main")
	truth := func(main []string) []Share {
		under := func(name string) []string { return append(append([]string(nil), main...), name) }
		return []Share{{"~threeway5sixty", 0.6, under("~threeway5sixty")}, {"~threeway6thirty", 0.3, under("~threeway6thirty")},
			{"~threeway3ten", 0.1, under("~threeway3ten")}}
	}
	p := Program{
		Name: "rust", Truth: truth(main), Covered: 0.96, AboveChain: 12, native: true,
		steps: []step{words(rustc + " {src}/rust/threeway.rs -o {out}/{name}")},
	}
	v0 := p
	v0.Name = "rust-v0"
	v0.steps = []step{words(rustc + " -C symbol-mangling-version=v0 {src}/rust/threeway.rs -o {out}/{name}")}
	s := p
	s.Name, s.stripped = "rust-stripped", true
	s.steps = []step{words(rustc + " {src}/rust/threeway.rs -o {out}/{name}.full"), words(stripAll)}
	return []Program{p, v0, s}
}

// goLevels is a chain of n interface calls above the leaf. A method called through an interface may have a wrapper.
func goLevels(function string, n int) []string {
	c := chain(function)
	c = append(c, repeat("main.(*node).down", n)...)
	return append(c, Any, "main.leaf.down")
}

func goTruth(root ...string) []Share {
	under := func(levels []string, last string) []string {
		return append(append(append([]string(nil), root...), levels...), last)
	}
	return []Share{
		{"main.hotSixty", 0.6, under(goLevels("main.sixty", 11), "main.hotSixty")},
		{"main.hotThirty", 0.3, under(goLevels("main.thirty", 4), "main.hotThirty")},
		{"main.hotTen", 0.1, append(append([]string(nil), root...), "main.ten", Any, "main.hotTen")},
	}
}

func goPrograms() []Program {
	build := func(flags, dir, cgo string) []step {
		s := words("go build -trimpath -buildvcs=false " + flags + " -o {out}/{name} .")
		s.dir, s.env = "{src}/"+dir, []string{"CGO_ENABLED=" + cgo}
		return []step{s}
	}
	plain := goTruth("runtime.main", "main.main", "main.round", Any)
	variant := func(name, flags string, args ...string) Program {
		return Program{
			Name: name, Args: args, Truth: plain, Covered: 0.95, AboveChain: 1, steps: build(flags, "go", "0"),
		}
	}
	stripped := variant("go-stripped", "-ldflags=-s")
	// The twin is the same program with its symbol table; the linker lays both out equally.
	full := build("", "go", "0")[0]
	full.argv = append(full.argv[:len(full.argv)-3:len(full.argv)-3], "-o", "{out}/{name}.full", ".")
	stripped.stripped, stripped.NamesItself, stripped.steps = true, true, append(stripped.steps, full)
	goroutines := variant("go-goroutines", "", "-mode", "goroutines")
	goroutines.Truth, goroutines.Covered = goTruth("main.repeat", Any), 0.9
	goroutines.AboveChain = 2 // goexit and the wrapper that the go statement makes
	system := variant("go-runtime", "", "-mode", "runtime")
	system.Covered = 0.2
	pie := variant("go-pie", "-buildmode=pie")
	return []Program{variant("go", ""), stripped, pie, goroutines, system, cgoProgram(build("", "gocgo", "1"))}
}

func cgoProgram(steps []step) Program {
	root := []string{"runtime.main", "main.main"}
	under := func(names ...string) []string { return append(append([]string(nil), root...), names...) }
	return Program{
		Name: "gocgo", Args: []string{"-slice", "60000"}, Covered: 0.95, AboveChain: 2, native: true, OtherStack: true, steps: steps,
		Truth: threeWay(
			under("main.callSixty", Any, "sixty", "sixty_1", "sixty_2", "sixty_3", "hot_sixty"),
			under("main.callThirty", Any, "thirty", "thirty_1", "thirty_2", "call_back", Any, "main.goCallback", "main.goLevel",
				"main.hotThirty"),
			under("main.callTen", "main.hotTen")),
	}
}

// GoVersion is the plain Go program built by another version of Go (such as "1.21.13"), which the go command fetches.
func GoVersion(version string) Program {
	p := goPrograms()[0]
	p.Name = "go-" + version
	p.steps[0].env = append(p.steps[0].env, fmt.Sprintf("GOTOOLCHAIN=go%s+auto", version))
	return p
}

func repeat(s string, n int) []string {
	r := make([]string, n)
	for i := range r {
		r[i] = s
	}
	return r
}
