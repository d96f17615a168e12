// Package analysis reads OTLP profiles back and compares them with the truth about the programs that were profiled. It
// shares no code with what made the profiles.
package analysis

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Line is a function at a place in a frame.
type Line struct {
	Name, SystemName, File  string
	Line, Column, StartLine int64
}

// Frame is one physical frame: a location.
type Frame struct {
	Type    string // profile.frame.type
	Address uint64
	Mapping string // file name of the mapping, or the attribute that stands in for it
	BuildID string // of the mapping: GNU's
	Guessed bool
	// Function is where the function begins, if it has no name.
	Function uint64
	Lines    []Line // the innermost inlined call first
}

// Name is the name of the physical function, empty if it has none.
func (f Frame) Name() string {
	if len(f.Lines) == 0 {
		return ""
	}
	return f.Lines[len(f.Lines)-1].Name
}

// Sample is one identity of a sample with the number of its events.
type Sample struct {
	PID        int
	Created    string // process.creation.time
	Executable string // process.executable.path
	Container  string // container.id
	Thread     string // thread.name
	ThreadID   int64
	StopReason string // empty when the stack is complete
	Count      int
	First      uint64 // the earliest time, Unix time in ns; 0 without times
	Last       uint64
	// Frames has the leaf first, kernel frames before user frames. It is shared by samples of equal stacks.
	Frames []Frame
}

// Kernel tells whether the sample was taken in kernel mode.
func (s Sample) Kernel() bool { return len(s.Frames) > 0 && s.Frames[0].Type == "kernel" }

// User returns the frames without those of the kernel.
func (s Sample) User() []Frame {
	for i, f := range s.Frames {
		if f.Type != "kernel" {
			return s.Frames[i:]
		}
	}
	return nil
}

// Spread makes a frame of each function that was inlined.
func Spread(frames []Frame) (out []Frame) {
	for _, f := range frames {
		lines := f.Lines
		if len(lines) == 0 {
			out = append(out, f)
		}
		for i := range lines {
			f.Lines = lines[i : i+1]
			out = append(out, f)
		}
	}
	return out
}

// Samples are what was delivered, of any processes.
type Samples []Sample

// Where returns those for which keep is true.
func (s Samples) Where(keep func(Sample) bool) Samples {
	var kept Samples
	for _, sample := range s {
		if keep(sample) {
			kept = append(kept, sample)
		}
	}
	return kept
}

// PID returns the samples of one process.
func (s Samples) PID(pid int) Samples { return s.Where(func(s Sample) bool { return s.PID == pid }) }

// Count is the number of events.
func (s Samples) Count() int {
	n := 0
	for _, sample := range s {
		n += sample.Count
	}
	return n
}

// payload flattens one pprofile.Profiles; stacks are made once each.
type payload struct {
	dict   pprofile.ProfilesDictionary
	frames map[int32]Frame
	stacks map[int32][]Frame
}

// Flatten returns the samples of a payload. Indexes out of range panic: the conformance check comes first.
func Flatten(p pprofile.Profiles) Samples {
	f := &payload{dict: p.Dictionary(), frames: map[int32]Frame{}, stacks: map[int32][]Frame{}}
	var all Samples
	for _, rp := range p.ResourceProfiles().All() {
		template := fromResource(rp.Resource().Attributes())
		for _, sp := range rp.ScopeProfiles().All() {
			for _, profile := range sp.Profiles().All() {
				for _, s := range profile.Samples().All() {
					all = append(all, f.sample(template, s))
				}
			}
		}
	}
	return all
}

func fromResource(attrs pcommon.Map) Sample {
	var s Sample
	for k, v := range attrs.All() {
		switch k {
		case "process.pid":
			s.PID = int(v.Int())
		case "process.creation.time":
			s.Created = v.Str()
		case "process.executable.path":
			s.Executable = v.Str()
		case "container.id":
			s.Container = v.Str()
		}
	}
	return s
}

func (f *payload) sample(s Sample, from pprofile.Sample) Sample {
	for key, v := range f.attributes(from.AttributeIndices()) {
		switch key {
		case "thread.name":
			s.Thread = v.Str()
		case "thread.id":
			s.ThreadID = v.Int()
		case "hostprofiles.stack.stop_reason":
			s.StopReason = v.Str()
		}
	}
	times := from.TimestampsUnixNano()
	s.Count = times.Len()
	for i, t := range times.All() {
		if i == 0 || t < s.First {
			s.First = t
		}
		s.Last = max(s.Last, t)
	}
	if values := from.Values(); values.Len() > 0 {
		s.Count = 0
		for _, v := range values.All() {
			s.Count += int(v)
		}
	}
	s.Frames = f.stack(from.StackIndex())
	return s
}

func (f *payload) str(i int32) string { return f.dict.StringTable().At(int(i)) }

func (f *payload) attributes(indices pcommon.Int32Slice) map[string]pcommon.Value {
	m := make(map[string]pcommon.Value, indices.Len())
	for _, i := range indices.All() {
		a := f.dict.AttributeTable().At(int(i))
		m[f.str(a.KeyStrindex())] = a.Value()
	}
	return m
}

func (f *payload) stack(i int32) []Frame {
	if s, ok := f.stacks[i]; ok {
		return s
	}
	locations := f.dict.StackTable().At(int(i)).LocationIndices()
	s := make([]Frame, 0, locations.Len())
	for _, l := range locations.All() {
		s = append(s, f.frame(l))
	}
	f.stacks[i] = s
	return s
}

func (f *payload) frame(i int32) Frame {
	if frame, ok := f.frames[i]; ok {
		return frame
	}
	l := f.dict.LocationTable().At(int(i))
	frame := Frame{Address: l.Address()}
	for key, v := range f.attributes(l.AttributeIndices()) {
		switch key {
		case "profile.frame.type":
			frame.Type = v.Str()
		case "hostprofiles.frame.guessed":
			frame.Guessed = v.Bool()
		case "hostprofiles.function.address":
			frame.Function = uint64(v.Int())
		case "hostprofiles.mapping.filename":
			frame.Mapping = v.Str()
		}
	}
	if l.MappingIndex() != 0 {
		m := f.dict.MappingTable().At(int(l.MappingIndex()))
		frame.Mapping = f.str(m.FilenameStrindex())
		if id, ok := f.attributes(m.AttributeIndices())["process.executable.build_id.gnu"]; ok {
			frame.BuildID = id.Str()
		}
	}
	for _, line := range l.Lines().All() {
		fn := f.dict.FunctionTable().At(int(line.FunctionIndex()))
		frame.Lines = append(frame.Lines, Line{
			Name: f.str(fn.NameStrindex()), SystemName: f.str(fn.SystemNameStrindex()), File: f.str(fn.FilenameStrindex()),
			Line: line.Line(), Column: line.Column(), StartLine: fn.StartLine(),
		})
	}
	f.frames[i] = frame
	return frame
}
