package analysis

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// Resolver knows the functions of a program and of the files that it maps, from the files themselves.
type Resolver struct {
	built workloads.Built
	files map[string]*workloads.Symbols // by path; nil: unreadable
}

// NewResolver returns a Resolver for one program.
func NewResolver(b workloads.Built) *Resolver {
	return &Resolver{built: b, files: map[string]*workloads.Symbols{}}
}

func (r *Resolver) symbols(path string) *workloads.Symbols {
	s, ok := r.files[path]
	if !ok {
		s, _ = workloads.LoadSymbols(path) // an unreadable file has no symbols to compare with
		r.files[path] = s
	}
	return s
}

// own returns the program's own file that a frame's mapping is: the executable or a library beside it. A program that
// runs from a memfd or was deleted is still itself.
func (r *Resolver) own(mapping string) (full string, ok bool) {
	base := strings.TrimSuffix(filepath.Base(mapping), " (deleted)")
	if base == filepath.Base(r.built.Path) || strings.HasPrefix(base, "memfd:") {
		return r.built.Full, true
	}
	for _, l := range r.built.Libraries {
		if base == filepath.Base(l) {
			return l, true
		}
	}
	return "", false
}

// True returns the names of the function that a frame is in, with the symbols that a stripped executable has lost; none
// if the file does not say.
func (r *Resolver) True(f Frame) []string {
	path, ok := r.own(f.Mapping)
	if !ok {
		path = f.Mapping
	}
	return r.at(path, f)
}

// Visible returns the names that anyone could find for a frame in the file that is mapped.
func (r *Resolver) Visible(f Frame) []string {
	path := f.Mapping
	if full, ok := r.own(f.Mapping); ok {
		path = full
		if full == r.built.Full && !r.built.NamesItself {
			path = r.built.Path
		}
	}
	return r.at(path, f)
}

func (r *Resolver) at(path string, f Frame) []string {
	if f.Type == "kernel" || !filepath.IsAbs(path) {
		return nil
	}
	if s := r.symbols(path); s != nil {
		return s.At(f.Address)
	}
	return nil
}

// Placed tells whether a frame without a name says where its function begins, as the symbols that the executable has lost do;
// known is false if those do not say either.
func (r *Resolver) Placed(f Frame) (placed, known bool) {
	path, own := r.own(f.Mapping)
	s := r.symbols(path)
	if !own || s == nil || len(s.At(f.Address)) == 0 {
		return false, false
	}
	return f.Function != 0 && s.Begins(f.Function, f.Address), true
}

// is tells whether a frame is in the function that the pattern means.
func (r *Resolver) is(pattern string, f Frame) bool {
	return slices.ContainsFunc(r.True(f), func(n string) bool { return workloads.Match(pattern, n) })
}

// chain tells whether the frames, leaf first, begin at the root's end with at most above frames followed by the chain.
func (r *Resolver) chain(frames []Frame, chain []string, above int) bool {
	rootFirst := slices.Clone(frames)
	slices.Reverse(rootFirst)
	for skip := 0; skip <= min(above, len(rootFirst)-1); skip++ {
		if r.follow(rootFirst[skip:], chain) {
			return true
		}
	}
	return false
}

func (r *Resolver) follow(frames []Frame, chain []string) bool {
	switch {
	case len(chain) == 0:
		return true
	case chain[0] == workloads.Any:
		for i := range frames {
			if r.follow(frames[i:], chain[1:]) {
				return true
			}
		}
		return false
	case len(frames) == 0 || !r.is(chain[0], frames[0]):
		return false
	}
	return r.follow(frames[1:], chain[1:])
}
