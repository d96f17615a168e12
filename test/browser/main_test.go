// Package browser drives the real page of the live flame graph, in a real browser, against the built collector that profiles
// programs of known truth. The scenarios are in drive: they say what they saw, and what that has to be is said here.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// patience bounds each wait for something that takes a moment; the machine may be small and busy.
const patience = 60 * time.Second

// root is the module's.
func root(t *testing.T) string {
	t.Helper()
	dir, err := workloads.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// profiles skips the test where nobody can profile.
func profiles(t *testing.T) {
	t.Helper()
	s, err := harness.Start(context.Background(), harness.Options{})
	if errors.Is(err, harness.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// collector is the distribution's binary with the exporter.
type collector struct {
	page string // the page's address
	otlp string // where OTLP over HTTP is taken
	log  string // a file
	done chan error
}

// startCollector starts build/otelcol-hostprofiles with receivers of these kinds, and returns when the page is served. The
// test's end ends it, and fails if it does not end well.
func startCollector(t *testing.T, receivers ...string) *collector {
	t.Helper()
	binary := filepath.Join(root(t), "build", "otelcol-hostprofiles")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("the collector is missing (make build makes it): %v", err)
	}
	dir := t.TempDir()
	page, otlp := freeAddress(t), freeAddress(t)
	config := fmt.Sprintf(`
receivers:
  hostprofiles: {on_cpu: {frequency: 997}, report_interval: 1s}
  otlp: {protocols: {http: {endpoint: %q}}}
exporters:
  flamegraph: {endpoint: %q}
service:
  pipelines:
    profiles: {receivers: [%s], exporters: [flamegraph]}
  telemetry: {metrics: {level: none}}
`, otlp, page, strings.Join(receivers, ", "))
	path := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &collector{page: "http://" + page + "/", otlp: "http://" + otlp, log: filepath.Join(dir, "collector.log"), done: make(chan error, 1)}
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--config", path)
	cmd.Stdout, cmd.Stderr = log, log
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- cmd.Wait() }()
	t.Cleanup(func() { c.end(t, cmd.Process) })
	c.await(t, "the page to be served", func() error { return c.get("api/status", &status{}) })
	return c
}

func (c *collector) end(t *testing.T, p *os.Process) {
	if err := p.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case err := <-c.done:
		if err != nil {
			t.Errorf("the collector ended with %v", err)
		}
	case <-time.After(patience):
		t.Errorf("the collector does not end")
		_ = p.Kill()
		<-c.done
	}
	if text, err := os.ReadFile(c.log); t.Failed() && err == nil {
		t.Logf("the collector's log:\n%s", text[max(0, len(text)-8000):])
	}
}

// await asks until there is no error; a collector that ended will not get there.
func (c *collector) await(t *testing.T, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case ended := <-c.done:
			c.done <- ended
			t.Fatalf("waiting for %s: the collector ended: %v", what, ended)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// get asks the API. The answer is decoded into out.
func (c *collector) get(path string, out any) error {
	r, err := http.Get(c.page + path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, r.Status, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}

// status is what these tests need of /api/status.
type status struct {
	Now       int64 `json:"now"`
	Receivers []struct {
		Taken     int64 `json:"taken"`
		Delivered int64 `json:"delivered"`
	} `json:"receivers"`
	Payloads struct {
		Accepted int64 `json:"accepted"`
		Refused  int64 `json:"refused"`
	} `json:"payloads"`
}

// drive runs a scenario and decodes what it saw. Whatever the page says in the console, asks of somebody else, or opens
// without being asked fails the test, whatever the scenario is about.
func drive(t *testing.T, c *collector, scenario string, params map[string]any, seen any) {
	t.Helper()
	shots := shots(t)
	if err := os.RemoveAll(shots); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{
		"base": c.page, "shots": shots, "web": filepath.Join(root(t), "exporter", "flamegraph", "web"),
		"chromium": tool(t, "chromium"), "files": t.TempDir(),
	}
	for k, v := range params {
		all[k] = v
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, "node"), filepath.Join("drive", "drive.mjs"), scenario, string(text))
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("driving the page (scripts/web.sh install gets what is needed for it): %v\n%s", err, &stderr)
	}
	out := struct {
		Seen     any      `json:"seen"`
		Problems []string `json:"problems"`
		Foreign  []string `json:"foreign"`
		Failure  string   `json:"failure"`
	}{Seen: seen}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("reading what the scenario %s saw: %v\n%s\n%s", scenario, err, &stdout, &stderr)
	}
	t.Logf("screenshots: %s", shots)
	for _, p := range out.Problems {
		t.Errorf("in the browser: %s", p)
	}
	for _, f := range out.Foreign {
		t.Errorf("the page asked for %s", f)
	}
	if out.Failure != "" {
		t.Fatalf("scenario %s: %s\nthe last it saw: %s", scenario, out.Failure, &stdout)
	}
}

// shots is the folder of a test's screenshots.
func shots(t *testing.T) string {
	return filepath.Join(root(t), ".cache", "screenshots", strings.ReplaceAll(t.Name(), "/", "-"))
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed (scripts/setup.sh browser installs it): %v", name, err)
	}
	return path
}
