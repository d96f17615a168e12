package pprof

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// render writes a value so that different ones differ; it knows nothing of the package's own texts.
func render(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		var all []string
		for _, e := range v.Slice().All() {
			all = append(all, render(e))
		}
		return fmt.Sprintf("list%q", all)
	case pcommon.ValueTypeMap:
		all := map[string]string{}
		for k, e := range v.Map().All() {
			all[k] = render(e)
		}
		return fmt.Sprintf("map%q", all) // fmt sorts keys
	case pcommon.ValueTypeBytes:
		return "bytes" + base64.StdEncoding.EncodeToString(v.Bytes().AsRaw())
	case pcommon.ValueTypeDouble:
		if math.IsNaN(v.Double()) {
			return "double NaN"
		}
		return fmt.Sprintf("double %x", math.Float64bits(v.Double()))
	default:
		return fmt.Sprintf("%s %q", v.Type(), v.AsString())
	}
}

// facts are what a payload says in the normal form: for each sample, in words, the sum of its values, and that it is there.
type facts struct {
	values map[string]int64
	there  map[string]bool
}

// otlpFacts brings payloads into the normal form of the package's comment. With times each timestamp is a sample.
func otlpFacts(times bool, payloads ...pprofile.Profiles) facts {
	f := facts{map[string]int64{}, map[string]bool{}}
	for _, p := range payloads {
		f.add(times, p)
	}
	maps.DeleteFunc(f.values, func(_ string, v int64) bool { return v == 0 })
	return f
}

func (f facts) add(times bool, p pprofile.Profiles) {
	r := reader{p.Dictionary()}
	for _, rp := range p.ResourceProfiles().All() {
		resource := r.attributeMap(rp.Resource().Attributes()) + rp.SchemaUrl()
		for _, sp := range rp.ScopeProfiles().All() {
			scope := r.attributeMap(sp.Scope().Attributes()) + sp.Scope().Name() + "|" + sp.Scope().Version() + "|" + sp.SchemaUrl()
			for _, v := range sp.Profiles().All() {
				attributes := r.attributes(v.AttributeIndices(), attrWindow, attrSampleType, attrColumn)
				period := fmt.Sprintf("period %s %d", r.valueType(v.PeriodType()), v.Period())
				kind := "type " + r.valueType(v.SampleType())
				for _, list := range []string{attrSampleType, attrColumn} {
					kind += r.only(v.AttributeIndices(), list)
				}
				for _, s := range v.Samples().All() {
					what := strings.Join([]string{resource, scope, attributes, period, r.sample(s)}, "\n")
					f.sample(what, kind, s, times)
				}
			}
		}
	}
}

func (f facts) sample(what, kind string, s pprofile.Sample, times bool) {
	n := max(s.Values().Len(), s.TimestampsUnixNano().Len())
	for i := range n {
		value, time := int64(1), ""
		if s.Values().Len() > 0 {
			value = s.Values().At(i)
		}
		if times && s.TimestampsUnixNano().Len() > 0 {
			time = fmt.Sprint("\nat ", s.TimestampsUnixNano().At(i))
		}
		f.values[what+time+"\n"+kind] += value
		f.there[what+time] = true
	}
}

// reader puts what is in a dictionary into words.
type reader struct{ t pprofile.ProfilesDictionary }

func (r reader) text(i int32) string { return r.t.StringTable().At(int(i)) }

func (r reader) valueType(v pprofile.ValueType) string {
	return r.text(v.TypeStrindex()) + "/" + r.text(v.UnitStrindex())
}

