package pprof

import (
	"path"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// impliedType is the frame type of a location that does not say one. mapping is the file that its code is from, source the
// file of its outermost function; both may be empty. pprof has no field for the type: what this gives needs none.
func impliedType(mapping, source string) profile.FrameType {
	if t, ok := typeOfMapping(mapping); ok {
		return t
	}
	if strings.HasPrefix(mapping, "[kernel.") || strings.HasSuffix(mapping, ".ko") {
		return profile.FrameKernel
	}
	const longest = 8 // of the endings below, or longer
	switch path.Ext(source[max(0, len(source)-longest):]) {
	case ".go":
		return profile.FrameGo
	case ".rs":
		return profile.FrameRust
	case ".java", ".kt", ".scala", ".clj", ".groovy":
		return profile.FrameJVM
	case ".cs", ".fs", ".vb":
		return profile.FrameDotnet
	case ".py":
		return profile.FramePython
	case ".rb":
		return profile.FrameRuby
	case ".php":
		return profile.FramePHP
	case ".pl", ".pm":
		return profile.FramePerl
	case ".js", ".mjs", ".cjs", ".ts":
		return profile.FrameV8
	case ".erl", ".ex", ".exs":
		return profile.FrameBEAM
	case ".lua":
		return profile.FrameLua
	}
	return profile.FrameNative
}

// knownType tells whether t is a frame type of the semantic conventions 1.44.
func knownType(t profile.FrameType) bool {
	switch t {
	case profile.FrameNative, profile.FrameKernel, profile.FrameGo, profile.FrameRust, profile.FrameJVM, profile.FrameDotnet,
		profile.FramePython, profile.FrameRuby, profile.FramePHP, profile.FramePerl, profile.FrameV8, profile.FrameBEAM,
		profile.FrameLua:
		return true
	}
	return false
}

// mappingOfType is the file of the mapping that shows the type of code that belongs to no file: "[jvm]". Names in brackets
// are pprof's own way for what is no file: it does not try to open them, shows them beside addresses without a name, and
// -focus and -ignore match them.
func mappingOfType(t profile.FrameType) string { return "[" + string(t) + "]" }

// typeOfMapping is the inverse of mappingOfType.
func typeOfMapping(file string) (profile.FrameType, bool) {
	inner, open := strings.CutPrefix(file, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	t := profile.FrameType(inner)
	return t, open && closed && knownType(t)
}

// pprof's build id is GNU's, as tools compare it with files. Of mappings without one it is Go's or the htlhash, with a prefix.
const (
	prefixBuildIDGo = "go:"
	prefixHTLHash   = "htlhash:"
)

// buildIDKeys returns the attributes with a build id, the best first.
func buildIDKeys() []string { return []string{attrBuildIDGNU, attrBuildIDGo, attrHTLHash} }

// buildID returns the text of a mapping's build id in pprof; ok is false if it would not come back.
func buildID(key, value string) (text string, ok bool) {
	switch key {
	case attrBuildIDGNU:
		text = value
	case attrBuildIDGo:
		text = prefixBuildIDGo + value
	case attrHTLHash:
		text = prefixHTLHash + value
	}
	k, v := parseBuildID(text)
	return text, k == key && v == value
}

// parseBuildID is the inverse of buildID; key is empty for what is no build id of OTLP.
func parseBuildID(text string) (key, value string) {
	if id, ok := strings.CutPrefix(text, prefixBuildIDGo); ok && id != "" {
		return attrBuildIDGo, id
	}
	if id, ok := strings.CutPrefix(text, prefixHTLHash); ok && isHex(id) && len(id) == 32 {
		return attrHTLHash, id
	}
	if isHex(text) {
		return attrBuildIDGNU, text
	}
	return "", ""
}
