package top

import (
	"fmt"
	"path"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// Attributes of the semantic conventions 1.44, and this project's own: why a
// stack was not walked to its root, and the file of a location whose mapping could not be described.
const (
	attrPID            = "process.pid"
	attrExecutableName = "process.executable.name"
	attrExecutablePath = "process.executable.path"
	attrCommand        = "process.command"
	attrServiceName    = "service.name"
	attrHostID         = "host.id"
	attrHostName       = "host.name"
	attrThreadName     = "thread.name"
	attrFrameType      = "profile.frame.type"
	attrStopReason     = stopreason.Attribute
	attrMappingFile    = "hostprofiles.mapping.filename"
	attrFunction       = "hostprofiles.function.address"
)

// dictionary reads a payload's tables. Payloads may come from anywhere, so any index may be wrong: what is not there
// reads as the table's zero value.
type dictionary struct {
	tables    pprofile.ProfilesDictionary
	functions map[int32]function // by location
}

// function is what a row is about.
type function struct {
	name   string
	kernel bool
}

func newDictionary(tables pprofile.ProfilesDictionary) *dictionary {
	return &dictionary{tables: tables, functions: map[int32]function{}}
}

func inTable(i int32, length int) bool { return i >= 0 && int(i) < length }

func (d *dictionary) string(i int32) string {
	if t := d.tables.StringTable(); inTable(i, t.Len()) {
		return t.At(int(i))
	}
	return ""
}

// attribute finds a key in a list of attribute indices.
func (d *dictionary) attribute(indices pcommon.Int32Slice, key string) (pcommon.Value, bool) {
	t := d.tables.AttributeTable()
	for _, i := range indices.All() {
		if inTable(i, t.Len()) && d.string(t.At(int(i)).KeyStrindex()) == key {
			return t.At(int(i)).Value(), true
		}
	}
	return pcommon.Value{}, false
}

// leaf returns the function in which a sample of the stack was taken; ok is false for a stack without frames.
func (d *dictionary) leaf(stack int32) (f function, ok bool) {
	stacks := d.tables.StackTable()
	if !inTable(stack, stacks.Len()) || stacks.At(int(stack)).LocationIndices().Len() == 0 {
		return function{}, false
	}
	i := stacks.At(int(stack)).LocationIndices().At(0)
	f, known := d.functions[i]
	if !known {
		f = d.function(i)
		d.functions[i] = f
	}
	return f, true
}

func (d *dictionary) function(location int32) function {
	t := d.tables.LocationTable()
	if !inTable(location, t.Len()) {
		return function{name: "?"}
	}
	l := t.At(int(location))
	frameType, ok := d.attribute(l.AttributeIndices(), attrFrameType)
	name := d.lineName(l)
	if name == "" {
		name = d.fileName(l)
	}
	return function{name: clean(name), kernel: ok && frameType.Str() == "kernel"}
}

// lineName returns the name of the innermost function at a location, empty if it was not symbolized.
func (d *dictionary) lineName(l pprofile.Location) string {
	functions := d.tables.FunctionTable()
	if l.Lines().Len() == 0 || !inTable(l.Lines().At(0).FunctionIndex(), functions.Len()) {
		return ""
	}
	f := functions.At(int(l.Lines().At(0).FunctionIndex()))
	if name := d.string(f.NameStrindex()); name != "" {
		return name
	}
	return d.string(f.SystemNameStrindex())
}

// fileName names code without a name by its file and where its function begins. If that is not known, one line for each of
// its addresses would hide how hot it is.
func (d *dictionary) fileName(l pprofile.Location) string {
	if file := d.file(l); file != "" {
		if v, ok := d.attribute(l.AttributeIndices(), attrFunction); ok && v.Int() != 0 {
			return fmt.Sprintf("%s+%#x", path.Base(file), uint64(v.Int()))
		}
		return path.Base(file) + " (no symbols)"
	}
	return "(code without a file)" // JIT code, mostly
}

func (d *dictionary) file(l pprofile.Location) string {
	mappings := d.tables.MappingTable()
	if i := l.MappingIndex(); i != 0 && inTable(i, mappings.Len()) {
		return d.string(mappings.At(int(i)).FilenameStrindex())
	}
	if v, ok := d.attribute(l.AttributeIndices(), attrMappingFile); ok {
		return v.Str()
	}
	return ""
}
