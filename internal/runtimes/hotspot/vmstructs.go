package hotspot

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// The variables that lead to vmStructs: share/runtime/vmStructs.cpp, JDK 8 to 26. Tables end with an entry without a name; what an
// entry looks like is said by variables, too.
const (
	structs = iota
	structType
	structField
	structKind
	structStatic
	structOffset
	structAddress
	structStride
	types
	typeName
	typeSize
	typeStride
	constants
	constantName
	constantValue
	constantStride

	variables
)

func variableNames() [variables]string {
	return [variables]string{
		"gHotSpotVMStructs", "gHotSpotVMStructEntryTypeNameOffset", "gHotSpotVMStructEntryFieldNameOffset",
		"gHotSpotVMStructEntryTypeStringOffset", "gHotSpotVMStructEntryIsStaticOffset", "gHotSpotVMStructEntryOffsetOffset",
		"gHotSpotVMStructEntryAddressOffset", "gHotSpotVMStructEntryArrayStride",
		"gHotSpotVMTypes", "gHotSpotVMTypeEntryTypeNameOffset", "gHotSpotVMTypeEntrySizeOffset", "gHotSpotVMTypeEntryArrayStride",
		"gHotSpotVMIntConstants", "gHotSpotVMIntConstantEntryNameOffset", "gHotSpotVMIntConstantEntryValueOffset",
		"gHotSpotVMIntConstantEntryArrayStride",
	}
}

const (
	maxEntries              = 1 << 13 // of a table; all together have some 2,000
	minStride, maxStride    = 16, 128 // of an entry, in bytes
	maxEntryText            = 256
	textPage, maxTextPages  = 4096, 1024
	entriesRead, pointerLen = 64, 8
)

// vm is what vmStructs say.
type vm struct {
	text   *texts
	fields map[string]vmField // by "Type::field"
	sizes  map[string]uint64  // of types
	ints   map[string]int32
}

// vmField is a field of a type: its offset, or its address if it is static.
type vmField struct {
	static bool
	at     uint64
	kind   uint64 // address of the text that says what it is
}

// texts reads C strings that lie close together.
type texts struct {
	mem   unwind.Memory
	pages map[uint64][]byte
}

// at returns the string at an address; what is longer than those in the tables are is cut off.
func (t *texts) at(a uint64) (string, error) {
	var out []byte
	for len(out) < maxEntryText {
		number, offset := a/textPage, a%textPage
		page, ok := t.pages[number]
		if !ok {
			if len(t.pages) >= maxTextPages {
				return "", fmt.Errorf("vmStructs' texts lie far apart: %w", runtimes.ErrUnsupported)
			}
			page = make([]byte, textPage)
			if err := t.mem.Read(unwind.Addr(number*textPage), page); err != nil {
				return "", err
			}
			t.pages[number] = page
		}
		rest := page[offset:]
		if n := bytes.IndexByte(rest, 0); n >= 0 {
			return string(append(out, rest[:n]...)), nil
		}
		out = append(out, rest...)
		a += uint64(len(rest))
	}
	return string(out[:maxEntryText]), nil
}

// readVM reads vmStructs. ErrNotReady if they are not there yet: some versions make them when they start.
func readVM(mem unwind.Memory, at [variables]unwind.FileAddr, bias uint64) (*vm, error) {
	var value [variables]uint64
	for i, a := range at {
		var b [8]byte
		if err := mem.Read(unwind.Addr(uint64(a)+bias), b[:]); err != nil {
			return nil, err
		}
		value[i] = binary.LittleEndian.Uint64(b[:])
	}
	v := &vm{
		text:   &texts{mem, map[uint64][]byte{}},
		fields: map[string]vmField{}, sizes: map[string]uint64{}, ints: map[string]int32{},
	}
	word := func(entry []byte, offset int) uint64 { return binary.LittleEndian.Uint64(entry[value[offset]:]) }
	err := v.table(value[structs], value[structStride], value[structType:structStride], word, structType,
		func(name string, entry []byte) error {
			field, err := v.text.at(word(entry, structField))
			if err != nil {
				return err
			}
			f := vmField{static: binary.LittleEndian.Uint32(entry[value[structStatic]:]) != 0, kind: word(entry, structKind)}
			if f.at = word(entry, structOffset); f.static {
				f.at = word(entry, structAddress)
			}
			v.fields[name+"::"+field] = f
			return nil
		})
	if err == nil {
		err = v.table(value[types], value[typeStride], value[typeName:typeStride], word, typeName,
			func(name string, entry []byte) error {
				v.sizes[name] = word(entry, typeSize)
				return nil
			})
	}
	if err == nil {
		err = v.table(value[constants], value[constantStride], value[constantName:constantStride], word, constantName,
			func(name string, entry []byte) error {
				v.ints[name] = int32(binary.LittleEndian.Uint32(entry[value[constantValue]:]))
				return nil
			})
	}
	if err != nil {
		return nil, fmt.Errorf("reading vmStructs: %w", err)
	}
	return v, nil
}

// table reads one table; offsets are those in an entry.
func (v *vm) table(at, stride uint64, offsets []uint64, word func([]byte, int) uint64, name int,
	add func(name string, entry []byte) error,
) error {
	if at == 0 || stride == 0 {
		return fmt.Errorf("a table is not there: %w", runtimes.ErrNotReady)
	}
	if stride < minStride || stride > maxStride || stride%pointerLen != 0 {
		return fmt.Errorf("entries of %d bytes: %w", stride, runtimes.ErrUnsupported)
	}
	for _, o := range offsets {
		if o+pointerLen > stride+4 || o > stride { // the last field may have four bytes
			return fmt.Errorf("a field at %d in entries of %d bytes: %w", o, stride, runtimes.ErrUnsupported)
		}
	}
	b := make([]byte, entriesRead*stride+pointerLen)
	for n := range uint64(maxEntries) {
		i := n % entriesRead
		if i == 0 {
			// entries near the table's end may lie at the end of what can be read
			if err := v.text.mem.Read(unwind.Addr(at+n*stride), b[:entriesRead*stride]); err != nil {
				if err := readOneByOne(v.text.mem, at+n*stride, stride, b[:entriesRead*stride]); err != nil {
					return err
				}
			}
		}
		entry := b[i*stride:]
		p := word(entry, name)
		if p == 0 {
			return nil
		}
		text, err := v.text.at(p)
		if err == nil {
			err = add(text, entry)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("a table without an end: %w", runtimes.ErrUnsupported)
}

// readOneByOne reads as many entries as can be read, and at least one; the others are zero.
func readOneByOne(mem unwind.Memory, at, stride uint64, b []byte) error {
	clear(b)
	for i := uint64(0); i < uint64(len(b)); i += stride {
		if err := mem.Read(unwind.Addr(at+i), b[i:i+stride]); err != nil {
			if i == 0 {
				return err
			}
			return nil
		}
	}
	return nil
}
