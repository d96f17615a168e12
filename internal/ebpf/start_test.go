package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestRingSizes has the side-band and the sample ring stay a small part of the budget on hosts of any size.
func TestRingSizes(t *testing.T) {
	for _, tt := range []struct{ cpus, budget, sideband int }{
		{2, 256 << 20, sidebandBytes},
		{64, 256 << 20, sidebandBytes},
		{128, 256 << 20, sidebandBytes / 2},
		{256, 256 << 20, sidebandBytes / 4},
		{32, 32 << 20, sidebandBytes / 4},
		{1024, 32 << 20, minSidebandBytes},
	} {
		got := sidebandRingBytes(tt.cpus, tt.budget/8)
		if got != tt.sideband {
			t.Errorf("%d CPUs, %d MiB: %d bytes of side-band each, want %d", tt.cpus, tt.budget>>20, got, tt.sideband)
		}
		if all := got * tt.cpus; all > tt.budget/8 && got != minSidebandBytes {
			t.Errorf("%d CPUs, %d MiB: %d bytes of side-band", tt.cpus, tt.budget>>20, all)
		}
	}
}

// TestExplain tells apart what waiting may mend, what a privilege mends, and what nothing does.
func TestExplain(t *testing.T) {
	verifier := &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 invalid mem access"}}
	for _, tt := range []struct {
		err                     error
		permission, unsupported bool
	}{
		{fmt.Errorf("program on_cpu: %w", verifier), false, true},
		{fmt.Errorf("program on_cpu: %w", unix.EPERM), true, false},
		{fmt.Errorf("program on_cpu: %w", &ebpf.VerifierError{Cause: unix.EPERM}), true, false},
		{fmt.Errorf("map ring: %w", ebpf.ErrNotSupported), false, true},
		{fmt.Errorf("kernel types: %w", fs.ErrNotExist), false, true},
		{fmt.Errorf("map ring: %w", unix.ENOMEM), false, false},
		{fmt.Errorf("mapping a perf ring: %w", errLocked), false, false},
	} {
		got := explain(tt.err)
		if errors.Is(got, fs.ErrPermission) != tt.permission || errors.Is(got, errors.ErrUnsupported) != tt.unsupported {
			t.Errorf("%v: permission %v, unsupported %v", got, errors.Is(got, fs.ErrPermission), errors.Is(got, errors.ErrUnsupported))
		}
	}
	var found *ebpf.VerifierError
	if !errors.As(fmt.Errorf("loading: %w", explain(verifier)), &found) || found != verifier {
		t.Error("the verifier's log is lost")
	}
}
