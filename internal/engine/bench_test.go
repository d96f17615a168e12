package engine

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// BenchmarkEngine reports what user space spends on a sample, from the ring to the payload: this process's CPU time while a
// program that burns all CPUs is sampled at 4,999 Hz, by the samples delivered.
func BenchmarkEngine(b *testing.B) {
	needsBPF(b)
	bin := compile(b, burner)
	for range 2 {
		cmd := exec.Command(bin)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
	}
	cfg := testConfig()
	cfg.OnCPUFrequency, cfg.ReportInterval = 4999, 2*time.Second
	e, err := New(cfg, zap.NewNop(), func(context.Context, pprofile.Profiles, int) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	time.Sleep(2 * time.Second) // tables and symbols
	var before, after unix.Rusage
	start, _ := e.kernel.Counts()
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	time.Sleep(6 * time.Second)
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	end, _ := e.kernel.Counts()
	e.Shutdown(context.Background())
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	n := float64(end - start)
	b.ReportMetric(float64(used)/n, "ns/sample")
	b.ReportMetric(n, "samples")
}
