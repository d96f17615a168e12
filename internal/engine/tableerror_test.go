package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// TestTableLack tells tables that lack memory from those of damaged files: only for the first more memory helps.
func TestTableLack(t *testing.T) {
	damaged := fmt.Errorf("building unwind table from .eh_frame: %w", elffile.ErrTruncated)
	refused := fmt.Errorf("building unwind table from instructions: %w", elffile.NewBudget("file", 1).Take(2, "code"))
	limited := fmt.Errorf("building unwind table from .debug_frame: %w", elffile.ErrTooLarge)
	for _, c := range []struct {
		err    error
		reason TableError
	}{
		{damaged, TableIncomplete},
		{limited, TableIncomplete},
		{refused, TableTooLarge},
		{errors.Join(damaged, refused), TableTooLarge},
	} {
		reason, message := tableLack(c.err)
		if reason != c.reason || strings.Contains(message, "limits.memory_mib") != (reason == TableTooLarge) {
			t.Errorf("%v: %v, %q", c.err, reason, message)
		}
	}
}
