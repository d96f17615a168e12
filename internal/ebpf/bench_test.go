package ebpf

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// BenchmarkWalk reports how long the on-CPU program takes over user-mode samples of a process some 15 frames deep: by the
// program's own clock, from its beginning to the commit, so that other processes' samples don't count.
func BenchmarkWalk(b *testing.B) {
	needsBPF(b)
	pid := startDeep(b)
	var cpus unix.CPUSet
	cpus.Set(1)
	if err := unix.SchedSetaffinity(pid, &cpus); err != nil {
		b.Fatal(err)
	}
	for _, v := range []struct {
		name    string
		variant Variant
	}{{"loop", VariantLoop}, {"tail", VariantTail}} {
		b.Run(v.name, func(b *testing.B) {
			k, err := Load(zap.NewNop(), Options{Variant: v.variant, MaxFrames: 1024, MemoryBytes: 256 << 20, Measure: true})
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			cpu, err := k.StartOnCPU(997)
			if err != nil {
				b.Fatal(err)
			}
			defer cpu.Close()
			publish(b, k, pid)
			var took []time.Duration
			frames := 0
			b.ResetTimer()
			for len(took) < max(b.N, 500) {
				time.Sleep(100 * time.Millisecond)
				readOf(b, k, pid, func(s *Sample) {
					if n := len(s.User(nil)); !s.KernelMode && n >= 12 {
						took = append(took, s.Duration)
						frames += n
					}
				})
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "ns/sample")
			b.ReportMetric(float64(took[len(took)*9/10]), "ns/sample-p90")
			b.ReportMetric(float64(frames)/float64(len(took)), "frames/sample")
		})
	}
}
