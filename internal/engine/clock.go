package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock converts between the kernel's clocks. Records carry CLOCK_MONOTONIC, start times CLOCK_BOOTTIME; profiles want Unix time.
type clock struct {
	wallOffset int64 // Unix time - CLOCK_MONOTONIC, ns
	bootOffset int64 // Unix time - CLOCK_BOOTTIME, ns
}

func newClock() clock {
	var c clock
	c.sync()
	return c
}

// sync follows steps of the wall clock and suspended time.
func (c *clock) sync() {
	wall := time.Now().UnixNano()
	c.wallOffset = wall - nanoseconds(unix.CLOCK_MONOTONIC)
	c.bootOffset = wall - nanoseconds(unix.CLOCK_BOOTTIME)
}

func (c *clock) wall(monotonic uint64) uint64 { return uint64(int64(monotonic) + c.wallOffset) }
func (c *clock) started(boottime uint64) time.Time {
	return time.Unix(0, int64(boottime)+c.bootOffset).UTC()
}

// monotonic is the time by which records are stamped.
func (c *clock) monotonic() uint64 { return uint64(nanoseconds(unix.CLOCK_MONOTONIC)) }

func nanoseconds(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0 // these clocks always exist
	}
	return ts.Nano()
}
