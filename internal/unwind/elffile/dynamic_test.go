package elffile_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// library builds a shared object with the linker's option for the style of its hash table.
func library(t testing.TB, style string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "l.c"), filepath.Join(dir, "l.so")
	text := "extern int missing(void);\nint zero(void) { return missing(); }\nstatic int hidden(void) { return 1; }\nint (*p)(void) = hidden;\n"
	for i := range 200 {
		text += "int function_" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " = 1;\n"
	}
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	b, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,--hash-style="+style, "-o", out, source).CombinedOutput()
	require.NoError(t, err, "%s", b)
	b, err = os.ReadFile(out)
	require.NoError(t, err)
	return b
}

// TestDynamic: every defined symbol is found where debug/elf says it is, and nothing else.
func TestDynamic(t *testing.T) {
	for _, style := range []string{"gnu", "sysv", "both"} {
		t.Run(style, func(t *testing.T) {
			b := library(t, style)
			f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
			require.NoError(t, err)
			d, err := elffile.NewDynamic(f)
			require.NoError(t, err)
			want, err := elf.NewFile(bytes.NewReader(b))
			require.NoError(t, err)
			symbols, err := want.DynamicSymbols()
			require.NoError(t, err)
			found := 0
			for _, w := range symbols {
				s, ok, err := d.Lookup(w.Name)
				require.NoError(t, err)
				require.Equal(t, w.Section != elf.SHN_UNDEF, ok, w.Name)
				if ok {
					require.Equal(t, unwind.FileAddr(w.Value), s.Value, w.Name)
					require.Equal(t, w.Size, s.Size, w.Name)
					found++
				}
			}
			require.Greater(t, found, 200)
			for _, name := range []string{"", "hidden", "nothing", "function_", "function_aaa"} {
				_, ok, err := d.Lookup(name)
				require.NoError(t, err)
				require.False(t, ok, name)
			}
		})
	}
}

// TestNoDynamic: a file without a dynamic section says so.
func TestNoDynamic(t *testing.T) {
	b := library(t, "gnu")
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	var progs []elffile.Prog
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC {
			progs = append(progs, p)
		}
	}
	f.Progs = progs
	_, err = elffile.NewDynamic(f)
	require.ErrorIs(t, err, elffile.ErrNoDynamic)
}

// FuzzDynamic: whatever the tables hold, a lookup ends.
func FuzzDynamic(f *testing.F) {
	for _, style := range []string{"gnu", "sysv"} {
		f.Add(library(f, style), "zero")
	}
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		file, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(name) > 64 {
			return
		}
		d, err := elffile.NewDynamic(file)
		if err != nil {
			return
		}
		if s, ok, err := d.Lookup(name); ok && (err != nil || s.Section == elf.SHN_UNDEF) {
			t.Error("found, and not found")
		}
	})
}
