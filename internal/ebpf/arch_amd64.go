package ebpf

import "github.com/hostprofiles/hostprofiles/internal/unwind"

const (
	// StackPointer is the DWARF number of the stack pointer.
	StackPointer = unwind.AMD64RSP
	// kernelStackPages: a kernel stack has at least so many pages.
	kernelStackPages = 4
	// Arch is the architecture that this package was built for.
	Arch = unwind.ArchAMD64
)
