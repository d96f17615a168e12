package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// ErrMalformed says that a payload contradicts the OTLP specification, or itself, and can't be understood.
var ErrMalformed = errors.New("malformed profiles")

// ErrTooLarge says that a payload alone would take more memory than there is for all.
var ErrTooLarge = errors.New("too large for the memory that the window may take")

// Bounds of what one payload can make the store keep.
const (
	maxString = 16 << 10 // bytes; what is longer is cut
	maxDepth  = 16 << 10 // locations of a stack
	maxList   = 4 << 10  // attributes or lines in a list
)

// Attributes of locations: of the semantic conventions 1.44, and this project's own for the file of a location whose mapping
// could not be described.
const (
	frameTypeKey   = "profile.frame.type"
	mappingFileKey = "hostprofiles.mapping.filename"
	functionKey    = "hostprofiles.function.address"
)

// reader takes the dictionary of one payload over into tables. What it has taken over is remembered: places hold the index
// there plus one.
type reader struct {
	t    *tables
	dict pprofile.ProfilesDictionary

	strings, attrs, functions, mappings, locations, stacks, links []uint32
	buf                                                           []uint32

	limit   int // bytes that the tables may come to
	unasked int // what was taken over since their size was looked at
}

func newReader(t *tables, dict pprofile.ProfilesDictionary, room int) *reader {
	return &reader{
		t: t, dict: dict, limit: t.size() + room,
		strings: make([]uint32, dict.StringTable().Len()), attrs: make([]uint32, dict.AttributeTable().Len()),
		functions: make([]uint32, dict.FunctionTable().Len()), mappings: make([]uint32, dict.MappingTable().Len()),
		locations: make([]uint32, dict.LocationTable().Len()), stacks: make([]uint32, dict.StackTable().Len()),
		links: make([]uint32, dict.LinkTable().Len()),
	}
}

// took notes that something was taken over, and fails when the payload has brought more than it may. What is between two looks
// at the tables' size is a MiB at most.
func (r *reader) took() error {
	if r.unasked++; r.unasked < 64 {
		return nil
	}
	r.unasked = 0
	if r.t.size() > r.limit {
		return ErrTooLarge
	}
	return nil
}

// once returns what place i of a memo has, or what make finds for it. 0 stands for nothing where the table is empty: the
// specification wants a zero value there, and not all producers write one.
func (r *reader) once(memo []uint32, i int32, what string, find func(i int) (uint32, error)) (uint32, error) {
	if i == 0 && len(memo) == 0 {
		return 0, nil
	}
	if i < 0 || int(i) >= len(memo) {
		return 0, fmt.Errorf("%w: %s %d of %d", ErrMalformed, what, i, len(memo))
	}
	if memo[i] == 0 {
		v, err := find(int(i))
		if err != nil {
			return 0, err
		}
		memo[i] = v + 1
		if err := r.took(); err != nil {
			return 0, err
		}
	}
	return memo[i] - 1, nil
}

// clip makes valid UTF-8 of bounded length of s, without holding more of its memory than that.
func clip(s string) string { return clipTo(s, maxString) }

