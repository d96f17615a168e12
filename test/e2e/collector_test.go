package e2e

import (
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// startCollector starts the distribution's binary.
func startCollector(t *testing.T, interval time.Duration) *harness.Collector {
	t.Helper()
	// The binary says in its log why it cannot profile; whether anyone can is asked here.
	stop(t, start(t, harness.Options{}))
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.StartCollector(root, t.TempDir(), interval)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// TestCollectorTerminates runs the built collector with a file exporter: SIGTERM delivers the samples of the interval that
// did not end.
func TestCollectorTerminates(t *testing.T) {
	c := startCollector(t, time.Hour)
	warmUp()
	r := runOne(build(t, "c"), truthCPU)
	samples, err := c.Terminate()
	if err != nil {
		t.Fatal(err)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	judge(t, r, samples.PID(r.pid))
	if t.Failed() {
		t.Log(c.Log())
	}
}

// TestCollectorKilled kills it: nothing is left in the kernel, and the next one works.
func TestCollectorKilled(t *testing.T) {
	before := bpfObjects(t)
	c := startCollector(t, time.Second)
	time.Sleep(time.Second)
	if len(leftOver(t, before)) == 0 {
		t.Errorf("the collector made no BPF objects:\n%s", c.Log())
	}
	c.Kill()
	nothingLeft(t, before)
	again := startCollector(t, time.Second)
	r := runOne(build(t, "c"), time.Second)
	if r.err != nil {
		t.Fatal(r.err)
	}
	samples, err := again.Terminate()
	if err != nil {
		t.Fatal(err)
	}
	delivered(t, "after a restart", samples.PID(r.pid).Count(), r.cpu)
	nothingLeft(t, before)
}
