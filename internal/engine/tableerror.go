package engine

import (
	"context"
	"errors"
	"os"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/process/worker"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// TableError says why an executable has no unwind table, or an incomplete one.
type TableError uint8

// The reasons.
const (
	TableGone        TableError = iota // the processes that mapped it were gone before it could be opened
	TablePermission                    // it may not be opened
	TableNoRoom                        // the memory budget for tables is used up
	TableTooLarge                      // reading it, or all of it, would take more memory than one file may
	TableTimeout                       // its file system does not answer, or others wait too long for theirs
	TableNotELF                        // it is no ELF file, or no file at all
	TableUnsupported                   // an ELF file for another machine
	TableIncomplete                    // there is a table, but part of its unwind information is damaged
	TableOther                         // anything else: a damaged file, an I/O error

	TableErrors // how many there are
)

var tableErrorNames = [TableErrors]string{
	"gone", "permission", "no_room", "too_large", "timeout", "not_elf", "unsupported", "incomplete", "other",
}

// String returns the reason as it stands in metrics.
func (r TableError) String() string {
	if r < TableErrors {
		return tableErrorNames[r]
	}
	return "unknown"
}

// tableErrorOf finds the reason for an error of opening an executable and building its table.
func tableErrorOf(err error) TableError {
	for _, known := range []struct {
		is     error
		reason TableError
	}{
		{ebpf.ErrNoRoom, TableNoRoom},
		{elffile.ErrTooLarge, TableTooLarge},
		{worker.ErrTimeout, TableTimeout},
		{context.DeadlineExceeded, TableTimeout},
		{worker.ErrStuck, TableTimeout},
		{worker.ErrGroupStuck, TableTimeout},
		{worker.ErrExhausted, TableTimeout},
		{worker.ErrFull, TableTimeout},
		{errUnclosed, TableTimeout},
		{elffile.ErrNotELF, TableNotELF},
		{procfs.ErrNotFile, TableNotELF},
		{elffile.ErrUnsupported, TableUnsupported},
		{os.ErrPermission, TablePermission},
		{procfs.ErrGone, TableGone},
		{os.ErrNotExist, TableGone},
	} {
		if errors.Is(err, known.is) {
			return known.reason
		}
	}
	return TableOther
}

// tableLack finds the reason why a table that was made is incomplete, and what to log: what follows from it, and what helps.
func tableLack(err error) (reason TableError, message string) {
	const consequence = "; callers of that code are guessed or missing"
	var large *elffile.TooLargeError
	if errors.As(err, &large) { // other limits do not depend on the configuration
		return TableTooLarge, "an unwind table lacks what there was no memory for" + consequence + ": raise limits.memory_mib"
	}
	return TableIncomplete, "an unwind table lacks what could not be read of the file" + consequence
}
