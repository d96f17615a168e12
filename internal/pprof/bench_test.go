package pprof

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// benchPayload has 100,000 samples in 50 processes with 20 threads each; their 10,000 stacks are 30 frames deep, from a call
// tree of 20,000 locations.
func benchPayload(b *testing.B) pprofile.Profiles {
	p := newPayload(newWorld(b, 1))
	rnd := rand.New(rand.NewPCG(1, 2))
	texts := p.dict.StringTable()
	text := func(s string) int32 {
		texts.Append(s)
		return int32(texts.Len() - 1)
	}
	attribute := func(key int32, set func(pcommon.Value)) int32 {
		a := p.dict.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(key)
		set(a.Value())
		return int32(p.dict.AttributeTable().Len() - 1)
	}
	frameType := attribute(text(attrFrameType), func(v pcommon.Value) { v.SetStr("native") })
	buildID := text(attrBuildIDGNU)
	for i := range 100 {
		m := p.dict.MappingTable().AppendEmpty()
		m.SetMemoryLimit(1 << 30)
		m.SetFilenameStrindex(text(fmt.Sprint("/usr/lib/lib", i)))
		m.AttributeIndices().Append(attribute(buildID, func(v pcommon.Value) { v.SetStr(fmt.Sprintf("%040x", i)) }))
	}
	for i := range 20_000 {
		f := p.dict.FunctionTable().AppendEmpty()
		f.SetNameStrindex(text(fmt.Sprint("namespace::Class::method_", i)))
		f.SetFilenameStrindex(text(fmt.Sprint("/src/file", i, ".cc")))
		l := p.dict.LocationTable().AppendEmpty()
		l.SetMappingIndex(int32(1 + i%100))
		l.SetAddress(uint64(16 * i))
		l.Lines().AppendEmpty().SetFunctionIndex(int32(1 + i))
		l.AttributeIndices().Append(frameType)
	}
	for range 10_000 {
		s := p.dict.StackTable().AppendEmpty().LocationIndices()
		for range 30 {
			s.Append(int32(1 + rnd.IntN(20_000)))
		}
	}
	var threads []int32
	name, id := text("thread.name"), text("thread.id")
	for i := range 20 {
		threads = append(threads, attribute(name, func(v pcommon.Value) { v.SetStr(fmt.Sprint("worker-", i)) }),
			attribute(id, func(v pcommon.Value) { v.SetInt(int64(i + 1)) }))
	}
	samples, count, cpu, nanoseconds := text("samples"), text("count"), text("cpu"), text(unitNanoseconds)
	for pid := range 50 {
		rp := p.out.ResourceProfiles().AppendEmpty()
		for _, key := range []string{
			"process.executable.name", "process.executable.path", "container.id", "service.name", "process.command",
		} {
			rp.Resource().Attributes().PutStr(key, fmt.Sprint(key, pid))
		}
		rp.Resource().Attributes().PutInt("process.pid", int64(pid+1))
		v := rp.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
		v.SampleType().SetTypeStrindex(samples)
		v.SampleType().SetUnitStrindex(count)
		v.PeriodType().SetTypeStrindex(cpu)
		v.PeriodType().SetUnitStrindex(nanoseconds)
		v.SetPeriod(50_000_000)
		v.SetTime(testTime)
		v.SetDurationNano(5e9)
		for i := range 2000 {
			s := v.Samples().AppendEmpty()
			s.SetStackIndex(int32(1 + rnd.IntN(10_000)))
			thread := threads[2*(i%20):]
			s.AttributeIndices().Append(thread[0], thread[1])
			s.TimestampsUnixNano().Append(uint64(testTime + i*2_000_000))
		}
	}
	return p.out
}

// BenchmarkFromOTLP sums 100,000 samples; BenchmarkFromOTLPTimestamps keeps them apart.
func BenchmarkFromOTLP(b *testing.B)           { benchFromOTLP(b, FromOptions{}) }
func BenchmarkFromOTLPTimestamps(b *testing.B) { benchFromOTLP(b, FromOptions{Timestamps: true}) }

func benchFromOTLP(b *testing.B, opt FromOptions) {
	p := benchPayload(b)
	b.ReportAllocs()
	for b.Loop() {
		if out, err := FromOTLP(p, opt); err != nil || len(out) != 1 {
			b.Fatal(err)
		}
	}
}

// BenchmarkToOTLP takes the 100,000 samples with timestamps back, as they are read from a file.
func BenchmarkToOTLP(b *testing.B) {
	profiles, err := FromOTLP(benchPayload(b), FromOptions{Timestamps: true})
	if err != nil {
		b.Fatal(err)
	}
	p := profiles[0].Copy() // writes and reads it: every sample has labels of its own
	if len(p.Sample) != 100_000 {
		b.Fatal(len(p.Sample))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ToOTLP(p, ToOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
