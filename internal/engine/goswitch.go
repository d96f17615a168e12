package engine

import (
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// goOffsets is what BPF needs to get from Go's system stack to the goroutine's; nil if the file is no Go program or of an
// unknown version.
func goOffsets(info tables.Info) *gopclntab.Offsets {
	if info.Go == nil {
		return nil
	}
	return info.Go.Offsets
}
