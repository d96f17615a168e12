package workloads

import "strings"

// Edges are programs that are compiled, linked or written in ways that are rare, and all the same have to be walked and named.
// Find knows them too.
func Edges() []Program {
	var all []Program
	all = append(all, flagPrograms()...)
	all = append(all, linkPrograms()...)
	all = append(all, jumpPrograms()...)
	all = append(all, coroutinePrograms()...)
	return append(all, sharingPrograms()...)
}

// threeWayWith is the C program of threeway.c with more flags, after all others.
func threeWayWith(name, compiler, flags string) Program {
	return Program{
		Name: name, Truth: cThreeWay, Covered: 0.97, AboveChain: 3, native: true,
		steps: []step{words(compiler + " " + cFlags + " {src}/c/threeway.c -o {out}/{name} " + flags)},
	}
}

// flagPrograms are what compilers add to functions: instructions at their beginnings, checks, calls, frames of other shapes.
func flagPrograms() []Program {
	with := func(name, flags string) Program { return threeWayWith("flag-"+name, "gcc", flags) }
	ifunc := func(name, flags string) Program {
		return Program{
			Name: name, Covered: 0.97, AboveChain: 3, native: true,
			Truth: threeWay(chain("main", "rounds", "sixty_target", "hot_sixty"), chain("main", "rounds", "thirty_target", "hot_thirty"),
				chain("main", "rounds", "ten_target", "hot_ten")),
			steps: []step{words("gcc " + cFlags + " {src}/c/ifunc.c -o {out}/{name} " + flags)},
		}
	}
	asan := with("asan", "-fsanitize=address")
	asan.Covered = 0.4 // frames on a stack of its own are cleaned up at every longjmp: nearly half of the time is in the sanitizer
	ibtPLT := shape("plt")
	ibtPLT.Name, ibtPLT.native, ibtPLT.amd64 = "flag-ibtplt", true, true
	for i := range ibtPLT.steps {
		ibtPLT.steps[i].argv = append(ibtPLT.steps[i].argv, "-fcf-protection=full", "-Wl,-z,ibtplt")
	}
	only := func(p Program) Program {
		p.amd64 = true
		return p
	}
	return []Program{
		only(with("cet", "-fcf-protection=full -mshstk")), ibtPLT,
		with("stackprotector", "-fstack-protector-all"),
		with("stackclash", "-fstack-clash-protection"),
		with("patchable", "-fpatchable-function-entry=16,8"),
		ifunc("ifunc", ""), ifunc("ifunc-static", "-static"),
		only(with("noredzone", "-mno-red-zone")),
		with("instrument", "-finstrument-functions"),
		// mcount keeps no frame pointer of its caller's, which has one; a few samples are in it.
		with("pg", "-pg -fno-omit-frame-pointer"),
		with("splitstack", "-fsplit-stack"),
		asan,
		with("ubsan", "-fsanitize=undefined"),
	}
}

// linkPrograms have their segments in unusual places.
func linkPrograms() []Program {
	with := func(name, flags string) Program { return threeWayWith("link-"+name, "gcc", flags) }
	// Two sections of text stand far away from the others: three executable segments with gaps between them. They follow
	// each other in the file, where they share a page.
	gaps := func(name, flags string) Program {
		p := with(name, "")
		p.steps = []step{
			words("gcc " + cFlags + " " + flags + " -ffunction-sections -c {src}/c/threeway.c -o {out}/all.o"),
			words("objcopy --rename-section .text.hot_sixty=.far_sixty --rename-section .text.thirty_2=.far_thirty" +
				" --rename-section .text.hot_thirty=.far_thirty {out}/all.o {out}/far.o"),
			words("gcc " + flags + " {out}/far.o -o {out}/{name} -Wl,-z,noseparate-code -Wl,--section-start=.far_sixty=0x10000000" +
				" -Wl,--section-start=.far_thirty=0x18000240"),
		}
		return p
	}
	base := shape("libs")
	base.Name, base.native = "link-libbase", true
	base.steps[0].argv = append(base.steps[0].argv, "-Wl,-Ttext-segment=0x3f000000")
	base.steps[1].argv = append(base.steps[1].argv, "-Wl,-Ttext-segment=0x2a000000", "-Wl,-z,max-page-size=0x200000")
	return []Program{
		with("noseparate", "-Wl,-z,noseparate-code"),
		with("2m", "-Wl,-z,max-page-size=0x200000 -Wl,-z,common-page-size=0x200000"),
		with("imagebase", "-no-pie -fno-pie -Wl,-Ttext-segment=0x7000000"),
		with("lld", "-B/usr/lib/llvm-19/bin -fuse-ld=lld -no-pie -fno-pie -Wl,--image-base=0x70000000"),
		gaps("gaps", "-no-pie -fno-pie"), gaps("gaps-pie", "-pie -fPIE"),
		base,
		with("nobuildid", "-Wl,--build-id=none"),
		with("zerobuildid", "-Wl,--build-id=0x0000000000000000000000000000000000000000"),
		// Two different files of the same build id.
		with("sameid-1", "-Wl,--build-id=0x1234567812345678123456781234567812345678"),
		with("sameid-2", "-O1 -fno-omit-frame-pointer -Wl,--build-id=0x1234567812345678123456781234567812345678"),
	}
}

