package engine

import (
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// setBias derives the bias of p's mapping m of the executable's file; ok is false if m holds no code of it.
func (x *executable) setBias(m *unwind.Mapping, p *process.Process, file *process.File) (ok bool) {
	if !x.shared {
		return m.SetBias(x.segments, uint64(pageSize))
	}
	var all []unwind.Mapping
	for _, other := range p.Mappings() {
		if other.File == file && len(all) < maxSiblings {
			all = append(all, other.Mapping)
		}
	}
	return m.SetBiasAmong(all, x.segments, uint64(pageSize))
}

// maxSiblings bounds how many mappings of a file are asked: an image has a few, but a file may be mapped again and again.
const maxSiblings = 64
