package receiver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func statusWith(bits ...uint) string {
	var effective uint64
	for _, b := range bits {
		effective |= 1 << b
	}
	return fmt.Sprintf("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t%016x\nCapBnd:\t000001ffffffffff\n", effective)
}

func names(missing []capability) (names []string) {
	for _, c := range missing {
		names = append(names, c.name)
	}
	return names
}

func TestMissingCapabilities(t *testing.T) {
	for _, tt := range []struct {
		bits []uint
		want []string
	}{
		{nil, []string{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG", "CAP_CHECKPOINT_RESTORE"}},
		{[]uint{unix.CAP_BPF, unix.CAP_PERFMON}, []string{"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG", "CAP_CHECKPOINT_RESTORE"}},
		{[]uint{unix.CAP_SYS_ADMIN}, []string{"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}},
		{[]uint{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYSLOG, unix.CAP_CHECKPOINT_RESTORE}, nil},
	} {
		missing, err := missingCapabilities(statusWith(tt.bits...))
		require.NoError(t, err)
		require.Equal(t, tt.want, names(missing))
	}
}

func TestCapabilitiesOfAStrangeStatus(t *testing.T) {
	for _, status := range []string{"", "CapEff:\n", "CapEff:\tnonsense\n", "CapEff:\t10000000000000000\n"} {
		_, err := missingCapabilities(status)
		require.Error(t, err, "%q", status)
	}
}

func TestJoinAnd(t *testing.T) {
	require.Empty(t, joinAnd(nil))
	require.Equal(t, "a", joinAnd([]string{"a"}))
	require.Equal(t, "a and b", joinAnd([]string{"a", "b"}))
	require.Equal(t, "a, b and c", joinAnd([]string{"a", "b", "c"}))
}
