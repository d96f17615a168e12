package receiver

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A capability and what stops without it; required ones stop everything. The numbers are those of
// include/uapi/linux/capability.h (Linux 6.18).
type capability struct {
	bit      uint
	name     string
	required bool
	loss     string // what is lost without it
}

func capabilities() []capability {
	return []capability{
		{unix.CAP_BPF, "CAP_BPF", true, "loading BPF programs"},
		{unix.CAP_PERFMON, "CAP_PERFMON", true, "sampling other processes"},
		{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, "reading the mappings and executables of other users' processes"},
		{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false, "reading executables that only others may read"},
		{unix.CAP_SYSLOG, "CAP_SYSLOG", false, "naming kernel functions"},
		{unix.CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", false, "reading executables through /proc/PID/map_files"},
	}
}

// missingCapabilities compares a process's effective capabilities, as /proc/self/status shows them, with what profiling
// needs. CAP_SYS_ADMIN stands in for CAP_BPF, CAP_PERFMON, CAP_SYSLOG and CAP_CHECKPOINT_RESTORE, as in the kernel.
func missingCapabilities(status string) (missing []capability, err error) {
	effective, err := effectiveCapabilities(status)
	if err != nil {
		return nil, err
	}
	admin := effective&(1<<unix.CAP_SYS_ADMIN) != 0
	for _, c := range capabilities() {
		covered := admin && c.bit != unix.CAP_SYS_PTRACE && c.bit != unix.CAP_DAC_READ_SEARCH
		if effective&(1<<c.bit) == 0 && !covered {
			missing = append(missing, c)
		}
	}
	return missing, nil
}

func effectiveCapabilities(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		hex, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("parsing CapEff of /proc/self/status: %w", err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("reading /proc/self/status: no line CapEff")
}

// privilegeHint says which privileges this process lacks for profiling; required ones first, empty if none.
func privilegeHint() (required, optional []string) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, nil // without a procfs the engine's own error says what is wrong
	}
	missing, err := missingCapabilities(string(status))
	if err != nil {
		return nil, nil
	}
	for _, c := range missing {
		if c.required {
			required = append(required, c.name+" ("+c.loss+")")
		} else {
			optional = append(optional, c.name+" ("+c.loss+")")
		}
	}
	return required, optional
}

// joinAnd joins words as a sentence does.
func joinAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
