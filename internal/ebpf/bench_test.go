package ebpf

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// BenchmarkWalk reports the kernel's own figure (bpf_stats_enabled) for the time of the on-CPU program over samples of a
// process 15 frames deep that has a CPU almost to itself.
func BenchmarkWalk(b *testing.B) {
	needsBPF(b)
	pid := startDeep(b)
	var cpus unix.CPUSet
	cpus.Set(1)
	if err := unix.SchedSetaffinity(pid, &cpus); err != nil {
		b.Fatal(err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, -20); err != nil {
		b.Fatal(err)
	}
	for name, v := range map[string]Variant{"loop": VariantLoop, "tail": VariantTail} {
		b.Run(name, func(b *testing.B) {
			stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				b.Fatal(err)
			}
			defer stats.Close()
			k, err := Load(zap.NewNop(), Options{Variant: v, MaxFrames: 1024, MemoryBytes: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			cpu, err := k.StartOnCPU(997)
			if err != nil {
				b.Fatal(err)
			}
			defer cpu.Close()
			cpu.events[0].close()
			delete(cpu.events, 0)
			publish(b, k, pid)
			k.ReadSamples(func([]byte) {})
			before, _ := k.onCPU.Stats()
			time.Sleep(time.Second)
			after, _ := k.onCPU.Stats()
			others, total := 0, 0
			k.ReadSamples(func(r []byte) {
				var s Sample
				if s.Decode(r); s.PID != uint32(pid) {
					others++
				}
				total++
			})
			b.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns/sample")
			b.ReportMetric(float64(others)/float64(total), "others")
		})
	}
}
