package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// startCollector starts the distribution's binary, with a receiver of each id.
func startCollector(t *testing.T, interval time.Duration, ids ...string) *harness.Collector {
	t.Helper()
	// The binary says in its log why it cannot profile; whether anyone can is asked here.
	stop(t, start(t, harness.Options{}))
	root, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.StartCollector(root, t.TempDir(), interval, ids...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// TestCollectorTerminates runs the built collector with a file exporter: SIGTERM delivers the samples of the interval that
// did not end.
func TestCollectorTerminates(t *testing.T) {
	c := startCollector(t, time.Hour, "hostprofiles")
	warmUp()
	r := runOne(build(t, "c"), truthCPU)
	samples, err := c.Terminate()
	if err != nil {
		t.Fatal(err)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	judge(t, r, samples[0].PID(r.pid))
	if t.Failed() {
		t.Log(c.Log())
	}
}

// TestCollectorKilled kills it: nothing is left in the kernel, and the next one works.
func TestCollectorKilled(t *testing.T) {
	before := bpfObjects(t)
	c := startCollector(t, time.Second, "hostprofiles")
	time.Sleep(time.Second)
	if len(leftOver(t, before)) == 0 {
		t.Errorf("the collector made no BPF objects:\n%s", c.Log())
	}
	c.Kill()
	nothingLeft(t, before)
	again := startCollector(t, time.Second, "hostprofiles")
	r := runOne(build(t, "c"), time.Second)
	if r.err != nil {
		t.Fatal(r.err)
	}
	samples, err := again.Terminate()
	if err != nil {
		t.Fatal(err)
	}
	delivered(t, "after a restart", samples[0].PID(r.pid).Count(), r.cpu)
	nothingLeft(t, before)
}

// TestCollectorTwoReceivers has two receivers in one collector: each delivers all samples, and both end.
func TestCollectorTwoReceivers(t *testing.T) {
	before := bpfObjects(t)
	ids := []string{"hostprofiles/a", "hostprofiles/b"}
	c := startCollector(t, time.Second, ids...)
	warmUp()
	r := runOne(build(t, "c"), truthCPU)
	if r.err != nil {
		t.Fatal(r.err)
	}
	samples, err := c.Terminate()
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		t.Run(id, func(t *testing.T) { judge(t, r, samples[i].PID(r.pid)) })
	}
	for line := range strings.Lines(c.Log()) {
		if strings.Contains(line, "\terror\t") {
			t.Error(line)
		}
	}
	if t.Failed() {
		t.Log(c.Log())
	}
	nothingLeft(t, before)
}
