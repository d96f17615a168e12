package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// The programs of the tour, under names that tell them apart.
const (
	first  = "checkout"  // the C workload: hot_sixty, hot_thirty, hot_ten
	second = "inventory" // lockstep: hot_even, hot_odd
)

// program builds a workload and gives it a name of its own.
func program(t *testing.T, workload, name string) workloads.Built {
	t.Helper()
	p, ok := workloads.Find(workload)
	if !ok {
		t.Fatalf("there is no workload %s", workload)
	}
	b, err := workloads.NewBuilder()
	if err != nil {
		t.Fatal(err)
	}
	built, err := b.Build(p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(built.Path)
	if err != nil {
		t.Fatal(err)
	}
	built.Path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(built.Path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return built
}

func start(t *testing.T, b workloads.Built) *workloads.Running {
	t.Helper()
	r, err := b.Start(workloads.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	return r
}

// tour is what its parts look at: one program ran in the first half of the time, another one in the second.
type tour struct {
	c              *collector
	from, half, to int64 // Unix ms
}

func (r tour) params() map[string]any {
	return map[string]any{
		"from": r.from, "half": r.half, "to": r.to, "process": first, "other": second,
		"function": "hot_sixty", "otherFunction": "hot_even",
	}
}

// TestTour goes through the page as a person would.
func TestTour(t *testing.T) {
	profiles(t)
	one, two := program(t, "c", first), program(t, "lockstep", second)
	r := tour{c: startCollector(t, "hostprofiles", "otlp")}
	running := start(t, one)
	r.c.more(t, first, 1)
	t.Run("live", func(t *testing.T) { live(t, r) })
	r.from = time.Now().UnixMilli()
	r.c.more(t, first, enough)
	running.Stop()
	r.half = time.Now().UnixMilli()
	running = start(t, two)
	r.c.more(t, second, enough)
	running.Stop()
	r.to = time.Now().UnixMilli()
	r.c.await(t, "the last samples", func() error { return r.c.quiet(second) })
	t.Run("explore", func(t *testing.T) { explore(t, r) })
	t.Run("compare", func(t *testing.T) { compare(t, r) })
}

// enough samples of a program make its shares exact to a point (a standard deviation is 0.7 points).
const enough = 4500

// more waits for so many more samples of a process.
func (c *collector) more(t *testing.T, process string, want int64) {
	t.Helper()
	before, err := c.total(process)
	if err != nil {
		before = 0 // nothing has come in yet; if it is something else, waiting will say so
	}
	c.await(t, fmt.Sprintf("%d samples of %s", want, process), func() error {
		n, err := c.total(process)
		if err == nil && n < before+want {
			err = fmt.Errorf("%d are there", n-before)
		}
		return err
	})
}

func (c *collector) total(process string) (int64, error) {
	var a struct {
		Total int64 `json:"total"`
	}
	err := c.get("api/flamegraph?max_nodes=1&process="+url.QueryEscape(process), &a)
	return a.Total, err
}

// quiet is no error when no more samples of a process come in.
func (c *collector) quiet(process string) error {
	before, err := c.total(process)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // twice the receiver's interval
	after, err := c.total(process)
	if err == nil && after != before {
		err = fmt.Errorf("%d more came", after-before)
	}
	return err
}
