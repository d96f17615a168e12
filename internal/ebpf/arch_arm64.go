package ebpf

import "github.com/hostprofiles/hostprofiles/internal/unwind"

const (
	// StackPointer is the DWARF number of the stack pointer.
	StackPointer = unwind.ARM64SP
	// kernelStackPages: a kernel stack has at least so many pages.
	kernelStackPages = 1
	// Arch is the architecture that this package was built for.
	Arch = unwind.ArchARM64
)
