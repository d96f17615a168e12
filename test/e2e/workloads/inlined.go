package workloads

import "strings"

// Inlined returns programs whose levels between main and the functions that burn vanish in inlining. Their truth is about
// functions as the source has them, inlined or not, by the names that people read; chains begin at main.
func Inlined() []Program {
	c := threeWay(
		chain("main", "rounds", "sixty", "sixty_middle", "sixty_inner", "hot_sixty"),
		chain("main", "rounds", "thirty", "thirty_middle", "hot_thirty"),
		chain("main", "rounds", "ten", "hot_ten"))
	cpp := threeWay(
		chain("main", "rounds", "~run<shares::Sixty>", "~Chain<shares::Sixty>::operator()", Any, "~operator()", "~burn<shares::Sixty>"),
		chain("main", "rounds", "~run<shares::Thirty>", "~Chain<shares::Thirty>::operator()", Any, "~operator()", "~burn<shares::Thirty>"),
		chain("main", "rounds", "~run<shares::Ten>", "~Chain<shares::Ten>::operator()", Any, "~operator()", "~burn<shares::Ten>"))
	rust := threeWay(
		chain("~threeway::main", "~threeway::sixty", Any, "~threeway::burn"),
		chain("~threeway::main", "~threeway::thirty", Any, "~threeway::burn"),
		chain("~threeway::main", "~threeway::ten", Any, "~threeway::burn"))
	for i, name := range []string{"~threeway::sixty", "~threeway::thirty", "~threeway::ten"} {
		rust[i].Function = name // the functions that burn are instances of one
	}
	cSources := "{src}/inlined/main.c {src}/inlined/sixty.c {src}/inlined/thirty.c {src}/inlined/ten.c"
	of := func(name string, truth []Share, commands ...string) Program {
		p := Program{Name: name, Truth: truth, Covered: 0.95, native: true}
		for _, c := range commands {
			p.steps = append(p.steps, words(c+" -o {out}/{name}"))
		}
		return p
	}
	split := of("inlined-split", c, "gcc -g -O3 -gsplit-dwarf -gdwarf-5 {src}/inlined/all.c")
	split.steps[0].dir = "{out}" // where the .dwo files go
	separate := of("inlined-debuglink", c, "gcc -g -gdwarf-4 -O3 -flto "+cSources)
	separate.steps = append(separate.steps,
		words("objcopy --only-keep-debug --compress-debug-sections=zlib {out}/{name} {out}/{name}.debug"),
		words("objcopy --strip-debug --add-gnu-debuglink={out}/{name}.debug {out}/{name}"))
	return []Program{
		of("inlined-gcc", c, "gcc -g -O3 -flto "+cSources),
		of("inlined-clang", c, "clang-19 -fuse-ld=lld -g -O3 -flto "+cSources),
		of("inlined-clang-dwarf2", c, "clang-19 -fuse-ld=lld -gdwarf-2 -O3 -flto "+cSources),
		of("inlined-compressed", c, "gcc -g -gz=zlib -O3 -flto "+cSources),
		split, separate,
		of("inlined-cpp", cpp, "g++ -g -O3 -flto {src}/inlined/threeway.cc"),
		of("inlined-rust", rust, "rustc --edition 2021 -g -C opt-level=3 -C lto=fat --cfg inlined {src}/rust/threeway.rs"),
	}
}

// Many is a program that runs evenly through much code, most of it inlined.
func Many() Program {
	return Program{
		Name: "many", native: true,
		steps: []step{words("g++ -std=c++17 -g -O2 " + strings.TrimPrefix(cFlags, "-O2 -fomit-frame-pointer ") + " {src}/many/many.cc -o {out}/{name}")},
	}
}
