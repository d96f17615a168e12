package browser

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The large data: 100 handlers of different depth call 100 methods each, and those 10 operations each; beside them, a
// recursion of 1,000 frames.
const (
	handlers, methods, operations = 100, 100, 10
	recursion                     = 1000
	wanted                        = "handler_42" // what is searched for
)

// largePayloads are the data as a producer would send them, in payloads of 20,000 stacks.
func largePayloads(at time.Time) (payloads []*payload, share float64) {
	var total, found int64
	for first := 0; first < handlers; first += 20 {
		p := newPayload(at)
		pr := p.profile("shop", map[string]string{"service.name": "shop"})
		for h := first; h < first+20; h++ {
			stack := []int32{p.location("main", "go"), p.location("serve", "go")}
			for d := range 5 + h%20 {
				stack = append(stack, p.location(fmt.Sprintf("layer_%d_%d", d, h%(d+1)), "go"))
			}
			stack = append(stack, p.location(fmt.Sprintf("handler_%d", h), "go"))
			for m := range methods {
				for o := range operations {
					leaf := append(slices.Clone(stack), p.location(fmt.Sprintf("method_%d", m), "native"), p.location(fmt.Sprintf("operation_%d", o), "native"))
					value := int64(1 + (h*m+o)%7)
					if h == 42 {
						value *= 20
						found += value
					}
					total += value
					p.sample(pr, leaf, value, time.Duration(h*methods+m)*time.Millisecond)
				}
			}
		}
		payloads = append(payloads, p)
	}
	p := payloads[0]
	var deep []int32
	for d := range recursion {
		deep = append(deep, p.location(fmt.Sprintf("deep_%d", d), "native"))
	}
	value := total / 20
	p.sample(p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0), deep, value, time.Second)
	return payloads, float64(found) / float64(total+value)
}

// TestEmptyToLarge begins with a collector that nobody has sent anything to, and goes on with 100,000 distinct stacks.
func TestEmptyToLarge(t *testing.T) {
	c := startCollector(t, "otlp")
	at := time.Now().Add(-20 * time.Second)
	payloads, share := largePayloads(at)
	dir := t.TempDir()
	var files []string
	for i, p := range payloads {
		file := filepath.Join(dir, fmt.Sprintf("%d.pb", i))
		if err := os.WriteFile(file, p.marshal(t), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	var seen struct {
		Empty  string
		Times  map[string]float64
		Found  string
		Crumbs []string
		Deep   string
	}
	drive(t, c, "large", map[string]any{
		"payloads": files, "otlp": c.otlp, "from": at.UnixMilli() - 1000, "to": at.UnixMilli() + 11000,
		"function": wanted, "deepest": fmt.Sprintf("deep_%d", recursion-1),
	}, &seen)
	if !strings.Contains(seen.Empty, "OTLP") {
		t.Errorf("the empty page does not say what it waits for: %q", seen.Empty)
	}
	near(t, "the share of a search", percent(t, seen.Found), 100*share, 0.1)
	if n := len(seen.Crumbs); n == 0 || seen.Crumbs[n-1] != wanted {
		t.Errorf("zoomed to %q, want %s", seen.Crumbs, wanted)
	}
	if want := fmt.Sprintf("deep_%d;", recursion-1); !strings.HasPrefix(seen.Deep, want) {
		t.Errorf("the deepest frame is %q, want %s", seen.Deep, want)
	}
	var st struct {
		Window struct {
			Stacks int   `json:"stacks"`
			Bytes  int64 `json:"bytes"`
			Budget int64 `json:"budget_bytes"`
		} `json:"window"`
	}
	if err := c.get("api/status", &st); err != nil {
		t.Fatal(err)
	}
	if want := handlers*methods*operations + 1; st.Window.Stacks != want {
		t.Errorf("the exporter has %d distinct stacks, want %d", st.Window.Stacks, want)
	}
	if st.Window.Bytes > st.Window.Budget {
		t.Errorf("the exporter uses %d bytes, more than its budget of %d", st.Window.Bytes, st.Window.Budget)
	}
	// How long it takes depends on the machine and on who else is on it: told, not judged.
	var times strings.Builder
	fmt.Fprintf(&times, "%d stacks, ms to the next picture:\n", st.Window.Stacks)
	for _, name := range slices.Sorted(maps.Keys(seen.Times)) {
		fmt.Fprintf(&times, "  %s: %.0f\n", name, seen.Times[name])
	}
	t.Log(times.String())
	if err := os.WriteFile(filepath.Join(shots(t), "times.txt"), []byte(times.String()), 0o644); err != nil {
		t.Error(err)
	}
}
