package engine

import (
	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// goSwitch is what BPF needs to get from Go's system stack to the goroutine's; nil if the file is no Go program or of an
// unknown version.
func goSwitch(info tables.Info) *ebpf.GoSwitch {
	return nil
}
