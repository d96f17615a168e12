// Package runtimes says what a language runtime is to the profiler, and lists what can make a frame. A test compares the list with
// bpf/runtimes.h, so that no runtime is known on one side only. The plug-ins themselves are in package registry.
package runtimes

import "github.com/hostprofiles/hostprofiles/internal/unwind"

// Entry is one runtime.
type Entry struct {
	ID        unwind.Runtime
	Name      string // in bpf/runtimes.h
	FrameType string // in metrics, and as profile.frame.type
	// Walked: the frames are found by a step function of the walk, not by the kernel's own helper.
	Walked bool
}

// All returns every runtime, by ID.
func All() []Entry {
	return []Entry{
		{unwind.RuntimeNative, "native", "native", true},
		{unwind.RuntimeKernel, "kernel", "kernel", false},
		{unwind.RuntimePython, "python", "cpython", true},
		{unwind.RuntimeHotspot, "hotspot", "jvm", true},
		{unwind.RuntimeV8, "v8", "v8js", true},
	}
}
