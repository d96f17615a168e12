package view

import (
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// columns are how wide the columns of a list are; 0: not there.
type columns struct {
	meter                         meter
	data                          *live.Data
	width                         int
	rate, share, second, diff     int
	name, place, runtime, process int
}

// Widths of a screen from which on there is room for a column.
const (
	forRuntime = 56
	forProcess = 66
	forPlace   = 110
)

// pidWidth is how wide the largest pid is.
const pidWidth = 7

// columns chooses what fits.
func (m *Model) columns(d *live.Data) columns {
	c := columns{meter: meterOf(d), data: d, width: m.width, rate: 8, share: 7, second: 7}
	if m.request.Compare {
		c.diff = 8
	}
	if len(m.stack) > 0 {
		c.second = 0
	}
	rest := m.width - c.rate - c.share - c.second - c.diff - 1
	take := func(from, width int) int {
		if m.width < from {
			return 0
		}
		rest -= width + 1
		return width
	}
	if m.view == functionsView || len(m.stack) > 0 {
		c.runtime = take(forRuntime, 7)
	}
	if m.view == functionsView && len(m.stack) == 0 {
		c.process = take(forProcess, min(14+max(m.width-80, 0)/8, 24))
		c.place = take(forPlace, min(20+(m.width-forPlace)/3, 40))
	}
	c.name = max(rest, 1)
	return c
}

// heads are the names of the columns.
func (c *columns) heads(m *Model) Line {
	first, second, name := "SHARE", "", "FUNCTION"
	unit := c.meter.unit()
	switch {
	case len(m.stack) > 0:
		first, name = "OF IT", "FUNCTION, and where most of it goes on"
	case m.view == processesView:
		second, name = "KERNEL", "PROCESS"
		if c.data.ByPID {
			name = string(text.Left("PID", pidWidth)) + " PROCESS"
		}
	default:
		first, second = "SELF%", "TOTAL%"
	}
	l := Line{Fill: Heading}
	l.add(Heading, text.Right(unit, c.rate)+text.Right(text.Safe(first), c.share)+text.Right(text.Safe(second), c.second))
	if c.diff > 0 {
		l.add(Heading, text.Right("DIFF", c.diff))
	}
	if width := c.processWidth(); m.view == processesView && len(m.stack) == 0 && width < c.name {
		l.add(Heading, "   "+text.Left(text.Safe(name), width)+" "+text.Left("HOTTEST FUNCTION", c.name-width-3))
	} else {
		l.add(Heading, " "+text.Left(text.Safe(name), c.name))
	}
	if c.place > 0 {
		l.add(Heading, " "+text.Left("FILE:LINE", c.place))
	}
	if c.runtime > 0 {
		l.add(Heading, " "+text.Left("RUNTIME", c.runtime))
	}
	if c.process > 0 {
		l.add(Heading, " "+text.Left("PROCESS", c.process))
	}
	return l
}

func (c *columns) row(m *Model, i *item) Line {
	switch {
	case i.heading != "":
		return styledLine(Strong, text.Spaces(c.rate+c.share+c.diff+1)+i.heading)
	case i.nested:
		return c.nested(i)
	case i.function != nil:
		return c.function(m, i.function)
	case i.process != nil:
		return c.ofProcess(m, i.process)
	case i.self:
		return c.around(c.data.Around.Function, c.data.Around.Self, c.data.Around.BaseSelf, nil, true)
	}
	return c.around(i.neighbour.Function, i.neighbour.Value, i.neighbour.BaseValue, i.neighbour.Way, false)
}

// values are the columns of numbers. heavy is what is marked as much.
func (c *columns) values(value, baseValue int64, share, second text.Safe, heavy bool) Line {
	style := Normal
	if heavy {
		style = Strong
	}
	l := Line{}
	l.add(style, text.Right(c.meter.rate(value), c.rate)+text.Right(share, c.share)+text.Right(second, c.second))
	if c.diff > 0 {
		change := c.meter.change(value, baseValue)
		shown, style := c.meter.signed(change), Dim
		switch {
		case !c.data.Compared:
			shown = "-"
		case !c.meter.significant(value, baseValue):
		case change > 0:
			style = Up
		default:
			style = Down
		}
		l.add(style, text.Right(shown, c.diff))
	}
	l.add(Normal, " ")
	return l
}

func (c *columns) function(m *Model, f *live.Function) Line {
	value, baseValue := f.Self, f.BaseSelf
	if m.request.Order == "total" {
		value, baseValue = f.Total, f.BaseTotal
	}
	l := c.values(value, baseValue, percent(f.Self, c.data.Total), percent(f.Total, c.data.Total), f.Self*10 >= c.data.Total)
	style := runtimeStyle(f.Type)
	l.add(style, text.Left(text.Name(f.Name, c.name), c.name))
	if c.place > 0 {
		where := place(&f.Function)
		if f.File == "" {
			where = base(where)
		}
		l.add(Dim, " "+text.Left(text.CutHead(where, c.place), c.place))
	}
	if c.runtime > 0 {
		l.add(style, " "+text.Left(f.Type, c.runtime))
	}
	if c.process > 0 {
		l.add(Normal, " "+text.Left(processes(f.Processes, c.process), c.process))
	}
	return l
}

// processes names the first of the processes, and how many others there are.
func processes(of []live.Share, width int) text.Safe {
	switch len(of) {
	case 0:
		return ""
	case 1:
		return text.Cut(processName(of[0].Name), width)
	}
	more := " +" + count(len(of)-1)
	return text.Cut(processName(of[0].Name), width-text.Width(more)) + more
}

func (c *columns) ofProcess(m *Model, p *live.Process) Line {
	l := c.values(p.Total, p.BaseTotal, percent(p.Total, c.data.Total), percent(p.Kernel, p.Total), p.Total*10 >= c.data.Total)
	sign := text.Safe("+ ")
	if m.expanded(p) {
		sign = "- "
	}
	l.add(Dim, sign)
	width := c.processWidth()
	l.add(Normal, text.Left(processTitle(p, pidWidth), width))
	if room := c.name - 2 - width - 1; room > 8 && p.Hottest != "" {
		l.add(Dim, " "+text.Name(p.Hottest, room))
	}
	return l
}

// processWidth is how wide the names of processes are; what is left is for their hottest function.
func (c *columns) processWidth() int { return min(c.name-2, max(c.name/3, 16)) }

// nested is a function below its process: shares are those of all, as in the process's own row.
func (c *columns) nested(i *item) Line {
	f := i.function
	l := c.values(f.Self, f.BaseSelf, percent(f.Self, c.data.Total), "", false)
	l.add(runtimeStyle(f.Type), "    "+text.Name(f.Name, c.name-4))
	return l
}

// around is a caller, a callee, or the function itself. Shares are of the function's total.
func (c *columns) around(f api.Function, value, baseValue int64, way []text.Safe, self bool) Line {
	l := c.values(value, baseValue, percent(value, c.data.Around.Total), "", self)
	name := text.Name(live.DisplayName(&f), c.name)
	style := runtimeStyle(f.Type)
	if self {
		name, style = text.Name(f.Name, c.name-7)+" (self)", Strong
	}
	line := Line{}
	line.add(style, name)
	for _, w := range way {
		line.add(Dim, " > "+w)
	}
	line = line.cut(c.name)
	line.add(Normal, text.Spaces(c.name-line.width()))
	l.Spans = append(l.Spans, line.Spans...)
	if c.runtime > 0 && f.Type != api.TypeGroup && f.Type != api.TypeTruncated {
		l.add(style, " "+text.Left(f.Type, c.runtime))
	}
	return l
}
