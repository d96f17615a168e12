package dwarf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func c(name, compiler string, args ...string) program {
	return program{name: name, compiler: compiler, sources: []string{"main.c", "other.c"}, args: args, inlined: true}
}

func cxx(name, compiler string, args ...string) program {
	return program{name: name, compiler: compiler, sources: []string{"shapes.cc"}, args: args, inlined: true}
}

func (p program) then(command ...string) program {
	p.after = append(p.after, command)
	return p
}

// reference has llvm-symbolizer look into another file.
func (p program) reference(name string) program {
	p.other = name
	return p
}

// supplement gives the file that the program shares with another.
func (p program) supplement(name string) program {
	p.options = func(t testing.TB, dir string) Options {
		return Options{Supplement: openDebug(t, filepath.Join(dir, name))}
	}
	return p
}

// split looks for .dwo files.
func (p program) split() program {
	p.options = func(testing.TB, string) Options { return Options{OpenSplit: splitFiles} }
	return p
}

// spilled decompresses every section to a file.
func (p program) spilled() program {
	p.name += " spilled"
	p.options = func(t testing.TB, _ string) Options {
		return Options{SpillSize: 1, Spill: func(uint64) (Spill, error) { return os.CreateTemp(t.TempDir(), "spill") }}
	}
	return p
}

// packaged looks into the .dwp file.
func (p program) packaged() program {
	p.options = func(t testing.TB, dir string) Options {
		return Options{Package: openDebug(t, filepath.Join(dir, "prog.dwp"))}
	}
	return p
}

// programs are all builds that are compared.
func programs() (all []program) {
	for version := 2; version <= 5; version++ {
		for _, cc := range []string{"gcc", "clang-19"} {
			flag := fmt.Sprintf("-gdwarf-%d", version)
			all = append(all, c(fmt.Sprintf("%s %d", cc, version), cc, "-O2", flag),
				c(fmt.Sprintf("%s %d O3 sections", cc, version), cc, "-O3", "-g", flag, "-ffunction-sections", "-Wl,--gc-sections"))
		}
		for _, cc := range []string{"g++", "clang++-19"} {
			all = append(all, cxx(fmt.Sprintf("%s %d", cc, version), cc, "-O2", fmt.Sprintf("-gdwarf-%d", version)))
		}
	}
	return append(append(all, variants()...), splits()...)
}