// jumpPrograms leave functions in other ways than by returning.
func jumpPrograms() []Program {
	handler := func(names ...string) []string {
		return append(chain("main", "rounds", "jumps", "interrupted", Any, "handler"), names...)
	}
	panics := func(name, how string) Program {
		under := func(top string) []string { return []string{"~panics4main", "~" + top} }
		return Program{
			Name: name, Covered: 0.8, AboveChain: 12, native: true,
			Truth: []Share{{"~panics5sixty", 0.6, under("panics5sixty")}, {"~panics6thirty", 0.3, under("panics6thirty")},
				{"~panics3ten", 0.1, under("panics3ten")}},
			steps: []step{words(rustc + " -C panic=" + how + " {src}/rust/panics.rs -o {out}/{name}")},
		}
	}
	abort := panics("rust-abort", "abort")
	abort.Covered = 0.97
	return []Program{
		{
			// What cannot be walked is where the unwinder copies the registers of the frame that it goes to, its return address
			// among them, over those that it has saved itself (uw_install_context_1 of libgcc's unwind-dw2.c, gcc 12).
			Name: "throws", Covered: 0.95, Complete: 0.975, AboveChain: 3, native: true,
			Truth: []Share{{"~3topEv", 1, chain("main", "~3topEv")}},
			steps: []step{words("g++ " + cFlags + " {src}/cpp/throws.cc -o {out}/{name}")},
		},
		panics("rust-panics", "unwind"), abort,
		{
			Name: "sigjump", Args: []string{"-slice", "60000"}, Covered: 0.9, OtherStack: true, AboveChain: 3, native: true,
			Truth: threeWay(handler("sixty_1", "sixty_2", "hot_sixty"), handler("thirty_1", "hot_thirty"), handler("ten_1", "hot_ten")),
			steps: []step{words("gcc " + cFlags + " {src}/c/sigjump.c -o {out}/{name}")},
		},
	}
}

// coroutinePrograms switch stacks.
func coroutinePrograms() []Program {
	truth := threeWay(chain("coroutine", "sixty_1", "sixty_2", "sixty_3", "hot_sixty"), chain("coroutine", "thirty_1", "thirty_2", "hot_thirty"),
		chain("coroutine", "ten_1", "hot_ten"))
	with := func(name, arg string) Program {
		return Program{
			Name: name, Args: []string{"-slice", "60000", "-arg", arg}, Covered: 0.95, AboveChain: 1, Truth: truth, OtherStack: true,
			native: true, amd64: arg != "0", Roots: []string{"__start_context", "described_entry", "silent_entry"},
			steps: []step{words("gcc " + cFlags + " {src}/c/coroutines.c -o {out}/{name}")},
		}
	}
	silent, broken := with("coroutines-silent", "2"), with("coroutines-broken", "3")
	broken.Exotic = true
	boost := func(name, arg string) Program {
		p := with(name, arg)
		p.amd64, p.AboveChain, p.Roots = false, 16, []string{"make_fcontext"}
		p.Truth = threeWay(chain("body", "sixty_1", "sixty_2", "hot_sixty"), chain("body", "thirty_1", "hot_thirty"), chain("body", "ten_1", "hot_ten"))
		p.steps = []step{words("g++ " + cFlags + " {src}/cpp/fibers.cc -o {out}/{name} -lboost_context")}
		return p
	}
	return []Program{
		with("coroutines-ucontext", "0"), with("coroutines-described", "1"), silent, broken,
		boost("boost-context", "0"), boost("boost-coroutine", "1"),
	}
}

