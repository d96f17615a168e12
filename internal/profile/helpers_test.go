package profile

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/profile/conformance"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// t0 is the begin of the windows in tests.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func onCPU() Origin { return OnCPU(time.Second / 20) }

func newResource(pid int) *Resource {
	return &Resource{
		PID: pid, CreationTime: t0.Add(-time.Hour).Add(time.Duration(pid)), ExecutableName: "server",
		ExecutablePath: "/usr/bin/server", Command: "server", ContainerID: fmt.Sprintf("%064d", pid),
	}
}

func newMapping(i int) *Mapping {
	m := &Mapping{
		Start: 0x1000, Limit: 0x200000, Offset: 0x1000, File: fmt.Sprintf("/usr/lib/lib%d.so", i),
		BuildIDGNU: fmt.Sprintf("%040x", i), HTLHash: fmt.Sprintf("%032x", i),
	}
	if i%3 == 1 {
		m.BuildIDGo = fmt.Sprintf("go%d/x/y", i)
	}
	return m
}

// world makes random samples from a limited stock, so that stacks and names repeat.
type world struct {
	rnd       *rand.Rand
	resources []*Resource
	mappings  []*Mapping
	symbols   []*Symbol
	stacks    [][]Location
	origins   []Origin
}

func newWorld(seed uint64, processes, stacks, depth int) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1))}
	for i := range processes {
		w.resources = append(w.resources, newResource(100+i))
	}
	for i := range 10 {
		w.mappings = append(w.mappings, newMapping(i))
	}
	w.mappings = append(w.mappings, &Mapping{File: "[kernel.kallsyms]", BuildIDGNU: "ab"}, // no range
		&Mapping{Start: 1, Limit: 0x100, File: "/gone"}, // no build id
		&Mapping{Start: 0x9000, Limit: 0x9000, File: "/odd", HTLHash: fmt.Sprintf("%032x", 77)},
		newMapping(3)) // equal to another
	for i := range 50 {
		lines := []unwind.Line{{Function: unwind.Function{Name: fmt.Sprintf("py_%d", i%40), File: "a.py", StartLine: i}, Line: i}}
		w.symbols = append(w.symbols, &Symbol{Lines: lines})
	}
	types := []FrameType{"", FrameNative, FrameGo, FrameKernel, FrameRust}
	for range stacks {
		stack := make([]Location, w.rnd.IntN(depth+1))
		for i := range stack {
			l := Location{Type: types[w.rnd.IntN(len(types))], Address: uint64(0x1000 + w.rnd.IntN(0x4000)), Guessed: w.rnd.IntN(10) == 0}
			switch w.rnd.IntN(5) {
			case 0:
				l.Type, l.Symbol = FramePython, w.symbols[w.rnd.IntN(len(w.symbols))]
			case 1:
			default:
				l.Mapping = w.mappings[w.rnd.IntN(len(w.mappings))]
			}
			stack[i] = l
		}
		w.stacks = append(w.stacks, stack)
	}
	w.origins = []Origin{onCPU(), OffCPU(), {Type: "wall", Unit: "nanoseconds", PeriodType: "wall", PeriodUnit: "nanoseconds", Period: 100, Shape: ShapeSum}}
	return w
}

func (w *world) sample() (Origin, *Sample) {
	o := w.origins[w.rnd.IntN(len(w.origins))]
	s := &Sample{
		Resource: w.resources[w.rnd.IntN(len(w.resources))], ThreadID: w.rnd.IntN(5),
		ThreadName: []string{"main", "worker", "", "bad\xff", "bad\xfe", "thread-\u00e9"}[w.rnd.IntN(6)],
		Time:       uint64(t0.UnixNano()) + uint64(w.rnd.IntN(6e9)), Value: int64(w.rnd.IntN(1e6)),
		Stack: w.stacks[w.rnd.IntN(len(w.stacks))],
	}
	if w.rnd.IntN(8) == 0 {
		s.StopReason = unwind.StopReason(w.rnd.IntN(int(unwind.StopReasons))).String()
	}
	if w.rnd.IntN(8) == 0 {
		s.Link.TraceID[0], s.Link.SpanID[0] = byte(w.rnd.IntN(4)), byte(w.rnd.IntN(4))
	}
	a, b := Attribute{"label.a", String("x")}, Attribute{"label.b", Int(int64(w.rnd.IntN(2)))}
	switch w.rnd.IntN(16) {
	case 0:
		s.Attributes = []Attribute{a, b}
	case 1:
		s.Attributes = []Attribute{b, a, {"thread.name", String("no")}, {"", Bool(true)}, {"label.c", Bool(true)}}
	}
	return o, s
}

// resolve symbolizes some of the native locations, some with inlined calls.
func resolve(dst []unwind.Line, l *Location) []unwind.Line {
	l.InFunction, l.Into = l.Address%2 == 0, uint32(l.Address%256)
	for i := range l.Address % 4 {
		f := unwind.Function{Name: fmt.Sprintf("fn%d\xff", l.Address/7), SystemName: fmt.Sprintf("_Zfn%d", l.Address/7)}
		if l.Address%3 == 0 {
			f.File, f.StartLine = "main.cc", int(l.Address)
		}
		if l.Address%11 == 0 {
			f = unwind.Function{StartLine: 1}
		}
		dst = append(dst, unwind.Line{Function: f, Line: int(l.Address)*int(i) - 1, Column: int(i)})
	}
	return dst
}

// marshal marshals a copy, so that p stays as it is.
func marshal(t testing.TB, p pprofile.Profiles) []byte {
	t.Helper()
	c := pprofile.NewProfiles()
	p.CopyTo(c)
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkPayloads checks everything that must hold of a flush; it returns the number of samples in the payloads.
func checkPayloads(t testing.TB, payloads []Payload, limit int) (samples int) {
	t.Helper()
	for i, p := range payloads {
		if err := conformance.Check(p.Profiles); err != nil {
			t.Fatalf("payload %d: %v", i, err)
		}
		b := marshal(t, p.Profiles)
		if err := conformance.CheckBytes(b); err != nil {
			t.Fatalf("payload %d, marshalled: %v", i, err)
		}
		if size := (&pprofile.ProtoMarshaler{}).ProfilesSize(p.Profiles); size > limit || len(b) > limit {
			t.Fatalf("payload %d of %d has %d bytes, marshalled %d; the limit is %d", i, len(payloads), size, len(b), limit)
		}
		if p.Samples == 0 {
			t.Fatalf("payload %d is empty", i)
		}
		samples += p.Samples
	}
	return samples
}
