package dwarf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// textAddr and textSize are where a synthetic file has its code.
const (
	textAddr = 0x10000
	textSize = 0x10000
)

// synthetic makes an ELF file with the given sections, and one of code without data.
func synthetic(t testing.TB, sections map[string][]byte) *elffile.File {
	t.Helper()
	return openBytes(t, syntheticBytes(sections))
}

func openBytes(t testing.TB, b []byte) *elffile.File {
	t.Helper()
	f, err := elffile.NewDebug(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func syntheticBytes(sections map[string][]byte) []byte {
	const header, entry = 64, 64 // sizes of Elf64_Ehdr and Elf64_Shdr
	le := binary.LittleEndian
	names, body := []byte("\x00.text\x00.shstrtab\x00"), make([]byte, header)
	headers := make([]byte, 2*entry)
	text := headers[entry:]
	le.PutUint32(text, 1)
	le.PutUint32(text[4:], uint32(elf.SHT_NOBITS))
	le.PutUint64(text[8:], uint64(elf.SHF_ALLOC|elf.SHF_EXECINSTR))
	le.PutUint64(text[16:], textAddr)
	le.PutUint64(text[32:], textSize)
	add := func(name int, typ elf.SectionType, data []byte) {
		h := make([]byte, entry)
		le.PutUint32(h, uint32(name))
		le.PutUint32(h[4:], uint32(typ))
		le.PutUint64(h[24:], uint64(len(body)))
		le.PutUint64(h[32:], uint64(len(data)))
		headers, body = append(headers, h...), append(body, data...)
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		at := len(names)
		names = append(append(names, name...), 0)
		add(at, elf.SHT_PROGBITS, sections[name])
	}
	add(7, elf.SHT_STRTAB, names)
	copy(body, "\x7fELF\x02\x01\x01")
	le.PutUint16(body[16:], uint16(elf.ET_DYN))
	le.PutUint16(body[18:], uint16(elf.EM_X86_64))
	le.PutUint64(body[40:], uint64(len(body))) // e_shoff
	le.PutUint16(body[58:], entry)
	le.PutUint16(body[60:], uint16(len(headers)/entry))
	le.PutUint16(body[62:], uint16(len(headers)/entry-1))
	return append(body, headers...)
}

// writer writes DWARF.
type writer struct{ b []byte }

func (w *writer) u8(v ...uint8) *writer { w.b = append(w.b, v...); return w }
func (w *writer) u16(v uint16) *writer  { w.b = binary.LittleEndian.AppendUint16(w.b, v); return w }
func (w *writer) u32(v uint32) *writer  { w.b = binary.LittleEndian.AppendUint32(w.b, v); return w }
func (w *writer) u64(v uint64) *writer  { w.b = binary.LittleEndian.AppendUint64(w.b, v); return w }
func (w *writer) uleb(v uint64) *writer { w.b = binary.AppendUvarint(w.b, v); return w }
func (w *writer) str(v string) *writer  { w.b = append(append(w.b, v...), 0); return w }
func (w *writer) raw(v []byte) *writer  { w.b = append(w.b, v...); return w }
func (w *writer) pos() uint32           { return uint32(len(w.b)) }
func (w *writer) set32(at, v uint32)    { binary.LittleEndian.PutUint32(w.b[at:], v) }

// declare writes an abbreviation: pairs of attribute and form.
func (w *writer) declare(code, tag uint64, children bool, attrs ...uint64) *writer {
	w.uleb(code).uleb(tag)
	if children {
		w.u8(1)
	} else {
		w.u8(0)
	}
	for _, v := range attrs {
		w.uleb(v)
	}
	return w.u8(0, 0)
}

// The abbreviations that synthetic units use.
const (
	abUnit     = 1 // low_pc, high_pc (data8), language (data1), children
	abFunction = 2 // name, low_pc, high_pc, children
	abInlined  = 3 // abstract_origin (ref4), low_pc, high_pc, call_line (data4), children
	abAbstract = 4 // name, abstract_origin (ref4)
	abBlock    = 5 // children
	abSibling  = 6 // sibling (ref4), children
	abSpace    = 7 // name, children
	abIndirect = 8 // name (indirect)
	abStruct   = 9 // name, children

	abRanges     = 10 // name, ranges (sec_offset)
	abUnitRanges = 11 // ranges (sec_offset), language (data1), children

	abDeclared = 12 // name, linkage_name
	abInstance = 13 // specification (ref4), low_pc, high_pc, children
	abTypeOf   = 14 // specification (ref4), children
	abClosure  = 15 // decl_line (data1), children

	tagCompileUnit = 0x11
)

func abbreviations() []byte {
	w := &writer{}
	w.declare(abUnit, tagCompileUnit, true, atLowPC, formAddr, atHighPC, formData8, atLanguage, formData1)
	w.declare(abFunction, tagSubprogram, true, atName, formString, atLowPC, formAddr, atHighPC, formData8)
	w.declare(abInlined, tagInlinedSubroutine, true, atAbstractOrigin, formRef4, atLowPC, formAddr, atHighPC, formData8,
		atCallLine, formData4)
	w.declare(abAbstract, tagSubprogram, false, atName, formString, atAbstractOrigin, formRef4)
	w.declare(abBlock, tagLexicalBlock, true)
	w.declare(abSibling, tagStructureType, true, atSibling, formRef4)
	w.declare(abSpace, tagNamespace, true, atName, formString)
	w.declare(abIndirect, tagSubprogram, false, atName, formIndirect)
	w.declare(abStruct, tagStructureType, true, atName, formString)
	w.declare(abRanges, tagSubprogram, false, atName, formString, atRanges, formSecOffset)
	w.declare(abUnitRanges, tagCompileUnit, true, atRanges, formSecOffset, atLanguage, formData1)
	w.declare(abDeclared, tagSubprogram, false, atName, formString, atLinkageName, formString)
	w.declare(abInstance, tagSubprogram, true, atSpecification, formRef4, atLowPC, formAddr, atHighPC, formData8)
	w.declare(abTypeOf, tagStructureType, true, atSpecification, formRef4)
	w.declare(abClosure, tagStructureType, true, atDeclLine, formData1)
	return w.u8(0).b
}

// infoOf makes .debug_info of one unit of version 4 around the DIEs that body writes. Offsets count from 0.
func infoOf(lang uint8, body func(w *writer)) []byte {
	return unitOf(4, func(w *writer) {
		w.uleb(abUnit).u64(textAddr).u64(textSize).u8(lang)
		body(w)
		w.u8(0)
	})
}

// unitOf makes .debug_info of one unit, whose DIEs are all that dies writes.
func unitOf(version uint16, dies func(w *writer)) []byte {
	w := &writer{}
	w.u32(0).u16(version)
	if version < 5 {
		w.u32(0).u8(8)
	} else {
		w.u8(1, 8).u32(0) // DW_UT_compile
	}
	dies(w)
	w.set32(0, w.pos()-4)
	return w.b
}

func (w *writer) function(name string, low, size uint64) *writer {
	return w.uleb(abFunction).str(name).u64(low).u64(size)
}

func (w *writer) inlined(origin uint32, low, size uint64, line uint32) *writer {
	return w.uleb(abInlined).u32(origin).u64(low).u64(size).u32(line)
}
