// Package process knows which processes run, what they map executable, and which files those mappings are of. It is a
// pure state machine over the kernel's side-band events: it makes no system call, takes no lock, starts no goroutine
// and is owned by the one goroutine that calls it. What must be read from a target is read elsewhere (package procfs,
// on package worker's pool) and handed in as values.
//
// Words:
//
//   - An incarnation is what a pid meant between two execs: one *Process. A pid names a chain of them, the newest first,
//     because samples arrive after their process has exited, exec'ed or been replaced by another of the same pid.
//   - A mapping list is immutable and shared: a forked child has its parent's list until either of them maps something.
//     Changes wait in a pending list, and are merged when somebody looks.
//   - A File is what the kernel calls one (device, inode, generation). An Executable is a File with certain contents
//     (size, mtime): a file that was rewritten in place keeps its File and gets a new Executable.
//   - Tick is the report interval; things expire by ticks, never by wall time.
package process
