package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// style says what the output can show.
type style struct {
	colours bool
	width   int // characters per line; 0: no limit
}

// styleOf finds out whether f is a terminal, and how wide.
func styleOf(f *os.File) style {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return style{} // not a terminal
	}
	return style{colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", width: int(size.Col)}
}

const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	faint = "\x1b[2m"
	reset = "\x1b[0m"
)

func (s style) paint(colour, text string) string {
	if !s.colours || colour == "" {
		return text
	}
	return colour + text + reset
}

// row is a line of a table.
type row struct {
	rowKey
	weight float64
}

// render returns the tables of a window, CPU time first.
func render(w *window, now time.Time, rows int, st style) string {
	var b strings.Builder
	switch {
	case w.empty() && w.waiting:
		fmt.Fprintf(&b, "%s   waiting for the first profiles\n\n", now.Format(time.TimeOnly))
	case w.empty():
		fmt.Fprintf(&b, "%s   no profiles in %s\n\n", now.Format(time.TimeOnly), seconds(now.Sub(w.since)))
	}
	kinds := slices.SortedFunc(maps.Keys(w.kinds), func(a, b kind) int {
		return cmp.Or(-compareBool(a == cpuTime, b == cpuTime), cmp.Compare(a.name, b.name), cmp.Compare(a.unit, b.unit))
	})
	for _, k := range kinds {
		u := w.kinds[k]
		covered := w.covered(k)
		if covered == 0 {
			covered = now.Sub(w.since)
		}
		t := table{kind: k, usage: u, covered: covered, style: st}
		t.title(&b, now)
		t.body(&b, rows)
	}
	return b.String()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// table is what one kind of values came to.
type table struct {
	kind    kind
	usage   *usage
	covered time.Duration
	style   style
}

func (t table) title(b *strings.Builder, now time.Time) {
	u := t.usage
	parts := []string{
		now.Format(time.TimeOnly),
		fmt.Sprintf("%s in %s", count(u.samples, "sample"), seconds(t.covered)),
	}
	if t.kind == cpuTime {
		parts = append(parts, t.amount(u.total)+" CPUs")
	} else {
		parts = append(parts, strings.TrimSpace(t.kind.name+" "+t.amount(u.total)))
	}
	parts = append(parts, count(uint64(len(u.processes)), "process"),
		"kernel "+percent(u.kernel, u.total), "incomplete "+percent(u.incomplete, u.total)+t.mostlyBroken())
	b.WriteString(t.style.paint(bold, cut(strings.Join(parts, "   "), t.limit(0))) + "\n")
	t.reasons(b)
}

// notable is the part of all values from which on it is worth a line that stacks are incomplete for a reason.
const notable = 1. / 50

// reasons says why stacks are incomplete, a line for each reason of which there is a notable part.
func (t table) reasons(b *strings.Builder) {
	sums := map[string]float64{}
	for of, weight := range t.usage.broken {
		sums[of.reason] += weight
	}
	reasons := slices.SortedFunc(maps.Keys(sums), func(x, y string) int { return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y)) })
	for _, reason := range reasons {
		r, known := stopreason.Of(reason)
		if known && sums[reason] >= t.usage.total*notable {
			line := fmt.Sprintf("incomplete %s %s: %s", percent(sums[reason], t.usage.total), reason, r.Means)
			b.WriteString(t.style.paint(faint, cut(line, t.limit(0))) + "\n")
		}
	}
}

// mostlyBroken says whose stacks are incomplete for which reason, if it is much.
func (t table) mostlyBroken() string {
	worst := 0.0
	var of brokenStack
	for b, weight := range t.usage.broken {
		if weight > worst || weight == worst && cmp.Or(cmp.Compare(b.process, of.process), cmp.Compare(b.reason, of.reason)) < 0 {
			worst, of = weight, b
		}
	}
	if worst < t.usage.total*notable {
		return ""
	}
	return fmt.Sprintf(" (mostly %s: %s)", cmp.Or(of.process, "-"), of.reason)
}

func (t table) body(b *strings.Builder, limit int) {
	shown, rest := t.rows(limit)
	names := len("PROCESS")
	for _, r := range shown {
		names = max(names, len([]rune(r.process.name)))
	}
	names = min(names, 24)

	header := "CPUS"
	if t.kind != cpuTime {
		header = "VALUE"
	}
	line := func(share, amount, pid, process, function string) string {
		head := fmt.Sprintf("%7s %9s %8s  %-*s  ", share, amount, pid, names, cut(process, names))
		return head + cut(function, t.limit(len([]rune(head))))
	}
	b.WriteString(t.style.paint(faint, line("SHARE", header, "PID", "PROCESS", "FUNCTION")) + "\n")
	for _, r := range shown {
		pid, process, function := "-", r.process.name, r.function.name
		if r.process.pid != 0 {
			pid = strconv.FormatInt(r.process.pid, 10)
		}
		if process == "" {
			process = "-"
		}
		if r.function.kernel {
			function += " [kernel]"
		}
		colour := ""
		if r.weight >= t.usage.total/10 {
			colour = red
		}
		b.WriteString(t.style.paint(colour, line(percent(r.weight, t.usage.total), t.amount(r.weight), pid, process, function)) + "\n")
	}
	if rest > 0 {
		b.WriteString(t.style.paint(faint, line(percent(rest, t.usage.total), t.amount(rest), "", "", "(all others)")) + "\n")
	}
	b.WriteString("\n")
}

// rows returns the largest rows in an order that does not depend on chance, and the sum of what they leave out.
func (t table) rows(limit int) (shown []row, rest float64) {
	all := make([]row, 0, len(t.usage.rows))
	for key, weight := range t.usage.rows {
		all = append(all, row{key, weight})
	}
	slices.SortFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight),
			cmp.Compare(a.process.name, b.process.name), cmp.Compare(a.process.pid, b.process.pid),
			cmp.Compare(a.function.name, b.function.name), compareBool(a.function.kernel, b.function.kernel))
	})
	shown = all[:min(limit, len(all))]
	rest = t.usage.beyond
	for _, r := range all[len(shown):] {
		rest += r.weight
	}
	return shown, rest
}

// limit returns how many characters are left in a line of which used are taken.
func (t table) limit(used int) int {
	if t.style.width == 0 {
		return math.MaxInt
	}
	return max(t.style.width-used, 1)
}

// amount says how much v of the table's kind is: CPU time as the number of CPUs that were busy.
func (t table) amount(v float64) string {
	switch {
	case t.kind == cpuTime && t.covered > 0:
		return strconv.FormatFloat(v/float64(t.covered), 'f', 2, 64)
	case t.kind.unit == "nanoseconds":
		return strconv.FormatFloat(v/1e9, 'f', 3, 64) + "s"
	case t.kind.unit == "bytes":
		return bytes(v)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func bytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	n := 0
	for v >= 1024 && n < len(units)-1 {
		v, n = v/1024, n+1
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + units[n]
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s" }

func percent(part, whole float64) string {
	if whole <= 0 {
		return "0.0%"
	}
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + "%"
}

func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		return strconv.FormatUint(n, 10) + " " + noun + "es"
	}
	return strconv.FormatUint(n, 10) + " " + noun + "s"
}
