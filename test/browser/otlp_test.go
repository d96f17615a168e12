package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// payload builds OTLP profiles as a producer elsewhere would send them.
type payload struct {
	pprofile.Profiles
	strings, functions map[string]int32
	at                 time.Time
}

func newPayload(at time.Time) *payload {
	p := &payload{pprofile.NewProfiles(), map[string]int32{"": 0}, map[string]int32{}, at}
	d := p.Dictionary()
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	return p
}

func (p *payload) string(s string) int32 {
	i, ok := p.strings[s]
	if !ok {
		i = int32(p.Dictionary().StringTable().Len())
		p.Dictionary().StringTable().Append(s)
		p.strings[s] = i
	}
	return i
}

func (p *payload) attribute(key, value string) int32 {
	a := p.Dictionary().AttributeTable().AppendEmpty()
	a.SetKeyStrindex(p.string(key))
	a.Value().SetStr(value)
	return int32(p.Dictionary().AttributeTable().Len() - 1)
}

// profile adds a CPU profile of ten seconds from p.at on, of a process.
func (p *payload) profile(process string, labels map[string]string) pprofile.Profile {
	r := p.ResourceProfiles().AppendEmpty()
	r.Resource().Attributes().PutStr("process.executable.name", process)
	r.Resource().Attributes().PutInt("process.pid", 4711)
	for k, v := range labels {
		r.Resource().Attributes().PutStr(k, v)
	}
	pr := r.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	pr.SampleType().SetTypeStrindex(p.string("samples"))
	pr.SampleType().SetUnitStrindex(p.string("count"))
	pr.PeriodType().SetTypeStrindex(p.string("cpu"))
	pr.PeriodType().SetUnitStrindex(p.string("nanoseconds"))
	pr.SetPeriod(1e6)
	pr.SetTime(pcommon.NewTimestampFromTime(p.at))
	pr.SetDurationNano(uint64(10 * time.Second))
	return pr
}

// location is a function's, in a file and a mapping of the same name.
func (p *payload) location(function, kind string) int32 {
	i, ok := p.functions[function]
	if ok {
		return i
	}
	d := p.Dictionary()
	f := d.FunctionTable().AppendEmpty()
	f.SetNameStrindex(p.string(function))
	f.SetSystemNameStrindex(p.string("_" + function))
	f.SetFilenameStrindex(p.string(function + ".c"))
	m := d.MappingTable().AppendEmpty()
	m.SetFilenameStrindex(p.string(function))
	l := d.LocationTable().AppendEmpty()
	l.SetMappingIndex(int32(d.MappingTable().Len() - 1))
	l.AttributeIndices().Append(p.attribute("profile.frame.type", kind))
	l.Lines().AppendEmpty().SetFunctionIndex(int32(d.FunctionTable().Len() - 1))
	i = int32(d.LocationTable().Len() - 1)
	p.functions[function] = i
	return i
}

// sample adds a stack of locations, the outermost first, with a value at a time of the profile.
func (p *payload) sample(pr pprofile.Profile, locations []int32, value int64, at time.Duration, attributes ...int32) {
	st := p.Dictionary().StackTable().AppendEmpty()
	for i := len(locations) - 1; i >= 0; i-- {
		st.LocationIndices().Append(locations[i])
	}
	s := pr.Samples().AppendEmpty()
	s.SetStackIndex(int32(p.Dictionary().StackTable().Len() - 1))
	s.Values().Append(value)
	s.TimestampsUnixNano().Append(uint64(p.at.Add(at).UnixNano()))
	s.AttributeIndices().Append(attributes...)
}

func (p *payload) marshal(t *testing.T) []byte {
	t.Helper()
	text, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p.Profiles)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// send sends a payload to the collector's OTLP receiver.
func (c *collector) send(text []byte) error {
	r, err := http.Post(c.otlp+"/v1development/profiles", "application/x-protobuf", bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("sending profiles: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading the answer to profiles: %w", err)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("sending profiles: %s: %s", r.Status, answer)
	}
	return nil
}
