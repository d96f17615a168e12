// Package stopreason has the words for why the walk of a stack ended: what the live view, the terminals and docs/unwinding.md say
// of each reason is written here and nowhere else. Reasons themselves are unwind.StopReason's; a test compares them.
package stopreason

import "slices"

// Attribute is the attribute of samples whose stack does not reach its root. Its value is the reason's Name.
const Attribute = "hostprofiles.stack.stop_reason"

// GuessedAttribute is true at locations that were guessed.
const GuessedAttribute = "hostprofiles.frame.guessed"

// Guessed is what is to be said of a frame that was guessed.
const Guessed = "found without unwind information: a guess"

// Reason is one of the ways in which a walk ends.
type Reason struct {
	Name     string // in metrics and attributes
	Complete bool   // all that there was to walk was walked
	Means    string // that the walk ended so
	When     string // it happens
	Do       string // about it
}

// nothing is there to be done about what is complete, or passes.
const nothing = "nothing"

// All returns every reason, those of complete stacks first.
func All() []Reason {
	return slices.Concat(complete(), bounds(), unknown(), code(), values())
}

// Of finds a reason by its name.
func Of(name string) (r Reason, ok bool) {
	all := All()
	i := slices.IndexFunc(all, func(r Reason) bool { return r.Name == name })
	if i < 0 {
		return Reason{}, false
	}
	return all[i], true
}

// IsComplete tells whether a reason is one of complete stacks.
func IsComplete(name string) bool {
	return slices.ContainsFunc(complete(), func(r Reason) bool { return r.Name == name })
}

func complete() []Reason {
	return []Reason{
		{"root", true, "complete: the thread's first function was reached", "as a rule", nothing},
		{"no_user_stack", true, "complete: there is no user stack",
			"kernel threads, and workers of the kernel for a process (io_uring)", nothing},
		{"address_space_gone", true, "complete: the process has no memory of its own, any more or yet", "in exec and in exit", nothing},
	}
}

// bounds are those of the walk itself.
func bounds() []Reason {
	return []Reason{
		{"max_frames", false, "the stack has more frames than max_frames", "deep recursion", "raise max_frames, up to 1024"},
		{"tail_calls", false, "the stack is longer than the chain of programs that this kernel allows",
			"before Linux 5.17, with very deep stacks, with many frames that have to be guessed, and with many functions of language runtimes;" +
				" later, where code of several runtimes takes turns more than thirty times", "a kernel from 5.17 on"},
		{"copy_end", false, "the stack is longer than the part of it that was copied, or that part has a hole",
			"the first samples of a process or an executable are walked in user space, over a copy of at most 60 KiB",
			"nothing: it passes once process and executable are known"},
		{"ring_busy", false, "the stack was not copied in full, since the sample ring was filling up",
			"as copy_end, in the first second of the receiver or while the collector gets no CPU",
			"give the collector CPU, lower frequency; samples_lost with ring_full tells how near it is"},
	}
}

// unknown is what was not known in time.
func unknown() []Reason {
	return []Reason{
		{"no_process", false, "the process was not known yet", "in the first moments of the receiver or of a process",
			"nothing, if it passes; else look at sideband_lost and at the capabilities in the README"},
		{"no_mapping", false, "the address is in no mapping that is known",
			"code that was mapped a moment ago (dlopen, a JIT compiler); the end of a coroutine's stack whose first function does not " +
				"say so, over anything but 0; a damaged stack", "nothing, if it passes; else look at sideband_lost"},
		{"no_table", false, "the unwind table of the executable was not there yet", "in the first moments of an executable",
			"nothing, if it passes; else unwind_table_errors tells why; where it says no_room raise limits.memory_mib"},
		{"stale", false, "mappings or tables changed while the stack was walked", "dlopen and dlclose, exec, tables that come and go",
			"nothing, if it passes; else raise limits.memory_mib if evictions rise"},
		{"other_pid_namespace", false, "the process is outside of the collector's pid namespace, so that nothing can be read of it",
			"a collector in a container of its own", "hostPID: true in Kubernetes, --pid=host with Docker"},
		{"abi", false, "a 32-bit process: only its kernel stack is walked", "32-bit programs on a 64-bit kernel", "a 64-bit build of the program"},
	}
}

// code is what has too little unwind information.
func code() []Reason {
	return []Reason{
		{"no_unwind_info", false, "code of no file with unwind information, and neither the code itself, nor the stack, nor the frame pointer leads on",
			"what a JIT compiler made, a file that could not be read, and behind 64 frames whose callers took a search of the stack",
			"have the runtime keep frame pointers"},
		{"no_rule", false, "the unwind information does not help here, and neither the stack nor the frame pointer leads on",
			"hand-written assembler in a file whose other code has it; on arm64 also behind a guess",
			"give the assembler its .cfi directives; rebuild with -fasynchronous-unwind-tables or with -fno-omit-frame-pointer"},
		{"runtime", false, "the other side of a language runtime's stack switch was not found",
			"Go code on the system stack or in a signal handler, of an unknown version of Go", "report it with the version of the runtime"},
	}
}

// values are those of memory and registers.
func values() []Reason {
	return []Reason{
		{"memory", false, "a word of the stack could not be read", "a damaged stack, a wrong rule before, a stack that is swapped out",
			"report it if it is often the same executable"},
		{"register", false, "the rule needs a register whose value is not known, and neither the stack nor the frame pointer leads on",
			"code that finds its frame by an unusual register", "report it if it is often the same executable"},
		{"no_progress", false, "the caller's frame would be below its callee's", "a damaged stack, wrong unwind information",
			"report it if it is often the same executable"},
	}
}
