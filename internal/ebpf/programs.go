package ebpf

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"
)

// maxNewPrograms bounds how many programs one look passes over.
const maxNewPrograms = 1 << 16

// Programs tells when BPF programs were loaded, by whomever: the kernel gives ids in ascending order. It needs CAP_SYS_ADMIN, and
// tells of nothing without.
type Programs struct {
	last   ebpf.ProgramID
	hidden bool
}

// New tells whether programs were loaded since the last call.
func (p *Programs) New() (some bool) {
	for range maxNewPrograms {
		id, err := ebpf.ProgramGetNextID(p.last)
		if err != nil {
			p.hidden = !errors.Is(err, os.ErrNotExist)
			return some // there is no other, or no permission
		}
		p.last, some = id, true
	}
	return some
}

// Hidden tells whether the last call of New could not find out what is loaded.
func (p *Programs) Hidden() bool { return p.hidden }
