package pprof

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tool runs go tool pprof on a profile.
func tool(t *testing.T, p *profile.Profile, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile.pb.gz")
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", slices.Concat([]string{"tool", "pprof", "-symbolize=none"}, args, []string{file})...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return string(out)
}

// shares returns the flat values of go tool pprof -top by function.
func shares(t *testing.T, p *profile.Profile, column int) map[string]int64 {
	t.Helper()
	// A unit of its own keeps pprof from scaling the numbers.
	p = p.Copy()
	p.SampleType[column].Unit = "things"
	out := tool(t, p, "-top", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0", fmt.Sprint("-sample_index=", column))
	line := regexp.MustCompile(`^ *(-?\d+)(?:things)? +\S+% +\S+% +\S+ +\S+% +(.*)$`)
	got := map[string]int64{}
	for s := range strings.Lines(out) {
		if m := line.FindStringSubmatch(strings.TrimSuffix(s, "\n")); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got[strings.TrimSuffix(m[2], " (inline)")] += n
		}
	}
	maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 })
	if len(got) == 0 {
		t.Fatalf("pprof says\n%s", out)
	}
	return got
}

// leaves returns the values of a payload by the function of the leaf, for one sample type.
func leaves(p pprofile.Profiles, kind string) map[string]int64 {
	r := reader{p.Dictionary()}
	want := map[string]int64{}
	for _, rp := range p.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, v := range sp.Profiles().All() {
				if r.text(v.SampleType().TypeStrindex()) != kind {
					continue
				}
				for _, s := range v.Samples().All() {
					stack := r.t.StackTable().At(int(s.StackIndex())).LocationIndices()
					if stack.Len() == 0 {
						continue
					}
					lines := r.t.LocationTable().At(int(stack.At(0))).Lines()
					name := r.text(r.t.FunctionTable().At(int(lines.At(0).FunctionIndex())).NameStrindex())
					n := int64(s.TimestampsUnixNano().Len())
					if s.Values().Len() > 0 {
						n = 0
						for _, value := range s.Values().All() {
							n += value
						}
					}
					want[name] += n
				}
			}
		}
	}
	return want
}

func TestGoldenPayload(t *testing.T) {
	for name, opt := range map[string]FromOptions{"summed": {}, "timestamps": {Timestamps: true}} {
		t.Run(name, func(t *testing.T) {
			p := readGolden(t)
			p.MarkReadOnly() // as pipelines share payloads
			profiles, err := FromOTLP(p, opt)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, v := range profiles {
				v = throughFile(t, v)
				for line := range strings.Lines(v.String()) {
					if !strings.HasPrefix(line, "Time: ") { // in this machine's zone
						text.WriteString(line)
					}
				}
				fmt.Fprintf(&text, "From %d for %d ns\n\n", v.TimeNanos, v.DurationNanos)
			}
			checkGolden(t, name+".txt", text.String())
			again := back(t, profiles)
			sameFacts(t, otlpFacts(opt.Timestamps, again...), otlpFacts(opt.Timestamps, p))
			for _, v := range again {
				if err := conformance.Check(v); opt.Timestamps && err != nil { // all rules: it is of processes, and has times
					t.Error(err)
				}
			}
		})
	}
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (see -update) is now\n%s", file, got)
	}
}

// TestTool: go tool pprof sees the shares that the payload has.
func TestTool(t *testing.T) {
	p := readGolden(t)
	profiles, err := FromOTLP(p, FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"samples", "off_cpu"} {
		if got, want := shares(t, profiles[i], 0), leaves(p, kind); !maps.Equal(got, want) {
			t.Errorf("%s: pprof shows %v, the payload has %v", kind, got, want)
		}
	}
	raw := tool(t, profiles[0], "-raw")
	for _, want := range []string{
		"PeriodType: cpu nanoseconds\nPeriod: 50000000\n", "samples/count", "          2: 1 2 3 5 6", "process.pid:[4711]",
		"thread.name:[worker-1]", "trace_id:[01020000000000000000000000000000]",
		"/usr/lib/lib1.so 0000000000000000000000000000000000000001", "outer a.go:9:0 s=8",
	} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %q in\n%s", want, raw)
		}
	}
	const one = "Showing nodes accounting for 1, 20.00% of 5 total" // the other sample of process 2 has no frames
	if out := tool(t, profiles[0], "-top", "-tagfocus=process.pid=2"); !strings.Contains(out, one) {
		t.Errorf("only process 2:\n%s", out)
	}
}

