package view

import (
	"strings"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// Plain is a table for terminals that can only print, and for files: a line about all, the heads, and at most rows functions.
// width bounds the lines; 0: nothing is cut.
func Plain(d *live.Data, r live.Request, rows, width int) []text.Safe {
	meter := meterOf(d)
	_, lost := losses(d.Status)
	to := time.UnixMilli(d.Range.To)
	first := text.Safe(to.Format(time.TimeOnly)) + "  last " + windowName(r.Window) + "  " + meter.rate(d.Total)
	if _, cpu := meter.scale(); cpu {
		first += " CPUs"
	} else {
		first += " " + meter.unit() + " of " + d.Type.SampleType.Safe
	}
	first += "  kernel " + percent(d.Kernel, d.Total)
	if d.Type.SampleUnit.Safe == "count" {
		first += "  " + plural(d.Total, "sample", "samples")
	}
	first += "  " + lost + "  data " + duration(millis(d.Status.Now-d.Status.Window.To)) + " old"
	out := []text.Safe{first}
	switch {
	case d.Nothing(r):
		return append(out, "nothing is selected")
	case len(d.Functions) == 0:
		return append(out, frameless)
	}
	names := 16
	if width > 0 && width < 100 {
		names = 12
	}
	head := text.Right(meter.unit(), 8) + "   SELF%  TOTAL%"
	if r.Compare {
		head += "    DIFF"
	}
	out = append(out, head+"  RUNTIME "+text.Left("PROCESS", names)+"  FUNCTION")
	for i := range d.Functions[:min(rows, len(d.Functions))] {
		f := &d.Functions[i]
		value, base := f.Self, f.BaseSelf
		if r.Order == "total" {
			value, base = f.Total, f.BaseTotal
		}
		line := text.Right(meter.rate(value), 8) + text.Right(percent(f.Self, d.Total), 8) + text.Right(percent(f.Total, d.Total), 8)
		if r.Compare {
			change := text.Safe("-")
			if d.Compared {
				change = meter.signed(meter.change(value, base))
			}
			line += text.Right(change, 8)
		}
		line += "  " + text.Left(f.Type, 7) + " " + text.Left(processes(f.Processes, names), names) + "  "
		if width > 0 {
			line += text.Name(f.Name, max(width-text.Width(line), 1))
		} else {
			line += f.Name
			if f.File != "" {
				line += "  " + place(&f.Function)
			}
		}
		out = append(out, line)
	}
	if width > 0 {
		for i := range out {
			out[i] = text.Cut(out[i], width)
		}
	}
	return out
}

// Missing says why nothing is selected: what matches nothing even alone, else all that narrows the selection.
func Missing(r live.Request, m live.Misses) (out []text.Safe) {
	where := "in the last " + windowName(r.Window)
	for _, f := range m.Filters {
		line := "nothing is selected: there are no samples of " + condition(f.Filter) + " " + where
		if f.Other != "" {
			line += ", but there are of " + condition(api.Filter{Key: f.Other, Value: f.Value}) + ": -" + filterName(f.Other)
		}
		out = append(out, line)
	}
	if m.Search {
		out = append(out, "nothing is selected: no function "+where+" matches "+text.Clean(r.Search))
	}
	if len(out) > 0 {
		return out
	}
	var all []string
	for _, f := range r.Filters {
		all = append(all, string(condition(f)))
	}
	if r.Search != "" {
		all = append(all, string("function "+text.Clean(r.Search)))
	}
	switch len(all) {
	case 0:
		return []text.Safe{"nothing is selected: there are no samples " + where}
	case 1: // it came meanwhile
		return []text.Safe{"nothing was selected a moment ago; there are samples of " + text.Safe(all[0]) + " now"}
	}
	return []text.Safe{"nothing is selected: " + where + " there are samples of each, but none of all at once: " + text.Safe(strings.Join(all, ", "))}
}

func condition(f api.Filter) text.Safe { return filterName(f.Key) + " " + text.Clean(f.Value) }
