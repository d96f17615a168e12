package python

import (
	"bytes"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	maxTrampoline = 64  // bytes
	maxArenas     = 256 // mappings that are looked at: one arena is for thousands of functions
)

// readTrampoline reads what each function's trampoline is a copy of, from 3.12 on: Python/asm_trampoline.S.
func readTrampoline(f *elffile.File, s *symbols) ([]byte, error) {
	start, end := s.find("_Py_trampoline_func_start"), s.find("_Py_trampoline_func_end")
	if s.err != nil || start == nil || end == nil || end.Value <= start.Value || end.Value-start.Value > maxTrampoline {
		return nil, s.err
	}
	b := make([]byte, end.Value-start.Value)
	if err := f.ReadAddr(b, start.Value); err != nil {
		return nil, fmt.Errorf("reading the trampoline: %w", err)
	}
	return b, nil
}

// Plan implements runtimes.Instance. Trampolines come with the first function that is called after they were asked for.
func (n *instance) Plan(mem unwind.Memory, mappings []runtimes.Mapping) (runtimes.Plan, error) {
	p := runtimes.Plan{Proc: n.proc, Ranges: n.ranges, Fixed: len(n.image.trampoline) == 0}
	if p.Fixed {
		return p, nil
	}
	looked, b := 0, make([]byte, len(n.image.trampoline))
	for _, m := range mappings {
		if !m.Anonymous {
			continue
		}
		if looked++; looked > maxArenas {
			break
		}
		// an arena is full of copies: new_code_arena of Python/perf_trampoline.c
		if mem.Read(m.Start, b) == nil && bytes.Equal(b, n.image.trampoline) {
			p.Hidden = append(p.Hidden, runtimes.Range{Start: m.Start, End: m.End})
		}
	}
	return p, nil
}
