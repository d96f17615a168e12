// Package pprof translates between OTLP profiles (opentelemetry-proto 1.11, profiles v1development; attributes of the
// semantic conventions 1.44) and pprof (github.com/google/pprof, proto/profile.proto of September 2026). Both describe
// stacks leaf first and the lines of a location innermost first, so neither is ever turned around.
//
// Glossary: where both formats use a word for the same thing (Mapping, Location, Line, Function) it means that. A column
// is one of the sample types of a pprof profile, which in OTLP is a Profile of its own. A place is what an attribute
// stands on in OTLP: resource, scope, profile or sample. A tag is a label with a single value. What decision record 0018
// calls a carrier is an entry of a pprof table that no sample refers to and that holds what pprof has no field for.
//
// What comes back. OTLP -> pprof (with timestamps) -> OTLP and pprof -> OTLP -> pprof give equal profiles up to the normal
// form below; nothing else is lost, and a second round trip changes nothing more. Decision record 0018 says how and why.
//
//   - Order, ids and entries of tables that nothing refers to do not count; equal entries are one. Equal samples, and equal
//     times of a sample, are summed. A value of 0 counts only as far as the sample or the sample type is there.
//   - OTLP, what profiles of one pprof profile share: the window (time, duration) is the smallest that covers theirs and
//     their timestamps; comments are joined, each once; the first doc_url and default_sample_type win.
//   - OTLP, samples: values of 1 with timestamps are the same as timestamps alone, a timestamp of 0 is none. Half a link (one
//     id without the other) is an attribute.
//   - OTLP, locations: one has a frame type, impliedType's if none is given; a mapping that the specification forbids is
//     carried by the locations, as the profile builder does it; a line without function is left out; flags that are false
//     are left out, and line numbers are not negative. Of a location that has a mapping, but one that is carried, another in
//     its attributes is left out. A line whose function is named as addressName does it is the address of the function. Which mapping is the main binary's is said only where the order and the executable do not.
//   - OTLP, the rest: an empty scope name is ScopeName, an empty schema URL that of the conventions 1.44. profile_id is made
//     anew. original_payload, entity references and counts of dropped attributes are left out. An attribute named like a field
//     of pprof's (pprof.profile.doc_url) but of another type is a label for good.
//   - pprof: strings are UTF-8; line numbers are not negative; comments are there once each; a function without any name is
//     left out with its lines, as is a mapping that says nothing; no period type is the empty one; end_timestamp_ns is in
//     nanoseconds, as the label is named, whether it says so or not.
package pprof

