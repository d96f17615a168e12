package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// payload makes OTLP profiles for tests.
type payload struct {
	pprofile.Profiles
	strings, locations, stacks, attrs, mappings map[string]int32
}

func newPayload() *payload {
	p := &payload{pprofile.NewProfiles(), map[string]int32{"": 0}, map[string]int32{}, map[string]int32{"": 0}, map[string]int32{}, map[string]int32{"": 0}}
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

func (p *payload) attr(key string, value any) int32 {
	id := fmt.Sprint(key, "=", value)
	i, ok := p.attrs[id]
	if !ok {
		i = int32(p.Dictionary().AttributeTable().Len())
		kv := p.Dictionary().AttributeTable().AppendEmpty()
		kv.SetKeyStrindex(p.string(key))
		if err := kv.Value().FromRaw(value); err != nil {
			panic(err)
		}
		p.attrs[id] = i
	}
	return i
}

func (p *payload) mapping(file string) int32 {
	i, ok := p.mappings[file]
	if !ok {
		i = int32(p.Dictionary().MappingTable().Len())
		m := p.Dictionary().MappingTable().AppendEmpty()
		m.SetFilenameStrindex(p.string(file))
		m.AttributeIndices().Append(p.attr("process.executable.build_id.htlhash", fmt.Sprintf("%032x", i)))
		p.mappings[file] = i
	}
	return i
}

// location reads "name", "outer<inner" for inlined calls, "name@type", "name:line", or "+0x10 file" for code without a name.
func (p *payload) location(text string) int32 {
	i, ok := p.locations[text]
	if ok {
		return i
	}
	i = int32(p.Dictionary().LocationTable().Len())
	l := p.Dictionary().LocationTable().AppendEmpty()
	l.SetAddress(uint64(0x1000 + 16*i))
	name, kind, _ := strings.Cut(text, "@")
	if kind == "" {
		kind = "native"
	}
	l.AttributeIndices().Append(p.attr("profile.frame.type", kind))
	l.SetMappingIndex(p.mapping("/usr/bin/prog"))
	p.locations[text] = i
	if strings.HasPrefix(name, "+") {
		return i
	}
	names := strings.Split(name, "<")
	slices.Reverse(names)
	for _, n := range names {
		n, number, _ := strings.Cut(n, ":")
		f := p.Dictionary().FunctionTable().AppendEmpty()
		f.SetNameStrindex(p.string(n))
		f.SetFilenameStrindex(p.string(n + ".c"))
		line := l.Lines().AppendEmpty()
		line.SetFunctionIndex(int32(p.Dictionary().FunctionTable().Len() - 1))
		if number != "" {
			var at int64
			fmt.Sscan(number, &at)
			line.SetLine(at)
		}
	}
	return i
}

// stack reads locations, outermost first, with spaces between.
func (p *payload) stack(text string) int32 {
	i, ok := p.stacks[text]
	if !ok {
		i = int32(p.Dictionary().StackTable().Len())
		st := p.Dictionary().StackTable().AppendEmpty()
		list := strings.Fields(text)
		slices.Reverse(list)
		for _, l := range list {
			st.LocationIndices().Append(p.location(l))
		}
		p.stacks[text] = i
	}
	return i
}

// process adds an on-CPU profile of a process.
func (p *payload) process(name string, pid int64) pprofile.Profile {
	r := p.ResourceProfiles().AppendEmpty()
	r.Resource().Attributes().PutStr("process.executable.name", name)
	r.Resource().Attributes().PutInt("process.pid", pid)
	r.Resource().Attributes().PutStr("process.creation.time", "2026-01-02T03:04:05Z")
	r.SetSchemaUrl("https://opentelemetry.io/schemas/1.44.0")
	sp := r.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName("test")
	pr := sp.Profiles().AppendEmpty()
	pr.SampleType().SetTypeStrindex(p.string("samples"))
	pr.SampleType().SetUnitStrindex(p.string("count"))
	pr.PeriodType().SetTypeStrindex(p.string("cpu"))
	pr.PeriodType().SetUnitStrindex(p.string("nanoseconds"))
	pr.SetPeriod(20e6)
	pr.SetTime(pcommon.NewTimestampFromTime(epoch))
	pr.SetDurationNano(uint64(10 * time.Second))
	return pr
}

var epoch = time.Unix(1_700_000_000, 0)

// sample adds a stack that was seen at times, in ms after epoch.
func (p *payload) sample(pr pprofile.Profile, stack, thread string, times ...int) pprofile.Sample {
	s := pr.Samples().AppendEmpty()
	s.SetStackIndex(p.stack(stack))
	if thread != "" {
		s.AttributeIndices().Append(p.attr("thread.name", thread))
	}
	for _, t := range times {
		s.TimestampsUnixNano().Append(uint64(epoch.UnixNano() + int64(t)*1e6))
	}
	return s
}

func times(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 100 * i
	}
	return out
}

func twoProcesses() *payload {
	p := newPayload()
	a := p.process("web", 1)
	p.sample(a, "main serve parse", "worker", times(60)...)
	p.sample(a, "main serve write@kernel", "worker", times(30)...)
	p.sample(a, "main serve parse serve parse", "other", times(10)...)
	b := p.process("db", 2)
	p.sample(b, "main query<scan", "", times(50)...)
	return p
}

// randomPayload is a host that changes a little with time.
func randomPayload(r *rand.Rand, at, stacks, depth int) *payload {
	p := newPayload()
	for pid := range 1 + r.IntN(4) {
		pr := p.process(fmt.Sprint("p", pid), int64(pid))
		for range stacks {
			names := make([]string, 1+r.IntN(depth))
			for i := range names {
				names[i] = fmt.Sprint("f", i, "_", r.IntN(3), "_", at/50)
			}
			p.sample(pr, strings.Join(names, " "), fmt.Sprint("t", r.IntN(3)), at*1000+r.IntN(1000))
		}
	}
	return p
}
