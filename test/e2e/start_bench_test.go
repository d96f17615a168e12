package e2e

import (
	"runtime"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// BenchmarkStart is the time from the built collector's exec to its first sample, while all CPUs are busy, and until it says that it is
// ready.
func BenchmarkStart(b *testing.B) {
	builder, err := workloads.NewBuilder()
	if err != nil {
		b.Fatal(err)
	}
	p, _ := workloads.Find("c")
	burner, err := builder.Build(p)
	if err != nil {
		b.Fatal(err)
	}
	for range runtime.NumCPU() {
		r, err := burner.Start(workloads.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { r.Stop() })
	}
	var first, ready time.Duration
	for range b.N {
		begin := time.Now()
		c := benchCollector(b, "hostprofiles")
		ready += time.Since(begin)
		time.Sleep(time.Second)
		samples, err := c.Terminate()
		if err != nil {
			b.Fatal(err)
		}
		if samples[0].Count() == 0 {
			b.Fatalf("no samples:\n%s", c.Log())
		}
		earliest := samples[0][0].First
		for _, s := range samples[0] {
			earliest = min(earliest, s.First)
		}
		first += time.Duration(int64(earliest) - begin.UnixNano())
	}
	b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms/first-sample")
	b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ms/ready")
}

// restFor is how long a collector has nothing to do but to profile a host that does little.
const restFor = 20 * time.Second

// BenchmarkAtRest is the resident memory of the built collector, in MiB, with the receiver and without.
func BenchmarkAtRest(b *testing.B) {
	var sizes [2]int
	for range b.N {
		for i, ids := range [][]string{nil, {"hostprofiles"}} {
			c := benchCollector(b, ids...)
			time.Sleep(restFor)
			size, _, err := workloads.Memory(c.Cmd.Process.Pid)
			if err != nil {
				b.Fatal(err)
			}
			sizes[i] += size
			if _, err := c.Terminate(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(sizes[0])/1024/float64(b.N), "MiB/without")
	b.ReportMetric(float64(sizes[1])/1024/float64(b.N), "MiB/with")
}

func benchCollector(b *testing.B, ids ...string) *harness.Collector {
	b.Helper()
	root, err := workloads.ModuleRoot()
	if err != nil {
		b.Fatal(err)
	}
	c, err := harness.StartCollector(root, b.TempDir(), time.Second, ids...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Kill)
	return c
}
