package elffile

import (
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// WithAddrs returns f with the addresses at which sections were put, by their indexes: in a relocatable file, as kernel modules
// are, they have none of their own. Everything else is shared.
func (f *File) WithAddrs(addrs map[int]unwind.FileAddr) *File {
	g := *f
	g.Sections = slices.Clone(f.Sections)
	for i, a := range addrs {
		if i > 0 && i < len(g.Sections) {
			g.Sections[i].Addr = a
		}
	}
	return &g
}