func variants() []program {
	shallow := cxx("g++ O0", "g++", "-O0", "-g")
	shallow.inlined = false
	rust := program{name: "rust", compiler: "rustc", sources: []string{"main.rs"}, args: []string{"-O", "-g"}, inlined: true}
	rust5, rustLTO := rust, rust
	rust5.name, rust5.args = "rust 5", []string{"-Copt-level=3", "-g", "-Cdwarf-version=5"}
	rustLTO.name, rustLTO.args = "rust lto", []string{"-O", "-g", "-Clto=fat"}
	return []program{
		c("gcc O0", "gcc", "-O0", "-g"),
		c("gcc 64-bit", "gcc", "-O2", "-gdwarf-5", "-gdwarf64"),
		c("gcc 64-bit 4", "gcc", "-O2", "-gdwarf-4", "-gdwarf64"),
		c("clang 64-bit", "clang-19", "-O2", "-gdwarf-5", "-gdwarf64"),
		c("gcc strict", "gcc", "-O2", "-gdwarf-4", "-gstrict-dwarf"),
		c("gcc no-pie", "gcc", "-O2", "-g", "-no-pie", "-fno-pie"),
		c("gcc static", "gcc", "-O2", "-g", "-static"),
		c("gcc zlib", "gcc", "-O2", "-g", "-gz=zlib"),
		c("gcc zlib", "gcc", "-O2", "-g", "-gz=zlib").spilled(),
		// LLVM 19 does not read what was called .zdebug.
		c("gcc zlib-gnu", "gcc", "-O2", "-g", "-gz=zlib-gnu").
			then("objcopy", "--decompress-debug-sections", "prog", "plain").reference("plain"),
		c("clang zstd", "clang-19", "-O2", "-g", "-fuse-ld=lld", "-Wl,--compress-debug-sections=zstd"),
		c("clang zstd", "clang-19", "-O2", "-g", "-fuse-ld=lld", "-Wl,--compress-debug-sections=zstd").spilled(),
		c("gcc zlib-gnu", "gcc", "-O2", "-g", "-gz=zlib-gnu").spilled().
			then("objcopy", "--decompress-debug-sections", "prog", "plain").reference("plain"),
		c("clang lld sections", "clang-19", "-O2", "-g", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"),
		c("clang lld icf", "clang-19", "-O2", "-g", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--icf=all"),
		c("clang lld 4 sections", "clang-19", "-O2", "-gdwarf-4", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"),
		c("clang aranges", "clang-19", "-O2", "-g", "-gdwarf-aranges"),
		c("clang g1", "clang-19", "-O2", "-g1"),
		c("gcc g1", "gcc", "-O2", "-g1"),
		c("gcc lto", "gcc", "-O2", "-g", "-flto"),
		c("gcc lto 4", "gcc", "-O3", "-gdwarf-4", "-flto", "-ffat-lto-objects"),
		c("clang lto", "clang-19", "-O2", "-g", "-flto", "-fuse-ld=lld"),
		c("clang thin lto", "clang-19", "-O2", "-g", "-flto=thin", "-fuse-ld=lld"),
		c("gcc types", "gcc", "-O2", "-g", "-fdebug-types-section"),
		cxx("g++ types", "g++", "-O2", "-g", "-fdebug-types-section"),
		cxx("g++ types 4", "g++", "-O2", "-gdwarf-4", "-fdebug-types-section"),
		cxx("clang++ types", "clang++-19", "-O2", "-g", "-fdebug-types-section"),
		shallow,
		cxx("g++ O3 lto", "g++", "-O3", "-g", "-flto"),
		cxx("clang++ O3 lto", "clang++-19", "-O3", "-g", "-flto", "-fuse-ld=lld"),
		cxx("g++ mold", "g++", "-O2", "-g", "-fuse-ld=mold"),
		cxx("clang++ lld sections", "clang++-19", "-O2", "-g", "-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"),
		cxx("g++ dwz", "g++", "-O2", "-g").then("dwz", "prog"),
		c("gcc dwz", "gcc", "-O2", "-gdwarf-4").then("dwz", "prog"),
		// LLVM 19 does not read supplementary files.
		cxx("g++ supplement", "g++", "-O2", "-g").then("cp", "prog", "plain").then("cp", "prog", "twin").
			then("dwz", "-m", "common.dwz", "prog", "twin").supplement("common.dwz").reference("plain"),
		cxx("g++ 4 supplement", "g++", "-O2", "-gdwarf-4").then("cp", "prog", "plain").then("cp", "prog", "twin").
			then("dwz", "-m", "common.dwz", "prog", "twin").supplement("common.dwz").reference("plain"),
		cxx("g++ 5 supplement", "g++", "-O2", "-g").then("cp", "prog", "plain").then("cp", "prog", "twin").
			then("dwz", "-5", "-m", "common.dwz", "prog", "twin").supplement("common.dwz").reference("plain"),
		c("arm64", "aarch64-linux-gnu-gcc", "-O2", "-g"),
		cxx("arm64 g++", "aarch64-linux-gnu-g++", "-O2", "-gdwarf-4"),
		rust, rust5, rustLTO,
	}
}

func splits() (all []program) {
	for version := 4; version <= 5; version++ {
		flag := fmt.Sprintf("-gdwarf-%d", version)
		for _, cc := range []string{"gcc", "clang-19"} {
			name := fmt.Sprintf("%s split %d", cc, version)
			p := c(name, cc, "-O2", "-g", flag, "-gsplit-dwarf", "-ffunction-sections")
			all = append(all, p.split())
			p.name += " llvm-dwp"
			if version == 4 || cc != "gcc" { // LLVM 19's never ends on what GCC 12 makes of version 5
				all = append(all, p.then("llvm-dwp-19", "-e", "prog", "-o", "prog.dwp").packaged())
			}
			if version == 4 {
				p.name = name + " dwp"
				all = append(all, p.then("dwp", "-e", "prog", "-o", "prog.dwp").packaged())
			}
		}
		for _, cc := range []string{"g++", "clang++-19"} {
			all = append(all, cxx(fmt.Sprintf("%s split %d", cc, version), cc, "-O2", "-g", flag, "-gsplit-dwarf").split())
		}
	}
	return all
}
