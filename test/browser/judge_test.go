package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// tolerance of a share against the truth, in percentage points.
const tolerance = 3

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.2f, want %.2f within %.2f", what, got, want, tolerance)
	}
}

// percent reads the first share in a text of the page: "58.7% · 1.90 s", "▲ +58.6".
func percent(t *testing.T, text string) float64 {
	t.Helper()
	v, ok := number(text)
	if !ok {
		t.Errorf("there is no share in %q", text)
		return math.NaN()
	}
	return v
}

func number(text string) (float64, bool) {
	m := regexp.MustCompile(`[+\-−]?[\d,]+(\.\d+)?`).FindString(text)
	v, err := strconv.ParseFloat(strings.NewReplacer(",", "", "−", "-").Replace(m), 64)
	return v, err == nil
}

func live(t *testing.T, r tour) {
	var seen struct {
		Live, First, Second string
		Paused              struct{ From, To string }
	}
	drive(t, r.c, "live", r.params(), &seen)
	if seen.Live != "true" {
		t.Error("the page is not live at first")
	}
	if percent(t, seen.First) <= 0 || percent(t, seen.Second) <= 0 || seen.First == seen.Second {
		t.Errorf("live: first %q, then %q", seen.First, seen.Second)
	}
	from, _ := number(seen.Paused.From)
	if to, _ := number(seen.Paused.To); to <= from || from == 0 {
		t.Errorf("paused, the range is %v", seen.Paused)
	}
}

// looks is a view of the page as someone would compare it with another one.
type looks struct {
	Query, Tab, Range, Picture       string
	Chips, Crumbs, Found, Panel, Bar []string
}

type explored struct {
	Processes, Chips []string
	Found, Frame     string
	Details          struct {
		Name string
		Rows [][]string // Total and Self: name, share, time, samples
	}
	Zoomed struct {
		Crumbs       []string
		Share        string
		Width, Graph float64
		Changed      bool
	}
	Tooltip   string
	ZoomedOut struct {
		Focus *string
		Same  bool
	}
	Link    struct{ Here, There looks }
	Command string
	Files   map[string]string
	Row     map[string]string
	// Sandwich is the middle, its numbers, and the frame above it.
	Sandwich struct{ Name, Numbers, Caller string }
	Status   struct {
		Tiles map[string]string
		Text  string
	}
	Themes [][]string
}

func explore(t *testing.T, r tour) {
	var seen explored
	drive(t, r.c, "explore", r.params(), &seen)
	if len(seen.Details.Rows) != 2 {
		t.Fatalf("details: %q", seen.Details)
	}
	total, self := percent(t, seen.Details.Rows[0][1]), percent(t, seen.Details.Rows[1][1])
	near(t, "the share that the search says", percent(t, seen.Found), 60, tolerance)
	near(t, "the share of the frame", total, 60, tolerance)
	near(t, "the table's total", percent(t, seen.Row["Total"]), total, 0.5)
	near(t, "the table's self", percent(t, seen.Row["Self"]), self, 0.5)
	if !strings.HasPrefix(seen.Frame, "hot_sixty; Native; ") || !strings.HasPrefix(seen.Tooltip, "hot_sixty\n") {
		t.Errorf("frame %q, tooltip %q", seen.Frame, seen.Tooltip)
	}
	if len(seen.Processes) < 3 || len(seen.Chips) != 1 || !strings.Contains(seen.Chips[0], first) {
		t.Errorf("processes to filter by: %q; filters: %q", seen.Processes, seen.Chips)
	}
	zooms(t, seen)
	if !reflect.DeepEqual(seen.Link.Here, seen.Link.There) {
		t.Errorf("the link shows another view:\n%.3000q\n%.3000q", seen.Link.Here, seen.Link.There)
	}
	downloads(t, seen, total, self)
	if s := seen.Sandwich; s.Name != "hot_sixty" || !strings.HasPrefix(s.Caller, "sixty_12;") {
		t.Errorf("sandwich of %q, called by %q; want hot_sixty, called by sixty_12", s.Name, s.Caller)
	}
	near(t, "the sandwich's total", percent(t, seen.Sandwich.Numbers), total, 0.5)
	health(t, r, seen)
	if th := seen.Themes; len(th) != 3 || th[1][0] != "light" || th[2][0] != "dark" || th[1][1] == th[2][1] {
		t.Errorf("colours: %q", th)
	}
}

func zooms(t *testing.T, seen explored) {
	t.Helper()
	z := seen.Zoomed
	if len(z.Crumbs) == 0 || z.Crumbs[len(z.Crumbs)-1] != "hot_sixty" || z.Width < 0.98*z.Graph || !z.Changed {
		t.Errorf("zoomed in: %+v", z)
	}
	near(t, "the share of what is zoomed to", percent(t, z.Share), percent(t, seen.Details.Rows[0][1]), 0.01)
	if seen.ZoomedOut.Focus != nil || !seen.ZoomedOut.Same {
		t.Errorf("zoomed out, the graph is another one than before: %+v", seen.ZoomedOut)
	}
}

