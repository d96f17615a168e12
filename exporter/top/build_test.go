package top

import (
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// payload builds a Profiles for tests, the plain way: every value gets an entry of its own in the tables.
type payload struct {
	p pprofile.Profiles
	d pprofile.ProfilesDictionary
}

func newPayload() *payload {
	p := pprofile.NewProfiles()
	b := &payload{p: p, d: p.Dictionary()}
	b.d.StringTable().Append("")
	b.d.AttributeTable().AppendEmpty()
	b.d.FunctionTable().AppendEmpty()
	b.d.MappingTable().AppendEmpty()
	b.d.LocationTable().AppendEmpty()
	b.d.StackTable().AppendEmpty()
	b.d.LinkTable().AppendEmpty()
	return b
}

func (b *payload) str(s string) int32 {
	b.d.StringTable().Append(s)
	return int32(b.d.StringTable().Len() - 1)
}

func (b *payload) attr(key string, value any) int32 {
	a := b.d.AttributeTable().AppendEmpty()
	a.SetKeyStrindex(b.str(key))
	if err := a.Value().FromRaw(value); err != nil {
		panic(err)
	}
	return int32(b.d.AttributeTable().Len() - 1)
}

// location returns one with a function if name is set, else one that is only an address.
func (b *payload) location(name, frameType, file string, address uint64) int32 {
	l := b.d.LocationTable().AppendEmpty()
	l.SetAddress(address)
	if frameType != "" {
		l.AttributeIndices().Append(b.attr(attrFrameType, frameType))
	}
	if file != "" {
		m := b.d.MappingTable().AppendEmpty()
		m.SetFilenameStrindex(b.str(file))
		l.SetMappingIndex(int32(b.d.MappingTable().Len() - 1))
	}
	if name != "" {
		f := b.d.FunctionTable().AppendEmpty()
		f.SetNameStrindex(b.str(name))
		l.Lines().AppendEmpty().SetFunctionIndex(int32(b.d.FunctionTable().Len() - 1))
	}
	return int32(b.d.LocationTable().Len() - 1)
}

func (b *payload) stack(locations ...int32) int32 {
	b.d.StackTable().AppendEmpty().LocationIndices().Append(locations...)
	return int32(b.d.StackTable().Len() - 1)
}

func (b *payload) resource(attributes map[string]any) pprofile.ScopeProfiles {
	r := b.p.ResourceProfiles().AppendEmpty()
	if err := r.Resource().Attributes().FromRaw(attributes); err != nil {
		panic(err)
	}
	return r.ScopeProfiles().AppendEmpty()
}

// onCPU adds a profile of samples that each stand for 20 ms, over 5 s.
func (b *payload) onCPU(s pprofile.ScopeProfiles) pprofile.Profile {
	p := b.profile(s, "samples", "count")
	p.PeriodType().SetTypeStrindex(b.str("cpu"))
	p.PeriodType().SetUnitStrindex(b.str("nanoseconds"))
	p.SetPeriod(20e6)
	return p
}

func (b *payload) profile(s pprofile.ScopeProfiles, name, unit string) pprofile.Profile {
	p := s.Profiles().AppendEmpty()
	p.SampleType().SetTypeStrindex(b.str(name))
	p.SampleType().SetUnitStrindex(b.str(unit))
	p.SetTime(1_000_000_000)
	p.SetDurationNano(5_000_000_000)
	return p
}

// events adds a sample that was seen n times.
func (b *payload) events(p pprofile.Profile, stack int32, n int, attributes ...int32) {
	s := p.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	s.AttributeIndices().Append(attributes...)
	for i := range n {
		s.TimestampsUnixNano().Append(uint64(p.Time()) + uint64(i))
	}
}

// value adds a sample with one value.
func (b *payload) value(p pprofile.Profile, stack int32, v int64, attributes ...int32) {
	s := p.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	s.AttributeIndices().Append(attributes...)
	s.Values().Append(v)
}

// typical is a payload of a host with several kinds of functions.
func typical() pprofile.Profiles {
	b := newPayload()
	read := b.location("vfs_read", "kernel", "", 0xffffffff81000000)
	hash := b.location("sha256_block", "native", "/usr/lib/libcrypto.so.3", 0x1234)
	bare := b.location("", "native", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0xabc)
	main := b.location("main", "native", "/usr/bin/sha256sum", 0x10)

	sum := b.onCPU(b.resource(map[string]any{attrPID: 1234, attrExecutableName: "sha256sum"}))
	b.events(sum, b.stack(hash, main), 200)
	b.events(sum, b.stack(read, main), 30)
	b.events(sum, b.stack(bare), 10, b.attr(attrStopReason, "no_rule"))

	other := b.onCPU(b.resource(map[string]any{attrPID: 99999, attrExecutablePath: "/usr/sbin/a-process-with-a-very-long-name"}))
	b.events(other, b.stack(main), 5)
	b.events(other, 0, 1)

	off := b.profile(b.resource(map[string]any{attrPID: 1234, attrExecutableName: "sha256sum"}), "off_cpu", "nanoseconds")
	b.value(off, b.stack(read, main), 2_500_000_000)

	space := b.profile(b.resource(map[string]any{attrServiceName: "shop"}), "alloc_space", "bytes")
	b.value(space, b.stack(main), 3<<20)
	return b.p
}
