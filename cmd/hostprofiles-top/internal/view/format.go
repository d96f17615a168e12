package view

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// percent is v as a share of all.
func percent[N int64 | float64](v, of N) text.Safe {
	if of <= 0 {
		return "-"
	}
	return text.Safe(strconv.FormatFloat(100*float64(v)/float64(of), 'f', 1, 64) + "%")
}

// count groups digits by three: 1,234,567.
func count[N int | int64 | uint64](n N) text.Safe {
	s := strconv.FormatUint(uint64(max(n, 0)), 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return text.Safe(b.String())
}

// plural is count with what is counted: "1 sample", "2 samples".
func plural[N int | int64 | uint64](n N, one, more text.Safe) text.Safe {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// duration is about how long d is, for people.
func duration(d time.Duration) text.Safe {
	s := int64(max(d, 0).Seconds())
	switch {
	case s < 100:
		return text.Safe(strconv.FormatInt(s, 10)) + " s"
	case s < 100*60:
		return text.Safe(strconv.FormatInt(s/60, 10)) + " min"
	}
	return text.Safe(strconv.FormatInt(s/3600, 10)) + " h"
}

// windowName is a length of the window: "10 s", "1 min".
func windowName(d time.Duration) text.Safe {
	if d >= time.Minute {
		return text.Safe(strconv.Itoa(int(d.Minutes()))) + " min"
	}
	return text.Safe(strconv.Itoa(int(d.Seconds()))) + " s"
}

// meter turns values of a profile type into what is shown: CPU time as the number of CPUs that were busy, anything else by
// second.
type meter struct {
	kind    api.Type
	seconds float64 // that the values were taken in
	base    float64 // the same of what is compared with
}

func meterOf(d *live.Data) meter { return meter{d.Type, d.Seconds, d.Base} }

// scale is what one of the values stands for, and whether that is CPU time.
func (m meter) scale() (float64, bool) {
	if m.kind.PeriodType.Safe == "cpu" && m.kind.PeriodUnit.Safe == "nanoseconds" && m.kind.SampleUnit.Safe == "count" {
		return float64(m.kind.Period) / 1e9, true
	}
	if m.kind.SampleUnit.Safe == "nanoseconds" {
		return 1e-9, m.kind.SampleType.Safe == "cpu" || m.sums()
	}
	return 1, false
}

// sums tells whether values are sums of periods of CPU time, as they are where hosts sample at different frequencies.
func (m meter) sums() bool {
	return m.kind.PeriodType.Safe == "cpu" && m.kind.PeriodUnit.Safe == m.kind.SampleUnit.Safe && m.kind.Period == 1
}

// unit is the head of a column of values.
func (m meter) unit() text.Safe {
	if _, cpu := m.scale(); cpu {
		return "CPUS"
	}
	switch m.kind.SampleUnit.Safe {
	case "nanoseconds":
		return "SEC/S"
	case "bytes":
		return "BYTES/S"
	}
	return "/S"
}

// minSeconds keeps the first moments of a profiler from looking like many CPUs.
const minSeconds = 1

func (m meter) perSecond(v int64, seconds float64) float64 {
	scale, _ := m.scale()
	return float64(v) * scale / max(seconds, minSeconds)
}

// rate is a value by second.
func (m meter) rate(v int64) text.Safe { return m.number(m.perSecond(v, m.seconds)) }

// change is how much more a value is than that of what is compared with.
func (m meter) change(v, base int64) float64 {
	return m.perSecond(v, m.seconds) - m.perSecond(base, m.base)
}

// fewSamples is how often sampled CPU time is taken to have been looked at where its frequency is not known: less often than
// profilers do, so that chance is rather taken for a change too seldom.
const fewSamples = 20 // by second

// counted is how often was seen what came to a value of 1; 0 if that cannot be told.
func (m meter) counted() float64 {
	scale, cpu := m.scale()
	switch {
	case m.kind.SampleUnit.Safe == "count":
		return 1
	case cpu:
		return scale * fewSamples
	}
	return 0
}

// significant tells whether a change is more than chance: three standard deviations of what was counted.
func (m meter) significant(v, base int64) bool {
	each := m.counted()
	if each == 0 {
		return v != base
	}
	now, before := max(m.seconds, minSeconds), max(m.base, minSeconds)
	n, b := float64(v)*each, float64(base)*each
	return math.Abs(n/now-b/before) > 3*math.Sqrt(n/(now*now)+b/(before*before))
}

// signed shows a change.
func (m meter) signed(v float64) text.Safe {
	s := m.number(math.Abs(v))
	switch {
	case strings.Trim(string(s), "0.") == "":
		return "0"
	case v > 0:
		return "+" + s
	}
	return "-" + s
}

func (m meter) number(v float64) text.Safe {
	if m.kind.SampleUnit.Safe == "nanoseconds" || m.unit() == "CPUS" {
		return text.Safe(strconv.FormatFloat(v, 'f', 2, 64))
	}
	step, units := 1000.0, []string{"", "k", "M", "G", "T", "P"}
	if m.kind.SampleUnit.Safe == "bytes" {
		step = 1024
	}
	i := 0
	for ; math.Abs(v) >= step && i < len(units)-1; i++ {
		v /= step
	}
	digits := 1
	if i == 0 && math.Abs(v) >= 100 {
		digits = 0
	}
	return text.Safe(strconv.FormatFloat(v, 'f', digits, 64) + units[i])
}

// place is where a function is: file and line, else the file that it was loaded from.
func place(f *api.Function) text.Safe {
	switch {
	case f.File != "" && f.Line > 0:
		return f.File + ":" + text.Safe(strconv.FormatInt(f.Line, 10))
	case f.File != "":
		return f.File
	}
	return f.Mapping
}

// base is the last part of a path.
func base(path text.Safe) text.Safe { return path[strings.LastIndexByte(string(path), '/')+1:] }

// millis is a length of time in ms, from elsewhere.
func millis(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(max(min(ms, most), -most)) * time.Millisecond
}