// sharingPrograms share memory, addresses and files with others.
func sharingPrograms() []Program {
	c := func(name, more string) Program {
		return Program{
			Name: name, AboveChain: 3, native: true,
			steps: []step{words("gcc " + cFlags + " {src}/c/" + name + ".c -pthread -o {out}/{name} " + more)},
		}
	}
	vforks := c("vforks", "-ldl")
	vforks.Args, vforks.Covered = []string{"-slice", "1000000"}, 0.8
	vforks.libraries = []string{"libplugin.so"}
	vforks.steps = append(vforks.steps, words("gcc "+cFlags+" -fPIC -shared {src}/c/libplugin.c -o {out}/libplugin.so"))
	vforks.Truth = []Share{
		{"hot_vfork", 0.4, chain("main", "with_vfork", "vfork_1", "vfork_2", "hot_vfork")},
		{"hot_exec", 0.3, chain("main", "exec_1", "hot_exec")},
		{"hot_clone", 0.3, chain("cloned", "clone_1", "clone_2", "hot_clone")},
	}
	brief := c("brief", "")
	brief.Truth = []Share{{"hot_brief", 1, chain(Any, "brief_1", "brief_2", "hot_brief")}}
	// The library has the same code under another name.
	renamed := shape("libs")
	renamed.Name, renamed.native = "libs-renamed", true
	renamed.steps[0].argv = append(renamed.steps[0].argv, "-Dlibrary_inner=library_other")
	renamed.Truth[1].Chain[3] = "library_other"
	swaps := c("swaps", "-ldl")
	swaps.Args, swaps.Covered = []string{"-slice", "300000"}, 0.8
	swaps.libraries = []string{"libswap0.so", "libswap1.so"}
	for _, side := range []string{"0", "1"} {
		swaps.steps = append(swaps.steps, words("gcc "+cFlags+" -fPIC -shared -DSIDE="+side+" {src}/c/libswap.c -o {out}/libswap"+side+".so"))
	}
	swaps.Truth = []Share{
		{"hot_left", 0.6, chain("main", "rounds", "call_left", "swap_entry", "left_1", "left_2", "left_3", "hot_left")},
		{"hot_right", 0.4, chain("main", "rounds", "call_right", "swap_entry", "right_1", "right_0", "right_2", "right_3", "right_4", "hot_right")},
	}
	// A hundred libraries and more, the last of which has all symbols that the others look up.
	relocs := Program{Name: "relocs", native: true, Exotic: true, steps: []step{
		words("gcc -shared -DRELOCS=6000 {src}/c/librelocs.S -o {out}/librelocs.so"),
		{argv: []string{"sh", "-c", `cp "$1"/librelocs.so "$1"/last.so && gcc -shared -nostdlib -o "$1"/librelocs-0.so -xc /dev/null &&
			for i in $(seq 119); do cp "$1"/librelocs-0.so "$1"/librelocs-$i.so; done`, "sh", "{out}"}},
		{argv: []string{"sh", "-c", `cd "$1" && gcc -O2 "$2"/c/nothing.c -o relocs -Wl,--no-as-needed -L. ` +
			`$(seq -f -l:librelocs-%g.so 0 119) -l:last.so -Wl,-rpath,'$ORIGIN'`, "sh", "{out}", "{src}"}},
	}}
	own := func(name, arg string) Program {
		p := c("ownpages", "")
		p.Name, p.Args, p.Covered = name, []string{"-arg", arg}, 0.97
		p.steps[0] = words(strings.Replace(strings.Join(p.steps[0].argv, " "), "{src}/c/"+name, "{src}/c/ownpages", 1))
		p.Truth = threeWay(chain("main", "rounds", "sixty_1", "sixty_2", "sixty_3", "hot_sixty"), chain("main", "rounds", "thirty_1", "thirty_2", "hot_thirty"),
			chain("main", "rounds", "ten_1", "hot_ten"))
		return p
	}
	i386 := Program{
		Name: "i386", Exotic: true, native: true, amd64: true,
		steps: []step{words("gcc -m32 -O2 -nostdlib -static -fno-pie -no-pie -fno-stack-protector -fno-asynchronous-unwind-tables {src}/c/i386.c -o {out}/{name}")},
	}
	return []Program{vforks, brief, renamed, swaps, relocs, own("ownpages-mremap", "0"), own("ownpages-mmap", "1"), own("ownpages-other", "2"), i386}
}

// shape returns one of shapePrograms, to be changed.
func shape(name string) Program {
	p, ok := findIn(shapePrograms(), name)
	if !ok {
		panic("there is no workload " + name)
	}
	return p
}

func findIn(programs []Program, name string) (_ Program, ok bool) {
	for _, p := range programs {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}
