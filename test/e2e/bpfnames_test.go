package e2e

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
)

// busyProgram loads a program of BPF that computes for a microsecond or two.
func busyProgram(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 1)}
	for range 4000 {
		code = append(code, asm.Mul.Imm(asm.R0, 3))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, Instructions: append(code, asm.Return()), License: "GPL"})
	if errors.Is(err, unix.EPERM) {
		t.Skip("not supported: loading BPF programs needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBPFProgramNames runs a BPF program that was loaded a moment ago, and that is gone by the time of the report.
func TestBPFProgramNames(t *testing.T) {
	// bpf_jit_kallsyms_enabled of include/linux/filter.h, Linux 6.18.
	for sysctl, want := range map[string]string{"bpf_jit_kallsyms": "1", "bpf_jit_enable": "1", "bpf_jit_harden": "0"} {
		if b, err := os.ReadFile("/proc/sys/net/core/" + sysctl); err == nil && strings.TrimSpace(string(b)) != want {
			t.Skipf("not supported: net.core.%s is %s", sysctl, b)
		}
	}
	s := start(t, harness.Options{
		ReportInterval: time.Minute,
		Keep:           func(s analysis.Sample) bool { return s.PID == os.Getpid() && len(s.Frames) > 0 },
	})
	time.Sleep(3 * time.Second) // the kernel's symbols are read, and may be again
	p := busyProgram(t, "hp_busy")
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before) // it can't fail
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 10000}); err != nil {
			t.Error(err)
			break
		}
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	time.Sleep(4 * time.Second) // it is gone, and what is left may be read
	result, err := s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	leaves := map[string]int{}
	for _, s := range result.Samples {
		name := s.Frames[0].Name()
		if strings.HasPrefix(name, "bpf_") {
			leaves[name] += s.Count
		}
		if strings.HasPrefix(name, "bpf_prog_") && strings.HasSuffix(name, "_hp_busy") {
			named += s.Count
		}
	}
	used := time.Duration(after.Stime.Nano() - before.Stime.Nano())
	// What comes before the symbols are read, a tenth of a second, has no name.
	if want := int(used.Seconds() * 997); named < want/2 || want < 100 {
		t.Errorf("%d samples of %d are the program's; BPF's are %v", named, want, leaves)
	}
}
