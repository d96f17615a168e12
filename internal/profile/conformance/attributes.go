package conformance

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// place is where an attribute stands.
type place uint8

const (
	onResource place = 1 << iota
	onScope
	onProfile
	onSample
	onLocation
	onMapping
)

func (p place) String() string {
	switch p {
	case onResource:
		return "resource"
	case onScope:
		return "scope"
	case onProfile:
		return "profile"
	case onSample:
		return "sample"
	case onLocation:
		return "location"
	case onMapping:
		return "mapping"
	}
	return "several places"
}

// rule is what a convention says of an attribute.
type rule struct {
	kind  pcommon.ValueType
	place place
	// valid tells whether a value of the right kind is a good one; nil if any is.
	valid func(pcommon.Value) bool
}

func oneOf(values ...string) func(pcommon.Value) bool {
	return func(v pcommon.Value) bool { return slices.Contains(values, v.Str()) }
}

func nonEmpty(v pcommon.Value) bool { return v.Str() != "" }

func notNegative(v pcommon.Value) bool { return v.Int() >= 0 }

func isHex(s string) bool {
	return s != "" && len(s)%2 == 0 && strings.Trim(s, "0123456789abcdef") == ""
}

func isTime(v pcommon.Value) bool {
	t, err := time.Parse(time.RFC3339Nano, v.Str())
	if err != nil {
		return false
	}
	_, offset := t.Zone()
	return offset == 0 && strings.HasSuffix(v.Str(), "Z")
}

// frameTypes are the values of profile.frame.type in the semantic conventions 1.44.
func frameTypes() []string {
	return []string{"dotnet", "jvm", "kernel", "native", "perl", "php", "cpython", "ruby", "v8js", "beam", "go", "rust", "luajit"}
}

// devfilerFrameTypes are those of them that devfiler accepts (as of April 2026).
func devfilerFrameTypes() []string {
	return []string{"dotnet", "jvm", "kernel", "native", "perl", "php", "cpython", "ruby", "v8js", "beam", "go"}
}

// ruleOf returns what the semantic conventions 1.44, and this project for its own keys, say of an attribute.
func ruleOf(key string) (_ rule, known bool) {
	str, num, yes, list := pcommon.ValueTypeStr, pcommon.ValueTypeInt, pcommon.ValueTypeBool, pcommon.ValueTypeSlice
	switch key {
	case "profile.frame.type":
		return rule{str, onLocation, oneOf(frameTypes()...)}, true
	case "process.executable.build_id.gnu":
		return rule{str, onMapping | onResource, func(v pcommon.Value) bool { return isHex(v.Str()) }}, true
	case "process.executable.build_id.htlhash":
		return rule{str, onMapping | onResource, func(v pcommon.Value) bool { return isHex(v.Str()) && len(v.Str()) == 32 }}, true
	case "process.executable.build_id.go":
		return rule{str, onMapping | onResource, nonEmpty}, true
	case "pprof.mapping.has_functions", "pprof.mapping.has_filenames", "pprof.mapping.has_line_numbers",
		"pprof.mapping.has_inline_frames":
		return rule{yes, onMapping, nil}, true
	case "pprof.location.is_folded":
		return rule{yes, onLocation, nil}, true
	case "pprof.profile.comment":
		return rule{list, onProfile, nil}, true
	case "pprof.profile.doc_url", "pprof.profile.drop_frames", "pprof.profile.keep_frames":
		return rule{str, onProfile, nil}, true
	case "pprof.scope.default_sample_type":
		return rule{str, onScope, nil}, true
	case "pprof.scope.sample_type_order":
		return rule{list, onScope, nil}, true
	case "thread.id", "cpu.logical_number":
		return rule{num, onSample, notNegative}, true
	case "thread.name":
		return rule{str, onSample, nil}, true
	case "process.context_switch.type":
		return rule{str, onSample, oneOf("voluntary", "involuntary")}, true
	case "process.pid", "process.parent_pid", "process.vpid", "process.user.id":
		return rule{num, onResource, notNegative}, true
	case "process.creation.time":
		return rule{str, onResource, isTime}, true
	case "process.executable.name", "process.executable.path", "process.command", "process.command_line", "process.owner",
		"process.title", "process.working_directory", "process.linux.cgroup", "process.runtime.name",
		"process.runtime.version", "process.runtime.description", "process.user.name":
		return rule{str, onResource, nonEmpty}, true
	case "process.command_args":
		return rule{list, onResource, nil}, true
	case "process.interactive":
		return rule{yes, onResource, nil}, true
	case "container.id", "container.name", "container.runtime.name", "container.image.name", "container.image.id",
		"host.id", "host.name", "host.arch", "os.type", "service.namespace", "service.instance.id", "service.version":
		return rule{str, onResource, nonEmpty}, true
	case "service.name":
		return rule{str, onResource | onSample, nonEmpty}, true
	case "hostprofiles.stack.stop_reason":
		return rule{str, onSample, nonEmpty}, true
	case "hostprofiles.frame.guessed":
		return rule{yes, onLocation, nil}, true
	case "hostprofiles.function.address":
		return rule{num, onLocation, nil}, true
	case "hostprofiles.mapping.filename":
		return rule{str, onLocation, nonEmpty}, true
	}
	return rule{}, false
}

