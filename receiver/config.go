package receiver

import (
	"errors"
	"fmt"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/engine"
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

// validateTriggers refuses a receiver that could only do nothing: it would look healthy for ever.
func validateTriggers(c *Config) error {
	if !c.OnCPU.Enabled {
		return errors.New("on_cpu::enabled is false and there is no other trigger: nothing would be profiled")
	}
	return nil
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
		ThreadIDs:      c.ThreadID.Enabled,
		MemoryBytes:    uint64(c.Limits.MemoryMib) << 20,
		PayloadBytes:   c.Limits.PayloadBytes,
	}
}
