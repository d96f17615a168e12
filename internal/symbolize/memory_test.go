package symbolize

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestSharedNames looks every address of a function up: its names are in memory once, and count once.
func TestSharedNames(t *testing.T) {
	path := build(t, "main.go", goSource, "go", "build")
	s := open(t, path)
	sym := symbolsOf(t, path)["fmt.Fprintln"]
	before := s.strings.bytes
	seen := map[string]*byte{}
	total := 0
	for _, lines := range inlinedAt(t, s, sym.Value, sym.Size) {
		if LineBytes(lines) < len(lines)*int(unsafe.Sizeof(unwind.Line{})) {
			t.Errorf("%d bytes for %d lines", LineBytes(lines), len(lines))
		}
		for _, l := range lines {
			for _, name := range []string{l.Function.Name, l.Function.SystemName, l.Function.File} {
				if name == "" {
					continue
				}
				if p, ok := seen[name]; ok && p != unsafe.StringData(name) {
					t.Errorf("%s is in memory twice", name)
				} else if !ok {
					seen[name] = unsafe.StringData(name)
					total += len(name)
				}
			}
		}
	}
	if len(seen) < 2 || s.strings.bytes-before != total+len(seen)*stringBytes {
		t.Errorf("%d names of %d bytes, %d counted", len(seen), total, s.strings.bytes-before)
	}
}

// TestLongNames has functions whose names are longer than any that is kept, in all that they are told apart by.
func TestLongNames(t *testing.T) {
	var source strings.Builder
	source.WriteString(".text\n")
	const functions, length = 64, 60000
	for i := range functions {
		name := fmt.Sprintf("f%03d%s", i, strings.Repeat("x", length))
		fmt.Fprintf(&source, ".globl %s\n.type %s,@function\n%s: nop\nret\n.size %s, .-%s\n", name, name, name, name, name)
	}
	source.WriteString(".globl _start\n_start: ret\n")
	path := build(t, "long.s", source.String(), "gcc", "-nostdlib", "-static")
	s := open(t, path)
	before := s.Bytes()
	found := 0
	for a := unwind.FileAddr(0x400000); a < 0x403000; a++ {
		lines, err := s.Lookup(nil, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			n := l.Function.Name
			if len(n) > names.MaxName {
				t.Fatalf("%d bytes", len(n))
			}
			if n != "_start" {
				found++
				if !strings.HasSuffix(n, "x…") {
					t.Errorf("%.10s of %d bytes is not marked", n, len(n))
				}
			}
		}
	}
	if grown := s.Bytes() - before; found < 2*functions || grown < functions*names.MaxName/2 || grown > 2*functions*names.MaxName {
		t.Errorf("%d addresses, %d bytes more", found, grown)
	}
}

// TestTooManyNames uses up what there is for names: what is new has none, what is known stays.
func TestTooManyNames(t *testing.T) {
	path := build(t, "main.go", goSource, "go", "build")
	s := open(t, path)
	syms := symbolsOf(t, path)
	known, unknown := unwind.FileAddr(syms["main.outer"].Value), unwind.FileAddr(syms["os.Open"].Value)
	if unknown == 0 {
		unknown = unwind.FileAddr(syms["fmt.Fprintln"].Value)
	}
	want, err := s.Lookup(nil, known)
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}
	s.strings.bytes = maxNames
	dst := make([]unwind.Line, 1, 8)
	if lines, err := s.Lookup(dst, unknown); !errors.Is(err, ErrTooManyNames) || len(lines) != 1 {
		t.Errorf("%v, %v", lines, err)
	}
	if got, err := s.Lookup(nil, known); err != nil || len(got) != len(want) || got[0] != want[0] {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if s.strings.bytes != maxNames || s.Bytes() < maxNames {
		t.Errorf("%d, %d", s.strings.bytes, s.Bytes())
	}
}