// checkAttribute checks one attribute by its key's rules.
func (c Checker) checkAttribute(r *report, path, key string, v pcommon.Value, at place) {
	if key == "" {
		r.addf(path, "attribute has an empty key")
		return
	}
	if strings.HasPrefix(key, "code.") || strings.HasPrefix(key, "threadlocal.") {
		r.addf(path, "attribute %s must not be used in profiles", key)
	}
	rule, known := ruleOf(key)
	if !known {
		return
	}
	if v.Type() != rule.kind {
		r.addf(path, "attribute %s is of type %s, not %s", key, v.Type(), rule.kind)
		return
	}
	if at&rule.place == 0 {
		r.addf(path, "attribute %s does not belong on a %s", key, at)
	}
	if rule.valid != nil && !rule.valid(v) {
		r.addf(path, "attribute %s has the invalid value %q", key, v.AsString())
	}
	if c.Devfiler && key == "profile.frame.type" && !slices.Contains(devfilerFrameTypes(), v.Str()) {
		r.addf(path, "devfiler does not know the frame type %q", v.Str())
	}
}

// checkMap checks the attributes of a resource or scope.
func (c Checker) checkMap(r *report, path string, m pcommon.Map, at place) {
	seen := map[string]bool{}
	for key, v := range m.All() {
		if seen[key] {
			r.addf(path, "attribute %s is there twice", key)
		}
		seen[key] = true
		if !utf8.ValidString(key) {
			r.addf(path, "attribute key %q is not UTF-8", key)
		}
		checkValue(r, path+" attribute "+key, v)
		c.checkAttribute(r, path, key, v, at)
	}
}

// checkValue checks that a value is one, all the way down.
func checkValue(r *report, path string, v pcommon.Value) {
	switch v.Type() {
	case pcommon.ValueTypeEmpty:
		r.addf(path, "value is missing (or a reference that nothing resolves)")
	case pcommon.ValueTypeStr:
		if !utf8.ValidString(v.Str()) {
			r.addf(path, "value %q is not UTF-8", v.Str())
		}
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			checkValue(r, path, e)
		}
	case pcommon.ValueTypeMap:
		for _, e := range v.Map().All() {
			checkValue(r, path, e)
		}
	}
}

// eachString calls f for each key and string in m: when it is marshalled, they are references into the string table.
func eachString(m pcommon.Map, f func(string)) {
	for key, v := range m.All() {
		f(key)
		eachStringIn(v, f)
	}
}

func eachStringIn(v pcommon.Value, f func(string)) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		f(v.Str())
	case pcommon.ValueTypeSlice:
		for _, e := range v.Slice().All() {
			eachStringIn(e, f)
		}
	case pcommon.ValueTypeMap:
		eachString(v.Map(), f)
	}
}
