package top

import (
	"fmt"
	"time"
)

// Bounds of interval: nobody reads faster, and counters of a longer window would say nothing about now.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Hour
)

func validateInterval(d time.Duration) error {
	if d < minInterval || d > maxInterval {
		return fmt.Errorf("interval is %s; it must be from %s to %s", d, minInterval, maxInterval)
	}
	return nil
}