// TestToolShowsFrameTypes: code without a file has its type for a mapping, which pprof shows and matches.
func TestToolShowsFrameTypes(t *testing.T) {
	p := minimal(t)
	l := p.dict.LocationTable().AppendEmpty()
	l.SetAddress(0x7f0000001234)
	p.str(l.AttributeIndices(), attrFrameType, "jvm")
	p.dict.StackTable().At(1).LocationIndices().Append(2)
	profiles, err := FromOTLP(p.out, FromOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out := tool(t, profiles[0], "-top"); !strings.Contains(out, "[[jvm]]") {
		t.Errorf("%s", out)
	}
	if out := tool(t, profiles[0], "-top", `-ignore=\[jvm\]`); !strings.Contains(out, "Showing nodes accounting for 0") {
		t.Errorf("%s", out)
	}
}

//go:noinline
func work(until time.Time) (n int) {
	for time.Now().Before(until) {
		for i := range 10_000 {
			n += i * n
		}
	}
	return n
}

// cpuProfile takes a profile of this process at work, with labels. A busy machine may not let it work at once.
func cpuProfile(t *testing.T) *profile.Profile {
	t.Helper()
	labels := pprof.Labels("request", "a/b", "empty", "", "process.pid", "not a number")
	for range 20 {
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(500 * time.Millisecond)
		pprof.Do(context.Background(), labels, func(context.Context) { work(until) })
		pprof.StopCPUProfile()
		p, err := profile.Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Sample) > 0 {
			return p
		}
	}
	t.Fatal("no samples in 10 s")
	return nil
}

// heapProfile takes one of what this process allocated.
func heapProfile(t *testing.T, keep *[][]byte) *profile.Profile {
	t.Helper()
	for range 100 {
		*keep = append(*keep, make([]byte, 1<<20))
	}
	runtime.GC()
	var b bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRealProfiles: what the Go runtime writes comes back so that pprof prints the same.
func TestRealProfiles(t *testing.T) {
	var keep [][]byte
	for name, p := range map[string]*profile.Profile{"CPU": cpuProfile(t), "heap": heapProfile(t, &keep)} {
		t.Run(name, func(t *testing.T) {
			if !comesBack(t, p) {
				t.Fatal("it is not taken")
			}
			out, err := ToOTLP(p, ToOptions{})
			if err != nil {
				t.Fatal(err)
			}
			profiles, err := FromOTLP(out, FromOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := profile.Merge([]*profile.Profile{profiles[0], p}); err != nil {
				t.Errorf("pprof does not merge them: %v", err)
			}
			for i, kind := range p.SampleType {
				args := []string{"-top", "-nodecount=100000", fmt.Sprint("-sample_index=", i)}
				if got, want := tool(t, profiles[0], args...), tool(t, p, args...); got != want {
					t.Errorf("%s was\n%s\nand is\n%s", kind.Type, want, got)
				}
			}
			r := reader{out.Dictionary()}
			first := firstProfile(out).SampleType()
			if got, want := r.text(first.TypeStrindex()), p.SampleType[len(p.SampleType)-1].Type; got != want {
				t.Errorf("the first profile is of %s, pprof's default is %s", got, want)
			}
		})
	}
	runtime.KeepAlive(keep)
}

// TestImported shows what becomes of a small pprof profile.
func TestImported(t *testing.T) {
	app := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x9000, File: "/bin/app", BuildID: "c0ffee", HasFunctions: true}
	plain := &profile.Mapping{ID: 2, Start: 0x10000, Limit: 0x20000, File: "/lib/plain.so"} // without build id
	inner := &profile.Function{ID: 1, Name: "inner", SystemName: "_Z5innerv", Filename: "main.cc", StartLine: 3}
	outer := &profile.Function{ID: 2, Name: "outer", Filename: "main.cc"}
	lines := []profile.Line{{Function: inner, Line: 4, Column: 5}, {Function: outer, Line: 9}}
	leaf := &profile.Location{ID: 1, Mapping: app, Address: 0x1234, Line: lines}
	root := &profile.Location{ID: 2, Mapping: plain, Address: 0x10010}
	stack := []*profile.Location{leaf, root}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "objects", Unit: "count"}, {Type: "space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 524288,
		TimeNanos: testTime, DurationNanos: 1e9, Comments: []string{"a comment"}, DocURL: "https://example.com/heap",
		Mapping: []*profile.Mapping{app, plain}, Function: []*profile.Function{inner, outer}, Location: stack,
		Sample: []*profile.Sample{
			{
				Location: stack, Value: []int64{2, 4096},
				NumLabel: map[string][]int64{"bytes": {2048}}, NumUnit: map[string][]string{"bytes": {"bytes"}},
			},
			{Location: stack[1:], Value: []int64{1, 0}, Label: map[string][]string{
				"service.name": {"web"}, "thread": {"a", "b"},
				labelTraceID: {"4bf92f3577b34da6a3ce929d0e0e4736"}, labelSpanID: {"00f067aa0ba902b7"},
			}},
		},
	}
	out, err := ToOTLP(p, ToOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (conformance.Checker{AnyResource: true}).Check(out); err != nil {
		t.Error(err)
	}
	comesBack(t, p)
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(out)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	checkGolden(t, "imported.json", indented.String())
}