// downloads compares what the page's menu gives with what the page shows.
func downloads(t *testing.T, seen explored, total, self float64) {
	t.Helper()
	address := regexp.MustCompile(`^go tool pprof -http=: '(http://[^']+)'$`).FindStringSubmatch(seen.Command)
	if address == nil {
		t.Fatalf("the command is %q", seen.Command)
	}
	for what, source := range map[string]string{"the downloaded pprof": seen.Files["pprof"], "the command's pprof": address[1]} {
		flat, cum := pprofTop(t, source, "hot_sixty")
		near(t, what+": cum", cum, total, 0.1)
		near(t, what+": flat", flat, self, 0.1)
	}
	near(t, "folded stacks", folded(t, seen.Files["Folded stacks"], "hot_sixty"), self, 0.1)
	var speedscope struct {
		Schema   string `json:"$schema"`
		Profiles []any  `json:"profiles"`
	}
	if err := json.Unmarshal(read(t, seen.Files["speedscope"]), &speedscope); err != nil || len(speedscope.Profiles) == 0 {
		t.Errorf("speedscope: %d profiles, %v", len(speedscope.Profiles), err)
	}
	otlp, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(read(t, seen.Files["OTLP JSON"]))
	if err != nil || otlp.SampleCount() == 0 {
		t.Errorf("OTLP JSON: %v, or no samples", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pprofTop is what go tool pprof says of a function, in percent.
func pprofTop(t *testing.T, source, function string) (flat, cum float64) {
	t.Helper()
	cmd := exec.Command("go", "tool", "pprof", "-top", source)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("go tool pprof -top %s: %v\n%s", source, err, out)
		return math.NaN(), math.NaN()
	}
	for line := range strings.Lines(string(out)) {
		// flat flat% sum% cum cum% name
		if f := strings.Fields(line); len(f) == 6 && f[5] == function {
			flat, _ = number(f[1])
			cum, _ = number(f[4])
			return flat, cum
		}
	}
	t.Errorf("go tool pprof -top does not know %s:\n%s", function, out)
	return math.NaN(), math.NaN()
}

// folded is the share of the stacks that end in a function, in percent.
func folded(t *testing.T, path, function string) float64 {
	t.Helper()
	var found, total float64
	lines := bufio.NewScanner(bytes.NewReader(read(t, path)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		stack, text, _ := cutLast(lines.Text(), " ")
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("a line of the folded stacks is %q", lines.Text())
		}
		total += n
		if _, last, _ := cutLast(stack, ";"); last == function {
			found += n
		}
	}
	return 100 * found / total
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// health compares the status panel with the API, whose numbers have only grown since.
func health(t *testing.T, r tour, seen explored) {
	t.Helper()
	var now status
	if err := r.c.get("api/status", &now); err != nil {
		t.Fatal(err)
	}
	taken, _ := number(seen.Status.Tiles["Taken"])
	delivered, _ := number(seen.Status.Tiles["Delivered"])
	if len(now.Receivers) != 1 || taken < 2*enough || taken > float64(now.Receivers[0].Taken) || delivered < 2*enough {
		t.Errorf("the status panel says %v, the API %+v", seen.Status.Tiles, now)
	}
	for _, want := range []string{"Receiver hostprofiles", "the thread's first function", "Window in memory", "Payloads"} {
		if !strings.Contains(seen.Status.Text, want) {
			t.Errorf("the status panel has no %q:\n%s", want, seen.Status.Text)
		}
	}
}

// diff is one comparison: what the search, the selected frame and the table's row say.
type diff struct {
	Bar, Found, Frame string
	Row               map[string]string
}

func compare(t *testing.T, r tour) {
	var seen struct {
		Processes, Ranges diff
		Heatmap           struct {
			Actions           string
			Hottest           []string
			From, To          float64
			Found, FoundOther string
		}
	}
	drive(t, r.c, "compare", r.params(), &seen)
	// hot_sixty is 60 % of the one side, and not in the other: in another process, and in another time.
	for name, d := range map[string]diff{"processes": seen.Processes, "ranges": seen.Ranges} {
		now, base, _ := strings.Cut(d.Found, " vs ")
		near(t, name+": the current share", percent(t, now), 60, tolerance)
		near(t, name+": the baseline's share", percent(t, base), 0, 1)
		near(t, name+": the table's difference of self", percent(t, d.Row["Δ self"]), 60, tolerance)
		near(t, name+": the table's baseline", percent(t, d.Row["Self, baseline"]), 0, 1)
		if !strings.Contains(d.Frame, "; baseline ") || !strings.Contains(d.Bar, second) {
			t.Errorf("%s: frame %q, comparison %q", name, d.Frame, d.Bar)
		}
	}
	h := seen.Heatmap
	columns := 0.05 * float64(r.to-r.from) // the mark is on columns, and on pixels
	near(t, "the begin of the marked range", h.From, float64(r.half), columns)
	near(t, "the end of the marked range", h.To, float64(r.to), columns)
	near(t, "the first program's function in the second one's time", percent(t, h.Found), 0, tolerance)
	near(t, "the second program's function in its time", percent(t, h.FoundOther), 50, tolerance)
	if len(h.Hottest) == 0 {
		t.Errorf("the heatmap does not say what is hot in the marked range: %q", h.Actions)
	}
}