func (r reader) attributeMap(m pcommon.Map) string {
	var all []string
	for k, v := range m.All() {
		if k != attrTypeOrder {
			all = append(all, fmt.Sprintf("%q=%s", k, render(v)))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func (r reader) attributes(list pcommon.Int32Slice, without ...string) string {
	var all []string
	for _, i := range list.All() {
		a := r.t.AttributeTable().At(int(i))
		key := r.text(a.KeyStrindex())
		if !slices.Contains(without, key) {
			all = append(all, fmt.Sprintf("%q=%s %q", key, render(a.Value()), r.text(a.UnitStrindex())))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// only returns the attribute with one key, if it is there.
func (r reader) only(list pcommon.Int32Slice, key string) string {
	for _, i := range list.All() {
		if a := r.t.AttributeTable().At(int(i)); r.text(a.KeyStrindex()) == key {
			return render(a.Value())
		}
	}
	return ""
}

func (r reader) sample(s pprofile.Sample) string {
	l := r.t.LinkTable().At(int(s.LinkIndex()))
	lines := []string{r.attributes(s.AttributeIndices()), fmt.Sprintf("link %x %x", l.TraceID(), l.SpanID())}
	for _, i := range r.t.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
		lines = append(lines, r.location(int(i)))
	}
	return strings.Join(lines, "\n")
}

func (r reader) location(i int) string {
	l := r.t.LocationTable().At(i)
	m := r.t.MappingTable().At(int(l.MappingIndex()))
	s := fmt.Sprintf("%x %v in %x-%x+%x %q %v:", l.Address(), r.attributes(l.AttributeIndices()), m.MemoryStart(),
		m.MemoryLimit(), m.FileOffset(), r.text(m.FilenameStrindex()),
		r.attributes(m.AttributeIndices(), attrHasFunctions, attrClaimsFunctions))
	s += fmt.Sprint(strings.Contains(r.attributes(m.AttributeIndices()), "has_functions"))
	for _, n := range l.Lines().All() {
		f := r.t.FunctionTable().At(int(n.FunctionIndex()))
		s += fmt.Sprintf(" %q/%q/%q/%d:%d:%d", r.text(f.NameStrindex()), r.text(f.SystemNameStrindex()),
			r.text(f.FilenameStrindex()), f.StartLine(), n.Line(), n.Column())
	}
	return s
}

func sameFacts(t *testing.T, got, want facts) {
	t.Helper()
	if s := difference(got.values, want.values); s != "" {
		t.Fatalf("values differ:\n%s", s)
	}
	if s := difference(got.there, want.there); s != "" {
		t.Fatalf("samples differ:\n%s", s)
	}
}

func difference[V comparable](got, want map[string]V) string {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok || v != want[k] {
			near := ""
			for other := range got {
				if _, known := want[other]; !known && (near == "" || common(other, k) > common(near, k)) {
					near = other
				}
			}
			return fmt.Sprintf("%v (there %v) instead of %v:\n%s\nperhaps:\n%s", v, ok, want[k], k, near)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%v that should not be there:\n%s", got[k], k)
		}
	}
	return ""
}

// common counts the lines that two texts have in common.
func common(a, b string) (n int) {
	lines := strings.Split(b, "\n")
	for _, l := range strings.Split(a, "\n") {
		if slices.Contains(lines, l) {
			n++
		}
	}
	return n
}

// pprofFacts brings a pprof profile into the normal form: its head, and for each sample the sum of its values.
func pprofFacts(p *profile.Profile) (head string, samples map[string]string) {
	mend := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	var b strings.Builder
	for _, t := range p.SampleType {
		fmt.Fprintf(&b, "%s/%s ", mend(t.Type), mend(t.Unit))
	}
	fmt.Fprintf(&b, "\n%s|%s|%s|%s|", mend(p.DefaultSampleType), mend(p.DocURL), mend(p.DropFrames), mend(p.KeepFrames))
	var comments []string
	for _, c := range p.Comments {
		if !slices.Contains(comments, mend(c)) {
			comments = append(comments, mend(c))
		}
	}
	fmt.Fprintf(&b, "%q %d %d %d", comments, p.TimeNanos, p.DurationNanos, p.Period)
	if t := p.PeriodType; t != nil {
		fmt.Fprintf(&b, " %s/%s", mend(t.Type), mend(t.Unit))
	} else {
		b.WriteString(" /")
	}
	sums := map[string][]int64{}
	for _, s := range p.Sample {
		var key strings.Builder
		labels := map[string][]string{}
		for k, v := range s.Label {
			labels[mend(k)] = append(labels[mend(k)], v...)
		}
		for k, v := range s.NumLabel {
			for i, n := range v {
				unit := ""
				if len(s.NumUnit[k]) > 0 {
					unit = mend(s.NumUnit[k][i])
				}
				if k == labelTimestamp && len(v) == 1 && n > 0 && unit == "" && len(s.Label[k]) == 0 {
					unit = unitNanoseconds
				}
				labels[mend(k)] = append(labels[mend(k)], fmt.Sprintf("number %d %s", n, unit))
			}
		}
		for k := range labels {
			slices.Sort(labels[k]) // the order does not count
		}
		key.WriteString(mend(fmt.Sprintf("%q\n", mendAll(labels))))
		for _, l := range s.Location {
			key.WriteString(locationFacts(l, mend))
		}
		old := sums[key.String()]
		if old == nil {
			old = make([]int64, len(s.Value))
			sums[key.String()] = old
		}
		for i, v := range s.Value {
			old[i] += v
		}
	}
	samples = map[string]string{}
	for k, v := range sums {
		samples[k] = fmt.Sprint(v)
	}
	return b.String(), samples
}

func mendAll(labels map[string][]string) map[string][]string {
	for _, v := range labels {
		for i := range v {
			v[i] = strings.ToValidUTF8(v[i], "\uFFFD")
		}
	}
	return labels
}

// mainFacts says which of the mappings that samples need is the first: pprof takes it for the main binary's. ok is false if
// that is hard to say, as the mapping may be there only for what it carries.
func mainFacts(p *profile.Profile) (main profile.Mapping, ok bool) {
	needed := map[*profile.Mapping]bool{}
	for _, s := range p.Sample {
		for _, l := range s.Location {
			needed[l.Mapping] = true
		}
	}
	for i, m := range p.Mapping {
		if !needed[m] {
			continue
		}
		if main = mappingFacts(m); main != (profile.Mapping{}) {
			return main, true
		}
		if i+1 < len(p.Mapping) && strings.HasPrefix(p.Mapping[i+1].File, carrier) {
			return main, false
		}
	}
	return main, true
}

func mappingFacts(m *profile.Mapping) (facts profile.Mapping) {
	if m == nil {
		return facts
	}
	mend := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	return profile.Mapping{
		Start: m.Start, Limit: m.Limit, Offset: m.Offset, File: mend(m.File), BuildID: mend(m.BuildID),
		HasFunctions: m.HasFunctions, HasFilenames: m.HasFilenames, HasLineNumbers: m.HasLineNumbers,
		HasInlineFrames: m.HasInlineFrames,
	}
}

func locationFacts(l *profile.Location, mend func(string) string) string {
	s := fmt.Sprintf("%x %v %+v", l.Address, l.IsFolded, mappingFacts(l.Mapping))
	for _, n := range l.Line {
		if f := n.Function; f.Name != "" || f.SystemName != "" || f.Filename != "" {
			s += fmt.Sprintf(" %q/%q/%q/%d:%d:%d", mend(f.Name), mend(f.SystemName), mend(f.Filename), max(f.StartLine, 0),
				max(n.Line, 0), max(n.Column, 0))
		}
	}
	return s + "\n"
}

func samePprof(t *testing.T, got, want *profile.Profile) {
	t.Helper()
	gotHead, gotSamples := pprofFacts(got)
	wantHead, wantSamples := pprofFacts(want)
	if gotHead != wantHead {
		t.Fatalf("head is\n%s\nnot\n%s", gotHead, wantHead)
	}
	if s := difference(gotSamples, wantSamples); s != "" {
		t.Fatalf("samples differ:\n%s", s)
	}
	if main, ok := mainFacts(want); ok {
		if first, _ := mainFacts(got); first != main {
			t.Fatalf("the first mapping is %+v, not %+v", first, main)
		}
	}
}

// usual is how ToOTLP is called where a profile may lack a time.
func usual() ToOptions { return ToOptions{Time: ownTime()} }
