// Package runtimes lists what can make a frame. A test compares the list with bpf/runtimes.h, so that no runtime is
// known on one side only.
package runtimes

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// Entry is one runtime.
type Entry struct {
	ID   unwind.Runtime
	Name string // in bpf/runtimes.h, in metrics, and as profile.frame.type
	// Walked: the frames are found by a step function of the walk, not by the kernel's own helper.
	Walked bool
}

// All returns every runtime, by ID.
func All() []Entry {
	return []Entry{
		{unwind.RuntimeNative, "native", true},
		{unwind.RuntimeKernel, "kernel", false},
	}
}