import (
	"time"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// FromOptions says how FromOTLP translates. The zero value is ready to use.
type FromOptions struct {
	// Timestamps makes one pprof sample for each timestamp, with the numeric label end_timestamp_ns. Otherwise the samples
	// of a stack and its labels are summed.
	Timestamps bool
	// MaxBytes bounds the memory of the result; 0 stands for 64 MiB and 64 times the size of the payload. pprof repeats for
	// every sample what OTLP's dictionary holds once, so a small payload can describe a huge file.
	MaxBytes int64
}

// ToOptions says how ToOTLP translates. The zero value is ready to use.
type ToOptions struct {
	// Time is written as the time of a profile that does not say when it was taken. If it is zero, that stays unknown (0),
	// which some backends refuse.
	Time time.Time
}

// ScopeName is the instrumentation scope of profiles whose pprof does not name one.
const ScopeName = "github.com/hostprofiles/hostprofiles/internal/pprof"

const (
	// maxString bounds every string of either format, in bytes.
	maxString = 1 << 20
	// maxKey bounds the key of an attribute, in bytes, and maxLabel that of a label, which has a prefix and suffix.
	maxKey   = 1 << 10
	maxLabel = maxKey + 32
	// maxDepth bounds how deep the values of an attribute may be nested.
	maxDepth = 32
	// maxKeys bounds the attributes of one thing and the keys of a map among their values: pdata's maps are lists.
	// maxLabels bounds the labels of a sample, which has attributes in four places.
	// maxCarried leaves room for the attributes that are fields in pprof.
	maxKeys    = 256
	maxCarried = maxKeys - 16
	maxLabels  = 4*maxKeys + 8
)

// Attributes of the semantic conventions 1.44 that have a field in pprof.
const (
	attrFrameType    = "profile.frame.type"
	attrBuildIDGNU   = "process.executable.build_id.gnu"
	attrBuildIDGo    = "process.executable.build_id.go"
	attrHTLHash      = "process.executable.build_id.htlhash"
	prefixMapping    = "pprof.mapping."
	attrHasFunctions = prefixMapping + "has_functions"
	attrHasFilenames = prefixMapping + "has_filenames"
	attrHasLines     = prefixMapping + "has_line_numbers"
	attrHasInlines   = prefixMapping + "has_inline_frames"
	attrFolded       = "pprof.location.is_folded"
	attrComment      = "pprof.profile.comment"
	attrDocURL       = "pprof.profile.doc_url"
	attrDropFrames   = "pprof.profile.drop_frames"
	attrKeepFrames   = "pprof.profile.keep_frames"
	attrDefaultType  = "pprof.scope.default_sample_type"
	attrTypeOrder    = "pprof.scope.sample_type_order"
	attrExecutable   = "process.executable.path"
)

// attrFunction is the address of a location's function that nobody has named. pprof has a name made of it, see addressName.
const attrFunction = profile.AttrFunction

// Attributes of our own for what pprof can hold and OTLP, or its conventions, cannot.
const (
	// attrMappingFile is the file of a location whose mapping OTLP forbids (it has no build id, or the address is outside).
	attrMappingFile = profile.AttrMappingFile
	// attrMapping is the rest of such a mapping: a map with the keys below.
	attrMapping = "hostprofiles.pprof.mapping"
	// attrClaimsFunctions stands for has_functions on a mapping none of whose locations has a line.
	attrClaimsFunctions = "hostprofiles.pprof.mapping.has_functions"
	// attrMain says that a mapping is the main binary's where the order of mappings and the executable do not.
	attrMain = "hostprofiles.pprof.mapping.main"
	// attrSampleType is [type, unit] of a sample type that lacks one of them.
	attrSampleType = "hostprofiles.pprof.sample_type"
	// attrColumn is how many columns before this one have the same sample type.
	attrColumn = "hostprofiles.pprof.column"
	// attrPeriod is [type, unit, period] of a period without a type, or of a type without a period.
	attrPeriod = "hostprofiles.pprof.period"
	// attrWindow is [time_nanos, duration_nanos] if OTLP's window had to be another.
	attrWindow = "hostprofiles.pprof.window"
	// attrLabel comes before the key of a label that no attribute can stand for: a map of the lists strings, numbers, units.
	attrLabel = "hostprofiles.pprof.label."
)

// Keys of attrMapping.
const (
	keyStart, keyLimit, keyOffset = "start", "limit", "offset"
	keyBuildID                    = "build_id"
	keyMain                       = "main"
	keyAttributes                 = "attributes" // what it carries, and the units of those that have one
	keyUnits                      = "units"
)

// Labels with a meaning of their own.
const (
	labelTraceID        = "trace_id"         // 32 lower-case hexadecimal digits
	labelSpanID         = "span_id"          // 16
	labelTimestamp      = "end_timestamp_ns" // a number, in ns since 1970
	labelScopeName      = "otel.scope.name"
	labelScopeVersion   = "otel.scope.version"
	labelScopeSchema    = "otel.scope.schema_url"
	labelResourceSchema = "otel.resource.schema_url"
)

const unitNanoseconds = "nanoseconds"

// carrier names what stands in a table of pprof for an attribute of the entry before it.
const carrier = "[attribute]"
