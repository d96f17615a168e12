package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// Collector is the distribution's binary, with receivers and a file exporter for each.
type Collector struct {
	Cmd     *exec.Cmd
	outputs []string // a file for each receiver
	waited  chan error
	mu      sync.Mutex
	log     bytes.Buffer
}

// collectorStart bounds the time until the collector says that it is ready.
const collectorStart = 30 * time.Second

// configure writes a configuration with a receiver of each id and returns its path.
func (c *Collector) configure(dir string, interval time.Duration, ids []string) (string, error) {
	var receivers, exporters, pipelines strings.Builder
	if len(ids) == 0 {
		receivers.WriteString("  otlp: {protocols: {grpc: {endpoint: 'localhost:0'}}}\n")
		exporters.WriteString("  nop:\n")
		pipelines.WriteString("    profiles: {receivers: [otlp], exporters: [nop]}\n")
	}
	for i, id := range ids {
		output := filepath.Join(dir, fmt.Sprintf("profiles-%d.json", i))
		c.outputs = append(c.outputs, output)
		fmt.Fprintf(&receivers, "  %s:\n    on_cpu: {frequency: 997}\n    report_interval: %s\n", id, interval)
		fmt.Fprintf(&exporters, "  file/%d: {path: %s}\n", i, output)
		fmt.Fprintf(&pipelines, "    profiles/%d: {receivers: [%s], exporters: [file/%d]}\n", i, id, i)
	}
	config := fmt.Sprintf("receivers:\n%sexporters:\n%sservice:\n  telemetry: {metrics: {level: none}}\n  pipelines:\n%s",
		&receivers, &exporters, &pipelines)
	path := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return "", fmt.Errorf("configuring the collector: %w", err)
	}
	return path, nil
}

// StartCollector starts build/otelcol-hostprofiles below the module's root, with a receiver of each id (hostprofiles, or
// hostprofiles/NAME), and returns when it is ready. Its files go into dir. Without ids it profiles nothing.
func StartCollector(root, dir string, interval time.Duration, ids ...string) (*Collector, error) {
	binary := filepath.Join(root, "build", "otelcol-hostprofiles")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("starting the collector (make build makes it): %w", err)
	}
	c := &Collector{waited: make(chan error, 1)}
	path, err := c.configure(dir, interval, ids)
	if err != nil {
		return nil, err
	}
	c.Cmd = exec.Command(binary, "--config", path)
	stderr, err := c.Cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the collector: %w", err)
	}
	if err := c.Cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the collector: %w", err)
	}
	ready := make(chan struct{})
	go c.read(stderr, ready)
	select {
	case <-ready:
		return c, nil
	case err := <-c.waited:
		return nil, fmt.Errorf("starting the collector: it ended (%w):\n%s", errors.Join(err), c.Log())
	case <-time.After(collectorStart):
		c.Kill()
		return nil, fmt.Errorf("starting the collector: it is not ready after %v:\n%s", collectorStart, c.Log())
	}
}

// read keeps the log until the process ends, and waits for it.
func (c *Collector) read(r io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	once := false
	for lines.Scan() {
		c.mu.Lock()
		c.log.Write(append(lines.Bytes(), '\n'))
		c.mu.Unlock()
		if !once && strings.Contains(lines.Text(), "Everything is ready") {
			once = true
			close(ready)
		}
	}
	c.waited <- c.Cmd.Wait()
}

// Log is what the collector wrote so far.
func (c *Collector) Log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// Kill kills the collector without notice.
func (c *Collector) Kill() {
	_ = c.Cmd.Process.Kill()
	<-c.waited
	c.waited <- nil
}

// Terminate asks the collector to end, waits for it, and returns what it wrote for each receiver, checked for conformance.
// An exit status other than 0 is an error.
func (c *Collector) Terminate() ([]analysis.Samples, error) {
	if err := c.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, fmt.Errorf("terminating the collector: %w", err)
	}
	err := <-c.waited
	c.waited <- nil
	if err != nil {
		return nil, fmt.Errorf("terminating the collector: %w\n%s", err, c.Log())
	}
	var all []analysis.Samples
	for _, output := range c.outputs {
		samples, err := readFile(output)
		if err != nil {
			return nil, err
		}
		all = append(all, samples)
	}
	return all, nil
}

// readFile reads what the file exporter wrote: a JSON document a line.
func readFile(path string) (analysis.Samples, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading profiles: %w", err)
	}
	if err := (conformance.Checker{MayBeEmpty: true}).CheckJSON(text); err != nil {
		return nil, fmt.Errorf("checking %s: %w", path, err)
	}
	var all analysis.Samples
	for line := range bytes.Lines(text) {
		p, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, analysis.Flatten(p)...)
	}
	return all, nil
}
