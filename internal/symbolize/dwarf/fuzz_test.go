package dwarf

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// FuzzOpenAndLookup opens any sections, as those of a file, of its split files and package, and of the supplementary one.
func FuzzOpenAndLookup(f *testing.F) {
	names := sectionNames
	seed := func(from map[string][]byte) {
		var b [sections][]byte
		for i, name := range names {
			if b[i] = from[".debug_"+name]; b[i] == nil {
				b[i] = from[".debug_"+name+".dwo"]
			}
			if len(b[i]) > 4<<10 {
				b[i] = b[i][:4<<10]
			}
		}
		f.Add(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10])
	}
	for _, p := range []program{
		c("gcc", "gcc", "-gdwarf-5"), c("gcc 3", "gcc", "-gdwarf-3"),
		c("clang", "clang-19", "-gdwarf-5"), c("clang 4", "clang-19", "-gdwarf-4"),
		c("split", "clang-19", "-g", "-gsplit-dwarf").then("llvm-dwp-19", "-e", "prog", "-o", "prog.dwp"),
	} {
		// The code is where synthetic has it.
		p.args = append(p.args, "-O2", "-nostartfiles", "-no-pie", fmt.Sprintf("-Wl,-Ttext=%#x", textAddr), "-Wl,-emain")
		path := p.build(f)
		seed(debugSections(f, path))
		if p.name == "split" {
			seed(debugSections(f, filepath.Join(filepath.Dir(path), "prog.dwp")))
		}
	}
	small := infoOf(langCxx, func(w *writer) { w.function("f", textAddr, 16).inlined(30, textAddr, 4, 1).u8(0, 0) })
	seed(map[string][]byte{".debug_info": small, ".debug_abbrev": abbreviations()})
	f.Fuzz(func(t *testing.T, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10 []byte) {
		plain, split := map[string][]byte{}, map[string][]byte{}
		for i, b := range [][]byte{b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10} {
			plain[".debug_"+names[i]] = b
			split[".debug_"+names[i]+".dwo"] = b
			split[".debug_"+names[i]] = b
		}
		budget := elffile.NewBudget("fuzz", 4<<20)
		o := Options{
			Supplement: synthetic(t, plain), Package: synthetic(t, split), MaxSteps: 1 << 16,
			OpenSplit: func(string, string, uint64) (*elffile.File, io.Closer, error) { return synthetic(t, split), nil, nil },
		}
		if len(b0)%2 == 0 {
			o.Package = nil
		}
		d, err := Open(synthetic(t, plain).Within(budget), o)
		if err != nil {
			return
		}
		for a := unwind.FileAddr(textAddr); a < textAddr+0x400; a += 0x1d {
			lines, err := d.Lookup(nil, a)
			if len(lines) > MaxInlined+1 || err != nil && len(lines) > 0 {
				t.Fatalf("%d lines, %v", len(lines), err)
			}
		}
		if uint64(d.Bytes()) != budget.Used() {
			t.Fatalf("%d bytes, %d used", d.Bytes(), budget.Used())
		}
		if d.Close(); budget.Used() != 0 {
			t.Fatalf("%d bytes left", budget.Used())
		}
	})
}
