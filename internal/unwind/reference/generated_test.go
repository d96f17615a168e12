//go:build amd64

package reference

import (
	"slices"
	"testing"
)

// TestGenerated single-steps a program that makes code at run time: without frame pointers, with them, and both, called by and
// calling C that keeps them or not. The walk has to find the true chain at 99 of 100 instructions that have generated code above
// them or are it.
func TestGenerated(t *testing.T) {
	for name, args := range map[string][]string{
		"without":             {"-O2", "-fomit-frame-pointer"},
		"withoutBelowFP":      {"-O2", "-fno-omit-frame-pointer"},
		"withoutOs":           {"-Os", "-fomit-frame-pointer"},
		"framePointers":       {"-O2", "-fomit-frame-pointer", "-DKEEP=1"},
		"framePointersFP":     {"-O2", "-fno-omit-frame-pointer", "-DKEEP=1"},
		"someFramePointers":   {"-O2", "-fomit-frame-pointer", "-DKEEP=2"},
		"someFramePointersFP": {"-O2", "-fno-omit-frame-pointer", "-DKEEP=2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stepper{t: t, show: 5}
			path := build(t, "gcc", "generated.c", slices.Concat(args, []string{"-no-pie", "-Wall", "-Werror"})...)
			s.run(path, path, 2**stepTime)
			if s.skipped < 1000 || s.guessed*100 < s.skipped*99 {
				t.Errorf("%d of %d guesses are right", s.guessed, s.skipped)
			}
		})
	}
}