func clipTo(s string, most int) string {
	if len(s) > most {
		s = s[:most]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if len(s) > 0 {
			s = s[:len(s)-1] // the first byte of a rune that was cut, or a whole short one
		}
		s += "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (r *reader) string(i int32) (uint32, error) {
	return r.once(r.strings, i, "string", func(i int) (uint32, error) {
		return r.t.string(strings.Clone(clip(r.dict.StringTable().At(i)))), nil
	})
}

// texts reads several strings.
func (r *reader) texts(to []*uint32, from ...int32) (err error) {
	for k, i := range from {
		if *to[k], err = r.string(i); err != nil {
			return err
		}
	}
	return nil
}

// attributes takes a list of attributes over, in the order of their keys: their order has no meaning.
func (r *reader) attributes(list pcommon.Int32Slice) (uint32, error) {
	if list.Len() > maxList {
		return 0, fmt.Errorf("%w: %d attributes in one place", ErrMalformed, list.Len())
	}
	out := r.buf[:0]
	for _, i := range list.All() {
		if len(r.attrs) == 0 {
			return 0, fmt.Errorf("%w: attribute %d of none", ErrMalformed, i)
		}
		a, err := r.once(r.attrs, i, "attribute", func(i int) (uint32, error) {
			kv := r.dict.AttributeTable().At(i)
			var a attribute
			if err := r.texts([]*uint32{&a.key, &a.unit}, kv.KeyStrindex(), kv.UnitStrindex()); err != nil {
				return 0, err
			}
			a.value = r.t.value(kv.Value())
			index, _ := r.t.attrs.add(a)
			return index, nil
		})
		if err != nil {
			return 0, err
		}
		if r.t.attrs.items[a].key != 0 { // the zero value is no attribute
			out = append(out, a)
		}
	}
	r.buf = out[:0]
	return r.t.attributeList(out), nil
}

// attributeList keeps a set of attributes.
func (t *tables) attributeList(list []uint32) uint32 {
	slices.SortFunc(list, func(a, b uint32) int {
		return strings.Compare(t.strings.items[t.attrs.items[a].key], t.strings.items[t.attrs.items[b].key])
	})
	return t.list(slices.Compact(list))
}

// attributeMap takes the attributes of a resource or scope over.
func (r *reader) attributeMap(m pcommon.Map) (uint32, error) {
	if m.Len() > maxList {
		return 0, fmt.Errorf("%w: %d attributes in one place", ErrMalformed, m.Len())
	}
	list := make([]uint32, 0, m.Len())
	for k, v := range m.All() {
		i, _ := r.t.attrs.add(attribute{key: r.t.string(strings.Clone(clip(k))), value: r.t.value(v)})
		list = append(list, i)
		if err := r.took(); err != nil {
			return 0, err
		}
	}
	return r.t.attributeList(list), r.took()
}

// otherBytes is about what a list or map takes for each byte that it reads.
const otherBytes = 4

func (t *tables) value(v pcommon.Value) uint32 {
	var out value
	switch v.Type() {
	case pcommon.ValueTypeStr:
		out = value{kind: valueText, text: t.string(strings.Clone(clip(v.Str())))}
	case pcommon.ValueTypeBool:
		out = value{kind: valueBool, text: t.string(strconv.FormatBool(v.Bool()))}
		if v.Bool() {
			out.number = 1
		}
	case pcommon.ValueTypeInt:
		out = value{kind: valueInt, text: t.string(strconv.FormatInt(v.Int(), 10)), number: uint64(v.Int())}
	case pcommon.ValueTypeDouble:
		out = value{kind: valueDouble, text: t.string(v.AsString()), number: math.Float64bits(v.Double())}
	case pcommon.ValueTypeBytes:
		b := v.Bytes().AsRaw()
		out = value{kind: valueBytes, text: t.string(string(b[:min(len(b), maxString)]))}
	case pcommon.ValueTypeSlice, pcommon.ValueTypeMap:
		return t.other(v)
	}
	i, _ := t.values.add(out)
	return i
}

// other keeps a list or map, which is known by how it reads.
func (t *tables) other(v pcommon.Value) uint32 {
	text := v.AsString()
	if len(text) > maxString {
		text = clip(text)
		v = pcommon.NewValueStr(text)
	}
	key := value{kind: valueOther, text: t.string(text)}
	other, isNew := t.others.add(otherKey{v.Type(), key.text})
	if isNew {
		held := pcommon.NewValueEmpty()
		v.CopyTo(held)
		t.otherValue = append(t.otherValue, held)
		t.bytes += otherBytes * len(text)
	}
	key.number = uint64(other)
	index, _ := t.values.add(key)
	return index
}

func (r *reader) function(i int32) (uint32, error) {
	return r.once(r.functions, i, "function", func(i int) (uint32, error) {
		from := r.dict.FunctionTable().At(i)
		f := function{startLine: from.StartLine()}
		err := r.texts([]*uint32{&f.name, &f.systemName, &f.file}, from.NameStrindex(), from.SystemNameStrindex(), from.FilenameStrindex())
		if err != nil {
			return 0, fmt.Errorf("function %d: %w", i, err)
		}
		index, _ := r.t.functions.add(f)
		return index, nil
	})
}

func (r *reader) mapping(i int32) (uint32, error) {
	return r.once(r.mappings, i, "mapping", func(i int) (uint32, error) {
		from := r.dict.MappingTable().At(i)
		m := mapping{start: from.MemoryStart(), limit: from.MemoryLimit(), offset: from.FileOffset()}
		var err error
		if m.file, err = r.string(from.FilenameStrindex()); err != nil {
			return 0, fmt.Errorf("mapping %d: %w", i, err)
		}
		if m.attributes, err = r.attributes(from.AttributeIndices()); err != nil {
			return 0, fmt.Errorf("mapping %d: %w", i, err)
		}
		index, _ := r.t.mappings.add(m)
		return index, nil
	})
}

func (r *reader) link(i int32) (uint32, error) {
	return r.once(r.links, i, "link", func(i int) (uint32, error) {
		from := r.dict.LinkTable().At(i)
		index, _ := r.t.links.add(link{from.TraceID(), from.SpanID()})
		return index, nil
	})
}

func (r *reader) location(i int32) (uint32, error) {
	return r.once(r.locations, i, "location", func(i int) (uint32, error) {
		from := r.dict.LocationTable().At(i)
		l := location{address: from.Address()}
		var err error
		if l.mapping, err = r.mapping(from.MappingIndex()); err != nil {
			return 0, fmt.Errorf("location %d: %w", i, err)
		}
		if l.attributes, err = r.attributes(from.AttributeIndices()); err != nil {
			return 0, fmt.Errorf("location %d: %w", i, err)
		}
		if l.lines, err = r.lines(from.Lines()); err != nil {
			return 0, fmt.Errorf("location %d: %w", i, err)
		}
		return r.t.location(l), nil
	})
}

func (r *reader) lines(from pprofile.LineSlice) (uint32, error) {
	if from.Len() > maxList {
		return 0, fmt.Errorf("%w: %d lines", ErrMalformed, from.Len())
	}
	list := make([]uint32, 0, from.Len())
	for _, at := range from.All() {
		f, err := r.function(at.FunctionIndex())
		if err != nil {
			return 0, err
		}
		index, _ := r.t.lines.add(line{function: f, line: at.Line(), column: at.Column()})
		list = append(list, index)
	}
	return r.t.list(list), nil
}

// location keeps l, whose frames it finds.
func (t *tables) location(l location) uint32 {
	frameType := t.text(l.attributes, frameTypeKey)
	file := t.mappings.items[l.mapping].file
	if file == 0 {
		file = t.text(l.attributes, mappingFileKey)
	}
	var frames []uint32
	for i := range indices(t.lists.items[l.lines]) {
		f := t.functions.items[t.lines.items[i].function]
		at := frame{name: f.name, systemName: f.systemName, file: f.file, startLine: f.startLine, mapping: file, frameType: frameType}
		if at.name == 0 {
			at.name = f.systemName
		}
		if at.name == 0 {
			at.address, at.part = l.address, true
		}
		index, _ := t.frames.add(at)
		frames = append(frames, index)
	}
	if len(frames) == 0 {
		at := frame{mapping: file, frameType: frameType, address: l.address, part: true}
		if start, ok := t.number(l.attributes, functionKey); ok {
			at.address, at.part = start, false
		}
		index, _ := t.frames.add(at)
		frames = append(frames, index)
	}
	l.frames = t.list(frames)
	index, isNew := t.locations.add(l)
	if isNew {
		t.frameTypes = append(t.frameTypes, frameType)
		t.guessed = append(t.guessed, t.isTrue(l.attributes, stopreason.GuessedAttribute))
	}
	return index
}

// text finds what an attribute reads, 0 if it isn't there.
func (t *tables) text(list uint32, key string) uint32 {
	for i := range indices(t.lists.items[list]) {
		if a := t.attrs.items[i]; t.strings.items[a.key] == key {
			return t.values.items[a.value].text
		}
	}
	return 0
}

// isTrue tells whether there is an attribute and it is true.
func (t *tables) isTrue(list uint32, key string) bool {
	for i := range indices(t.lists.items[list]) {
		if a := t.attrs.items[i]; t.strings.items[a.key] == key {
			v := t.values.items[a.value]
			return v.kind == valueBool && v.number == 1
		}
	}
	return false
}

// number finds an attribute that is an integer.
func (t *tables) number(list uint32, key string) (n uint64, ok bool) {
	for i := range indices(t.lists.items[list]) {
		if a := t.attrs.items[i]; t.strings.items[a.key] == key {
			v := t.values.items[a.value]
			return v.number, v.kind == valueInt
		}
	}
	return 0, false
}

// stack returns the node of a stack's innermost location.
func (r *reader) stack(i int32) (uint32, error) {
	return r.once(r.stacks, i, "stack", func(i int) (uint32, error) {
		list := r.dict.StackTable().At(i).LocationIndices()
		if list.Len() > maxDepth {
			return 0, fmt.Errorf("%w: stack %d has %d locations", ErrMalformed, i, list.Len())
		}
		at := uint32(0)
		for k := list.Len() - 1; k >= 0; k-- {
			l, err := r.location(list.At(k))
			if err != nil {
				return 0, fmt.Errorf("stack %d: %w", i, err)
			}
			var isNew bool
			if at, isNew = r.t.nodes.add(node{at, l}); isNew {
				if err := r.took(); err != nil {
					return 0, err
				}
			}
		}
		return at, nil
	})
}
