// Package profile aggregates samples and writes them as OTLP profiles (opentelemetry-proto 1.11, profiles v1development;
// attributes of the semantic conventions 1.44).
//
// Glossary, in OTLP's words: a Profile is all samples of one kind (Origin) of one process; a Sample is one identity
// {stack, attributes, link} with the times it was seen at; a Stack is a list of Locations, the leaf first; a Location is an
// address in a Mapping, with the Lines that symbolization found there. The dictionary holds every shared value of a
// payload once; index 0 of each of its tables means "none".
package profile

import (
	"time"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// SchemaURL names the semantic conventions that attributes follow.
const SchemaURL = "https://opentelemetry.io/schemas/1.44.0"

// ScopeName is the instrumentation scope's name.
const ScopeName = "github.com/hostprofiles/hostprofiles/receiver"

// Attributes without a convention; the others are the semantic conventions' own.
const (
	// AttrStopReason is a sample's unwind.StopReason when its stack is incomplete.
	AttrStopReason = stopreason.Attribute
	// AttrGuessed is true at a location that a step through code without unwind information found: see unwind.FrameGuessed.
	AttrGuessed = stopreason.GuessedAttribute
	// AttrFunction is, at a location without lines, the address (in the file, as the location's) at which the function around it
	// begins: the samples of one function belong together though nobody knows its name.
	AttrFunction = "hostprofiles.function.address"
	// AttrMappingFile is the file of a location that is written without its mapping: because the mapping has no build id,
	// which the specification forbids, or because the address is not in its range.
	AttrMappingFile = "hostprofiles.mapping.filename"
)

const (
	attrFrameType    = "profile.frame.type"
	attrThreadID     = "thread.id"
	attrThreadName   = "thread.name"
	attrBuildIDGNU   = "process.executable.build_id.gnu"
	attrBuildIDGo    = "process.executable.build_id.go"
	attrHTLHash      = "process.executable.build_id.htlhash"
	attrHasFunctions = "pprof.mapping.has_functions"
	attrHasFilenames = "pprof.mapping.has_filenames"
	attrHasLines     = "pprof.mapping.has_line_numbers"
	attrHasInlines   = "pprof.mapping.has_inline_frames"
)

// FrameType is a value of the attribute profile.frame.type.
type FrameType string

// The frame types of the semantic conventions 1.44. The zero value counts as FrameNative.
const (
	FrameNative FrameType = "native"
	FrameKernel FrameType = "kernel"
	FrameGo     FrameType = "go"
	FrameRust   FrameType = "rust"
	FrameJVM    FrameType = "jvm"
	FrameDotnet FrameType = "dotnet"
	FramePython FrameType = "cpython"
	FrameRuby   FrameType = "ruby"
	FramePHP    FrameType = "php"
	FramePerl   FrameType = "perl"
	FrameV8     FrameType = "v8js"
	FrameBEAM   FrameType = "beam"
	FrameLua    FrameType = "luajit"
)

// Resource is one process. While building its identity is its pointer: the caller keeps one for each incarnation of a
// process. The fields are read by Flush, so what is found out late still counts; there, resources that look the same are
// written as one. Empty fields are left out.
type Resource struct {
	PID            int       // always reported
	CreationTime   time.Time // when the process started
	ExecutableName string    // the last part of ExecutablePath
	ExecutablePath string
	Command        string // the first argument
	ContainerID    string // in full, without a scheme
	// Extra follows the attributes above; a key that was there before is left out.
	Extra []Attribute
}

// Mapping is an executable range of a file, in ELF virtual addresses, so that it is the same in every process. It is
// compared by pointer while building and by value in the dictionary. It must not change once it was added.
//
// A mapping needs a build id; without any, as for an address outside of the range, its locations are written without
// mapping, see AttrMappingFile.
type Mapping struct {
	// Start and Limit bound the range, Limit exclusive; both are 0 when the range is not known.
	Start, Limit unwind.FileAddr
	Offset       unwind.FileOffset // of Start in the file
	File         string
	BuildIDGNU   string // lower-case hexadecimal
	BuildIDGo    string // as `go tool buildid` prints it
	HTLHash      string // lower-case hexadecimal, 32 digits
}

// Symbol is what a runtime found out of one of its frames. The worker that symbolizes may fill it in after Add, until
// Flush is called.
type Symbol struct {
	Lines []unwind.Line // the innermost first
}

// Location is a place in a program. It is comparable.
type Location struct {
	Type FrameType
	// Mapping is nil for code that belongs to no file (JIT code, interpreted code).
	Mapping *Mapping
	// Address is an ELF virtual address if there is a mapping. For a caller it is the return address - 1.
	Address uint64
	// Symbol holds the lines of managed frames; if it is nil, Flush asks its resolver.
	Symbol *Symbol
	// Guessed: see unwind.FrameGuessed.
	Guessed bool
	// InFunction tells that it is known where the function begins that has no lines: Into bytes before Address.
	InFunction bool
	Into       uint32
}

// Link ties a sample to a span; it is none unless both ids are set.
type Link struct {
	TraceID [16]byte
	SpanID  [8]byte
}

func (l Link) valid() bool { return l.TraceID != [16]byte{} && l.SpanID != [8]byte{} }

// Sample is one event. Add copies what it needs: the Stack's array may be reused.
type Sample struct {
	Resource   *Resource
	ThreadID   int    // reported only with Options.ThreadIDs
	ThreadName string // may be any bytes
	Time       uint64 // Unix time in ns
	Value      int64  // for origins that have values
	Stack      []Location
	StopReason string // empty when the stack is complete
	Link       Link
	// Attributes are further sample attributes. They are part of the sample's identity. A key that the builder itself
	// sets, or that came before, is left out.
	Attributes []Attribute
}

// Shape says which of times and values the samples of a Profile carry. OTLP wants one shape within a Profile.
type Shape uint8

const (
	// ShapeTimes: one time for each event, each counting as 1.
	ShapeTimes Shape = iota
	// ShapeTimesValues: a time and a value for each event.
	ShapeTimesValues
	// ShapeSum: one value for each distinct sample, the sum over its events.
	ShapeSum
)

// Origin is a kind of profile. It is comparable; each makes its own Profile.
type Origin struct {
	Type, Unit             string
	PeriodType, PeriodUnit string
	Period                 int64 // in PeriodUnit; 0 if there is none
	Shape                  Shape
}

// OnCPU is the origin of samples that were taken every period of CPU time: (samples, count) with the period
// (cpu, nanoseconds), the one form that every known backend reads.
func OnCPU(period time.Duration) Origin {
	return Origin{Type: "samples", Unit: "count", PeriodType: "cpu", PeriodUnit: "nanoseconds", Period: period.Nanoseconds()}
}

// OffCPU is the origin of samples whose value is the time in ns that a thread did not run. It has no period: Pyroscope
// recognizes it only without.
func OffCPU() Origin {
	return Origin{Type: "off_cpu", Unit: "nanoseconds", Shape: ShapeTimesValues}
}

// onCPU tells whether the origin comes first: viewers show a payload's first Profile by default.
func (o Origin) onCPU() bool { return o.Type == "samples" && o.PeriodType == "cpu" }
