package receiver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/engine"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
)

// Bounds of report_interval: below, the cost of a payload outweighs the samples in it; above, a host's samples of an hour
// would have to be kept in memory.
const (
	minReportInterval = 100 * time.Millisecond
	maxReportInterval = time.Hour
)

func validateReportInterval(d time.Duration) error {
	if d < minReportInterval || d > maxReportInterval {
		return fmt.Errorf("report_interval is %s; it must be from %s to %s", d, minReportInterval, maxReportInterval)
	}
	return nil
}

// validateWhole refuses a receiver that could only do nothing, which would look healthy for ever, and servers that cannot be
// asked.
func validateWhole(c *Config) error {
	if !c.OnCPU.Enabled {
		return errors.New("on_cpu::enabled is false and there is no other trigger: nothing would be profiled")
	}
	return validateDebuginfod(&c.Symbolization.Debuginfod)
}

// validateDebuginfodTimeout refuses what no download could keep.
func validateDebuginfodTimeout(d time.Duration) error {
	if d < time.Second {
		return fmt.Errorf("timeout is %s; it must be at least 1s", d)
	}
	return nil
}

// validateDebuginfod refuses servers that cannot be asked, and to ask nobody: a defect that shows only as missing lines.
func validateDebuginfod(c *DebuginfodConfig) error {
	if !c.Enabled {
		return nil
	}
	urls, err := c.servers()
	if err != nil {
		return err
	}
	if len(urls) == 0 {
		return errors.New("symbolization::debuginfod::enabled is true, but no server is named: set urls, or the environment variable " + debuginfodURLs)
	}
	return nil
}

// debuginfodURLs is what elfutils' tools and others read.
const debuginfodURLs = "DEBUGINFOD_URLS"

// servers are those of the configuration, or else of the environment.
func (c *DebuginfodConfig) servers() ([]string, error) {
	if len(c.Urls) == 0 {
		urls, err := debuginfod.ParseURLs(os.Getenv(debuginfodURLs))
		if err != nil {
			return nil, fmt.Errorf("reading the environment variable %s: %w", debuginfodURLs, err)
		}
		return urls, nil
	}
	if err := debuginfod.CheckURLs(c.Urls); err != nil {
		return nil, fmt.Errorf("reading symbolization::debuginfod::urls: %w", err)
	}
	return c.Urls, nil
}

// options are nil if no servers are to be asked.
func (c *DebuginfodConfig) options() *debuginfod.Options {
	urls, err := c.servers()
	if !c.Enabled || err != nil {
		return nil
	}
	dir := c.CacheDir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = "/var/cache"
		}
		dir = filepath.Join(cache, "hostprofiles", "debuginfod")
	}
	return &debuginfod.Options{URLs: urls, Dir: dir, MaxBytes: int64(c.CacheMib) << 20, Timeout: c.Timeout}
}

// engineConfig translates what users write into what the engine takes.
func (c *Config) engineConfig(version string) engine.Config {
	return engine.Config{
		Version:        version,
		OnCPUEnabled:   c.OnCPU.Enabled,
		OnCPUFrequency: c.OnCPU.Frequency,
		ReportInterval: c.ReportInterval,
		MaxFrames:      c.MaxFrames,
		Symbolize:      c.Symbolization.Enabled,
		SourceLines:    c.Symbolization.SourceLines,
		Debuginfod:     c.Symbolization.Debuginfod.options(),
		ThreadIDs:      c.ThreadID.Enabled,
		MemoryBytes:    uint64(c.Limits.MemoryMib) << 20,
		PayloadBytes:   c.Limits.PayloadBytes,
	}
}
