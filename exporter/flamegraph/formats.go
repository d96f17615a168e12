package flamegraph

import (
	"bufio"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// attach names the file that a browser makes of a download.
func (q *request) attach(contentType, name string) {
	h := q.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// foldedDownload answers with a line for each stack: its frames, outermost first, with semicolons between, and its value. It is
// what flamegraph.pl and inferno read.
func foldedDownload(q *request) error {
	t, _, err := q.tree()
	if err != nil {
		return err
	}
	q.attach("text/plain; charset=utf-8", "profile.folded")
	d := t.Describe()
	names := make([]string, len(d.Functions))
	for i := range d.Functions {
		names[i] = foldedName(&d.Functions[i])
	}
	out := bufio.NewWriter(q.w)
	t.Stacks(func(path []int32, value int64) {
		for i, n := range path {
			if i > 0 {
				out.WriteByte(';')
			}
			out.WriteString(names[d.Node[n]])
		}
		if len(path) == 0 {
			out.WriteString("[no stack]")
		}
		out.WriteByte(' ')
		out.WriteString(strconv.FormatInt(value, 10))
		out.WriteByte('\n')
	})
	_ = out.Flush() // whoever asked may be gone
	return nil
}

// foldedName is a name without what separates frames and lines. Kernel functions are marked as the tools do, which colour them.
func foldedName(f *store.Function) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ';':
			return ':'
		case r < ' ' || r == 0x7f:
			return '?'
		}
		return r
	}, f.Name)
	if f.FrameType == "kernel" {
		name += "_[k]"
	}
	return name
}

// speedscope's file format, version 0.0.1 (speedscope 1.25, file-format-schema.json).
type speedscopeFile struct {
	Schema             string              `json:"$schema"`
	Exporter           string              `json:"exporter"`
	Name               string              `json:"name"`
	ActiveProfileIndex int                 `json:"activeProfileIndex"`
	Shared             speedscopeShared    `json:"shared"`
	Profiles           []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int64  `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type       string    `json:"type"`
	Name       string    `json:"name"`
	Unit       string    `json:"unit"`
	StartValue float64   `json:"startValue"`
	EndValue   float64   `json:"endValue"`
	Samples    [][]int32 `json:"samples"`
	Weights    []float64 `json:"weights"`
}

func speedscopeDownload(q *request) error {
	t, _, err := q.tree()
	if err != nil {
		return err
	}
	if err := q.takeAll(speedscopeBytes(t), t.Bytes()+t.ViewBytes()); err != nil {
		return err
	}
	d := t.Describe()
	file := speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json", Exporter: "hostprofiles " + q.api.e.info.Version,
		Name: t.Info.ID}
	for i := range d.Functions {
		f := &d.Functions[i]
		source := f.File
		if source == "" {
			source = f.Mapping
		}
		file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{Name: f.Name, File: source, Line: f.StartLine})
	}
	scale, unit := speedscopeUnit(t.Info)
	p := speedscopeProfile{Type: "sampled", Name: t.Info.SampleType, Unit: unit, Samples: [][]int32{}, Weights: []float64{}}
	t.Stacks(func(path []int32, value int64) {
		stack := make([]int32, len(path))
		for i, n := range path {
			stack[i] = d.Node[n]
		}
		weight := float64(value) * scale
		p.Samples, p.Weights = append(p.Samples, stack), append(p.Weights, weight)
		p.EndValue += weight
	})
	file.Profiles = []speedscopeProfile{p}
	q.attach("application/json; charset=utf-8", "profile.speedscope.json")
	_ = json.NewEncoder(q.w).Encode(file) // whoever asked may be gone
	return nil
}

// speedscopeBytes is about the memory that the file takes, its text included: each stack has all of its frames.
func speedscopeBytes(t *store.Tree) int {
	const perStack, perFrame = 150, 4 + 3*8 // the text is written into a buffer that grows
	n := 0
	t.Stacks(func(path []int32, _ int64) { n += perStack + perFrame*len(path) })
	return n
}

// speedscopeUnit says by what to multiply values for a unit that speedscope knows.
func speedscopeUnit(t store.TypeInfo) (scale float64, unit string) {
	if t.SampleUnit == "count" && t.PeriodUnit == "nanoseconds" && t.Period > 0 {
		return float64(t.Period), "nanoseconds"
	}
	switch t.SampleUnit {
	case "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes":
		return 1, t.SampleUnit
	}
	return 1, "none"
}

// export makes OTLP profiles of the selection, if there is memory for it.
func (q *request) export(x store.Export) (p pprofile.Profiles, err error) {
	x.Selection = q.selection("")
	if err := q.bad(); err != nil {
		return p, err
	}
	if err := q.takeAll(q.snapshot.ExportBytes(x), 0); err != nil {
		return p, err
	}
	p, ok := q.snapshot.Export(x)
	if !ok {
		return p, errNoProfiles()
	}
	return p, nil
}

func otlpDownload(q *request) error {
	p, err := q.export(store.Export{NoTimes: q.choice("timestamps", "", "0", "1") == "0"})
	if err != nil {
		return err
	}
	b, err := new(pprofile.JSONMarshaler).MarshalProfiles(p)
	if err != nil {
		return err
	}
	q.attach("application/json; charset=utf-8", "profile.otlp.json")
	_, _ = q.w.Write(b) // whoever asked may be gone
	return nil
}

// anyDownload chooses by what the request accepts.
func anyDownload(q *request) error {
	q.w.Header().Add("Vary", "Accept")
	for accept := range strings.SplitSeq(strings.Join(q.r.Header.Values("Accept"), ","), ",") {
		kind, _, _ := mime.ParseMediaType(accept)
		switch kind {
		case "text/plain":
			return foldedDownload(q)
		case "application/vnd.speedscope+json":
			return speedscopeDownload(q)
		case "application/json":
			return otlpDownload(q)
		case "application/octet-stream", "application/vnd.google.protobuf+gzip", "application/gzip", "*/*", "":
			return pprofDownload(q)
		}
	}
	return &failure{http.StatusNotAcceptable, "none of the types in Accept can be had: application/vnd.google.protobuf+gzip (pprof), " +
		"text/plain (folded stacks), application/json (OTLP), application/vnd.speedscope+json"}
}
