package debugfile

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Kernel is the kernel, or a module: nothing of it can be opened, so its debug information is looked for by what the running
// kernel says of it.
type Kernel struct {
	Arch    unwind.Arch
	BuildID string // lower-case hex
	// Paths are where the debug information may be beside the tree of build ids: clean and absolute, below a root.
	Paths func(Root) []string
}

// FindKernel is Find for the kernel or a module. What it reads counts in the budget.
func FindKernel(ctx context.Context, k Kernel, budget *elffile.Budget, o Options) (*Found, error) {
	f := (&elffile.File{Arch: k.Arch}).Within(budget)
	s := &search{ctx: ctx, f: f, budget: budget, opts: o, found: &Found{}, buildID: k.BuildID}
	if !s.byBuildID() && !s.byPaths(k) {
		s.byFetcher()
	}
	if s.found.Debug == nil {
		return s.found, fmt.Errorf("%w: build id %s, below %d roots: %w", ErrNotFound, k.BuildID, len(o.Roots), errors.Join(s.problems...))
	}
	s.supplement()
	s.found.Options.OpenSplit = s.openSplit
	return s.found, errors.Join(s.problems...)
}

func (s *search) byPaths(k Kernel) bool {
	if !unique(k.BuildID) {
		return false
	}
	roots := s.opts.Roots
	defer func() { s.opts.Roots = roots }()
	for _, root := range roots {
		s.opts.Roots = []Root{root}
		c := s.first(k.Paths(root), func(c *opened) error {
			if err := sameID(c, k.BuildID); err != nil {
				return err
			}
			return needInfo(c)
		})
		if c != nil {
			s.take(c, c.file, SourceFile)
			return true
		}
	}
	return false
}
