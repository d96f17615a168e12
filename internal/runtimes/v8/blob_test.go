package v8

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// blobFile is a library as Debian builds it: a blob and what tells of it. Addresses are file offsets.
type blobFile struct {
	stride   int
	align    int
	packed   bool // the array's addresses are in place, and there are no relocations
	surplus  int  // names of something else behind the array
	names    []string
	sizes    []int
	constant []byte // .rodata
	array    []byte // .data.rel.ro
	text     []byte
	rela     []byte
}

const (
	constantAt = 0x1000
	arrayAt    = 0x40000
	textAt     = 0x80000
	blobAt     = 0x1c0 // in the text
	fakes      = 700
)

// newBlobFile has builtins of various sizes, handlers at their end.
func newBlobFile(stride, align int) *blobFile {
	b := &blobFile{stride: stride, align: align}
	for i := range fakes {
		name := fmt.Sprintf("Builtin%d", i)
		switch {
		case i == 0:
			name = firstName
		case i == 5:
			name = interpreter
		case i >= fakes-200:
			name += "Handler"
		}
		b.names, b.sizes = append(b.names, name), append(b.sizes, 1+i*37%301)
	}
	b.sizes[5] = 100
	return b
}

func (b *blobFile) make() *blobFile {
	b.constant = []byte("x" + firstName + "y\x00")
	var at []uint64
	for _, name := range append(b.names, slices.Repeat([]string{"Surplus"}, b.surplus)...) {
		at = append(at, constantAt+uint64(len(b.constant)))
		b.constant = append(b.constant, name+"\x00"...)
	}
	b.constant = append(b.constant, make([]byte, 24+(-len(b.constant)&7))...) // three checksums
	b.text = bytes.Repeat([]byte{0x90}, blobAt)
	for i, size := range b.sizes {
		entry := make([]byte, b.stride)
		binary.LittleEndian.PutUint32(entry, uint32(len(b.text)-blobAt))
		binary.LittleEndian.PutUint32(entry[4:], uint32(size))
		b.constant = append(b.constant, entry...)
		code := bytes.Repeat([]byte{0x90}, size)
		if i == 5 {
			copy(code[40:], "\xff\xd1")
		}
		b.text = append(b.text, code...)
		b.text = append(b.text, bytes.Repeat([]byte{padding}, b.align-len(b.text)%b.align)...)
	}
	b.text = append(b.text, bytes.Repeat([]byte{0x90}, 0x2000)...)
	b.constant = append(b.constant, bytes.Repeat([]byte{0xee}, 100)...)
	b.array = make([]byte, 16)
	for i, a := range at {
		entry := make([]byte, metadataBytes)
		if b.packed {
			binary.LittleEndian.PutUint64(entry, a)
		} else {
			b.rela = binary.LittleEndian.AppendUint64(b.rela, arrayAt+uint64(len(b.array)))
			b.rela = binary.LittleEndian.AppendUint64(b.rela, uint64(elf.R_X86_64_RELATIVE))
			b.rela = binary.LittleEndian.AppendUint64(b.rela, a)
		}
		entry[8] = byte(i % 9)
		b.array = append(b.array, entry...)
	}
	b.array = append(b.array, bytes.Repeat([]byte{0xff}, 64)...)
	return b
}

