package hostbpf_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// image is a mapped file: its table and its functions.
type image struct {
	name      string
	segments  []unwind.Segment
	table     *unwind.Table
	golang    *gopclntab.Offsets
	functions []elf.Symbol // by address
}

// images caches what several programs map, by path.
type images map[string]*image

// load reads a file; its symbols come from another one if it is stripped.
func (im images) load(t testing.TB, path, symbols string, plain bool) *image {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := im.parse(t, path, b, plain)
	if symbols != "" && symbols != path {
		full, err := os.ReadFile(symbols)
		if err != nil {
			t.Fatal(err)
		}
		i.functions = functions(full)
	}
	return i
}

func (im images) parse(t testing.TB, path string, b []byte, plain bool) *image {
	t.Helper()
	key := fmt.Sprint(path, plain)
	if i := im[key]; i != nil {
		return i
	}
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	i := &image{name: filepath.Base(path), segments: f.Segments, functions: functions(b)}
	if plain {
		i.table, _, err = ehframe.EHFrame(f)
	} else {
		var info tables.Info
		i.table, info, err = tables.Build(f)
		if info.Go != nil {
			i.golang = info.Go.Offsets
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	im[key] = i
	return i
}

func functions(b []byte) []elf.Symbol {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	all, _ := f.Symbols() // none is fine
	dynamic, _ := f.DynamicSymbols()
	all = slices.DeleteFunc(append(all, dynamic...), func(s elf.Symbol) bool {
		kind := elf.ST_TYPE(s.Info)
		code := kind == elf.STT_FUNC || kind == elf.STT_NOTYPE && int(s.Section) < len(f.Sections) && s.Name != "" && s.Name[0] != '$' &&
			f.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0
		return !code || s.Value == 0
	})
	// Of several names the shortest is likely the one that people know.
	slices.SortStableFunc(all, func(a, b elf.Symbol) int {
		if a.Value != b.Value {
			return int(int64(a.Value) - int64(b.Value))
		}
		return len(b.Name) - len(a.Name)
	})
	return all
}

// function names the code at an address of the file.
func (i *image) function(a unwind.FileAddr) string {
	after, _ := slices.BinarySearchFunc(i.functions, uint64(a)+1, func(s elf.Symbol, a uint64) int {
		return int(int64(s.Value) - int64(a))
	})
	if after == 0 {
		return ""
	}
	if s := i.functions[after-1]; uint64(a) < s.Value+max(s.Size, 1) {
		return s.Name
	}
	return ""
}

// mapped are the files of mappings; nil: anonymous.
type mapped []*image

// name names the code at an address by its function, otherwise by its file.
func (m mapped) name(code tape.Code, a uint64) string {
	for i, in := range code {
		if !in.Contains(unwind.Addr(a)) {
			continue
		}
		if m[i] != nil {
			if f := m[i].function(in.FileAddr(unwind.Addr(a))); f != "" {
				return f
			}
		}
		return in.Name
	}
	return ""
}