// file puts the parts into an ELF file.
func (b *blobFile) file(t *testing.T) *elffile.File {
	t.Helper()
	sections := []struct {
		kind  elf.SectionType
		flags elf.SectionFlag
		at    int
		data  []byte
	}{
		{kind: elf.SHT_NULL},
		{elf.SHT_PROGBITS, elf.SHF_ALLOC, constantAt, b.constant},
		{elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_WRITE, arrayAt, b.array},
		{elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_EXECINSTR, textAt, b.text},
		{elf.SHT_RELA, elf.SHF_ALLOC, textAt + len(b.text), b.rela},
		{elf.SHT_STRTAB, 0, textAt + len(b.text) + len(b.rela), []byte{0}},
	}
	size := textAt + len(b.text) + len(b.rela) + 64
	out := make([]byte, size)
	for _, s := range sections {
		copy(out[s.at:], s.data)
	}
	copy(out, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(out[16:], uint16(elf.ET_DYN))
	le.PutUint16(out[18:], uint16(elf.EM_X86_64))
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[32:], 64)           // program headers
	le.PutUint64(out[40:], uint64(size)) // sections
	le.PutUint16(out[52:], 64)
	le.PutUint16(out[54:], 56)
	le.PutUint16(out[56:], 1)
	le.PutUint16(out[58:], 64)
	le.PutUint16(out[60:], uint16(len(sections)))
	le.PutUint16(out[62:], uint16(len(sections)-1))
	p := out[64:]
	le.PutUint32(p, uint32(elf.PT_LOAD))
	le.PutUint32(p[4:], uint32(elf.PF_R|elf.PF_X))
	le.PutUint64(p[32:], uint64(size))
	le.PutUint64(p[40:], uint64(size))
	le.PutUint64(p[48:], 0x1000)
	for _, s := range sections {
		h := make([]byte, 64)
		le.PutUint32(h[4:], uint32(s.kind))
		le.PutUint64(h[8:], uint64(s.flags))
		le.PutUint64(h[16:], uint64(s.at))
		le.PutUint64(h[24:], uint64(s.at))
		le.PutUint64(h[32:], uint64(len(s.data)))
		out = append(out, h...)
	}
	f, err := elffile.New(bytes.NewReader(out), int64(len(out)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBlob: without symbols, builtins are found where they are, by their names.
func TestBlob(t *testing.T) {
	for v, stride := range map[version]int{{10, 2}: 28, {11, 3}: 32, {12, 4}: 12, {14, 6}: 12} {
		for _, align := range []int{32, 64} {
			for _, packed := range []bool{false, true} {
				b := newBlobFile(stride, align)
				b.packed, b.surplus = packed, 2
				f := b.make().file(t)
				all, err := findBuiltins(f, v)
				if err != nil || len(all) != fakes {
					t.Fatalf("%v, alignment %d, packed %v: %d builtins (%v)", v, align, packed, len(all), err)
				}
				at := textAt + blobAt
				for i, x := range all {
					if int(x.start) != at || x.size != uint64(b.sizes[i]) || x.name != b.names[i] {
						t.Fatalf("%d: %+v", i, x)
					}
					at += (b.sizes[i] + align) / align * align
				}
				s := &symbols{builtins: all}
				e, err := s.embedded()
				if err != nil || len(e.parts) != 2 {
					t.Fatalf("%+v (%v)", e.parts, err)
				}
				if back, err := e.interpreterReturn(f); err != nil || back != all[5].start+42 {
					t.Errorf("the interpreter's call is at %#x (%v)", back, err)
				}
			}
		}
	}
	if _, err := findBuiltins(newBlobFile(28, 32).make().file(t), version{9, 4}); !errors.Is(err, runtimes.ErrUnsupported) {
		t.Errorf("9.4: %v", err)
	}
}

// TestNoBlob: what does not fit is not taken for a blob.
func TestNoBlob(t *testing.T) {
	entry := func(b *blobFile, i int) []byte {
		return b.constant[len(b.constant)-100-(fakes-i)*b.stride:]
	}
	for name, change := range map[string]func(b *blobFile){
		"no names":             func(b *blobFile) { b.constant[bytes.Index(b.constant, []byte("\x00"+firstName))+3] = 'x' },
		"few names":            func(b *blobFile) { b.array[16+metadataBytes*(fewestBuiltins-1)+12] = 1 },
		"another name":         func(b *blobFile) { b.constant[bytes.Index(b.constant, []byte("Builtin77\x00"))] = ' ' },
		"an empty builtin":     func(b *blobFile) { clear(entry(b, 9)[4:8]) },
		"a builtin that grows": func(b *blobFile) { entry(b, 9)[6]++ },
		"a gap":                func(b *blobFile) { entry(b, 9)[1] ^= 4 },
		"no padding":           func(b *blobFile) { b.text[blobAt+b.sizes[0]] = 0x90 },
		"two blobs":            func(b *blobFile) { b.text = append(b.text, b.text...) },
		"no code":              func(b *blobFile) { b.text = b.text[:blobAt+100] },
		"relocations of nothing": func(b *blobFile) {
			for i := range b.rela {
				b.rela[i] = 0xff
			}
		},
	} {
		b := newBlobFile(12, 64).make()
		change(b)
		if all, err := findBuiltins(b.file(t), version{12, 4}); !errors.Is(err, runtimes.ErrUnsupported) || all != nil {
			t.Errorf("%s: %d builtins (%v)", name, len(all), err)
		}
	}
}

// TestHostileBlob: a file that is made to be searched for long is given up.
func TestHostileBlob(t *testing.T) {
	for name, change := range map[string]func(b *blobFile){
		"padding everywhere": func(b *blobFile) {
			b.text = bytes.Repeat([]byte{padding}, 8<<20)
			for i := 0x700; i < len(b.text); i += 0x1000 {
				b.text[i] = 0x90
			}
		},
		"tables everywhere": func(b *blobFile) {
			for i := range b.constant[len(b.constant)-100-(fakes-1)*b.stride:] {
				b.constant[len(b.constant)-1-i] = map[bool]byte{true: 32, false: 0}[i%4 == 3]
			}
		},
	} {
		b := newBlobFile(12, 64).make()
		change(b)
		f := &blobFinder{file: b.file(t), scanned: maxScanned, compared: maxCompared / 1000}
		began := time.Now()
		all, err := f.find(12)
		if len(all) > 0 || err != nil && !errors.Is(err, runtimes.ErrUnsupported) {
			t.Errorf("%s: %d builtins (%v)", name, len(all), err)
		}
		if f.compared > maxCompared/1000 || f.compared < -20*fakes {
			t.Errorf("%s: compared %d too often in %v", name, -f.compared, time.Since(began))
		}
	}
	b := newBlobFile(12, 64).make()
	if _, err := (&blobFinder{file: b.file(t), scanned: 1000, compared: maxCompared}).find(12); !errors.Is(err, errSearched) {
		t.Errorf("a large file: %v", err)
	}
}

// TestEmbeddedVersion finds who has embedded which V8.
func TestEmbeddedVersion(t *testing.T) {
	for text, want := range map[string]struct {
		v    version
		rust bool
	}{
		"\x0015.0.245.2-rusty\x00":             {version{15, 0}, true},
		"12.4.254.21-electron.0\x00":           {version{12, 4}, false},
		"x-rusty\x00 13.2.152.41-rusty\x00":    {version{13, 2}, true},
		"1.2.3-rusty\x00":                      {},
		"1.2.3.4.5-rusty\x00":                  {},
		"1..3.4-rusty\x00":                     {},
		"99999999999999999999.1.1.1-rusty\x00": {},
		"15.0.245.2-rusty":                     {},
		"15.0.245.2-node.1\x00":                {},
	} {
		b := newBlobFile(12, 64).make()
		b.constant = append(b.constant, text...)
		v, rust, err := embeddedVersion(b.file(t))
		if err != nil || v != want.v || rust != want.rust {
			t.Errorf("%q: %v, %v (%v)", text, v, rust, err)
		}
	}
}

// TestRustConstants: what is known of Deno is enough for its version, and no other's.
func TestRustConstants(t *testing.T) {
	c := rustConstants(version{15, 0})
	if _, err := layoutOf(version{15, 0}, unwind.ArchAMD64, c); err != nil {
		t.Error(err)
	}
	types, err := typesOf(c)
	if err != nil || types.stream == noType || types.wrapper == noType || len(types.wasm) != 1 || len(types.uncompiled) != 4 {
		t.Errorf("%+v (%v)", types, err)
	}
	if rustConstants(version{14, 9}) != nil {
		t.Error("14.9 is known")
	}
}
