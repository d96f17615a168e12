package ehframe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// textFile is a file whose code is [0x10000, 0x10000+size).
func textFile(size uint64) *elffile.File {
	return &elffile.File{Segments: []unwind.Segment{{VAddr: 0x10000, FileSize: size, MemSize: size, Exec: true}}}
}

// assembler puts a section together.
type assembler struct{ b []byte }

func (a *assembler) entry(id uint32, body []byte) (off int) {
	off = len(a.b)
	a.b = binary.LittleEndian.AppendUint32(a.b, uint32(4+len(body)))
	a.b = binary.LittleEndian.AppendUint32(a.b, id)
	a.b = append(a.b, body...)
	return off
}

// cie adds a CIE for amd64 without augmentation: CFA = rsp+8, the return address at CFA-8, then more.
func (a *assembler) cie(more ...byte) int {
	return a.entry(0, append([]byte{1, 0, 1, 0x78, 16, cfaDefCFA, 7, 8, cfaOffset | 16, 1}, more...))
}

func (a *assembler) fde(cie int, start, size uint64, ins ...byte) int {
	b := binary.LittleEndian.AppendUint64(nil, start)
	b = binary.LittleEndian.AppendUint64(b, size)
	return a.entry(uint32(len(a.b)+4-cie), append(b, ins...))
}

func (a *assembler) section() *section { return &section{data: a.b, arch: unwind.ArchAMD64} }

func (a *assembler) table(t *testing.T, size uint64) (*unwind.Table, Stats) {
	t.Helper()
	tab, st, err := a.section().table(textFile(size))
	if err != nil {
		t.Fatal(err)
	}
	checkTable(t, tab)
	return tab, st
}

// TestOrder has FDEs out of order, overlapping, twice, empty, beyond the segment and outside it, and a zero length among
// them.
func TestOrder(t *testing.T) {
	var a assembler
	c := a.cie()
	a.fde(c, 0x10100, 0x10)
	a.fde(c, 0x10000, 0x80, cfaAdvanceLoc|0x3f, cfaDefCFAOffset, 16) // up to 0x10040, cut by the next
	a.b = append(a.b, 0, 0, 0, 0)
	a.fde(c, 0x10020, 0x10, cfaDefCFAOffset, 24)
	a.fde(c, 0x10020, 0x18, cfaDefCFAOffset, 32) // a copy
	a.fde(c, 0x10180, 0)
	a.fde(c, 0x101f0, 1<<40, cfaDefCFAOffset, 40)
	a.fde(c, 0x500, 0x100)
	tab, st := a.table(t, 0x200)
	want := `0x10000 cfa=r7+8 ra=c-8
0x10020 cfa=r7+24 ra=c-8
0x10030 none
0x10100 cfa=r7+8 ra=c-8
0x10110 none
0x101f0 cfa=r7+40 ra=c-8
0x10200 none
`
	if got := dump(tab); got != want || st.Outside != 2 || st.FDEs != 5 || st.Malformed != 0 {
		t.Errorf("%+v\n%swant\n%s", st, got, want)
	}
}

// TestWide has entries with lengths of 64 bits.
func TestWide(t *testing.T) {
	for _, debug := range []bool{false, true} {
		wide := func(b []byte, id uint64, body []byte) []byte {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			size := 4
			if debug {
				size = 8
			}
			b = binary.LittleEndian.AppendUint64(b, uint64(size+len(body)))
			b = append(b, binary.LittleEndian.AppendUint64(nil, id)[:size]...)
			return append(b, body...)
		}
		body := []byte{1, 0, 1, 0x78, 16, cfaDefCFA, 7, 8, cfaOffset | 16, 1}
		fde := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 0x10000), 16)
		var b []byte
		if debug {
			b = wide(nil, ^uint64(0), body)
			b = wide(b, 0, fde)
		} else {
			b = wide(nil, 0, body)
			b = wide(b, uint64(len(b)+12), fde)
		}
		s := section{data: b, debug: debug, arch: unwind.ArchAMD64}
		tab, st, err := s.table(textFile(0x100))
		if err != nil || dump(tab) != "0x10000 cfa=r7+8 ra=c-8\n0x10010 none\n" || st.Malformed != 0 {
			t.Errorf("debug %v: %+v, %v\n%s", debug, st, err, dump(tab))
		}
	}
}

// TestMalformed leaves out what makes no sense and keeps the rest.
func TestMalformed(t *testing.T) {
	le := binary.LittleEndian
	for name, spoil := range map[string]func(a *assembler, cie int){
		"pointer to no CIE":    func(a *assembler, cie int) { a.fde(cie+1, 0x10010, 8) },
		"pointer to an FDE":    func(a *assembler, cie int) { a.fde(len(a.b), 0x10010, 8) },
		"pointer forwards":     func(a *assembler, cie int) { a.entry(^uint32(99), make([]byte, 16)) },
		"end before start":     func(a *assembler, cie int) { a.fde(cie, 0x10010, ^uint64(0)) },
		"short FDE":            func(a *assembler, cie int) { a.entry(uint32(len(a.b)+4-cie), make([]byte, 10)) },
		"unknown version":      func(a *assembler, cie int) { a.entry(0, []byte{9, 0, 1, 0x78, 16}) },
		"unknown augmentation": func(a *assembler, cie int) { a.entry(0, []byte{1, 'z', 'Q', 0, 1, 0x78, 16, 0}) },
		"endless augmentation": func(a *assembler, cie int) { a.entry(0, []byte{1, 'z', 'R', 'L', 'P'}) },
		"long augmentation":    func(a *assembler, cie int) { a.entry(0, []byte{1, 'z', 0, 1, 0x78, 16, 0x7f}) },
		"advance in a CIE":     func(a *assembler, cie int) { a.entry(0, []byte{1, 0, 1, 0x78, 16, cfaAdvanceLoc | 1}) },
		"restore in a CIE":     func(a *assembler, cie int) { a.entry(0, []byte{1, 0, 1, 0x78, 16, cfaRestore | 16}) },
		"length behind end":    func(a *assembler, cie int) { a.b = le.AppendUint32(a.b, 0x1000000) },
		"huge length": func(a *assembler, cie int) {
			a.b = le.AppendUint64(le.AppendUint32(a.b, 0xffffffff), 1<<63)
		},
	} {
		var a assembler
		c := a.cie()
		a.fde(c, 0x10000, 8)
		spoil(&a, c)
		tab, st := a.table(t, 0x100)
		if dump(tab) != "0x10000 cfa=r7+8 ra=c-8\n0x10008 none\n" || st.Malformed != 1 {
			t.Errorf("%s: %+v\n%s", name, st, dump(tab))
		}
	}
	for name, ins := range map[string][]byte{
		"restore without remember": {cfaRestoreState},
		"cut":                      {cfaDefCFA},
		"long expression":          {cfaDefCFAExpression, 0x7f, 1},
		"back":                     append([]byte{cfaSetLoc}, make([]byte, 8)...),
		"endless number":           bytes.Repeat([]byte{0x80}, 40),
	} {
		var a assembler
		c := a.cie()
		a.fde(c, 0x10000, 0x10, append([]byte{cfaAdvanceLoc | 4}, ins...)...)
		tab, st := a.table(t, 0x100)
		if got := dump(tab); got != "0x10000 cfa=r7+8 ra=c-8\n0x10004 none\n" || st.Inexpressible[ReasonInstruction] != 1 {
			t.Errorf("%s: %+v\n%s", name, st, got)
		}
	}
}

// TestLinear gives sections that are made to cost more than their size.
func TestLinear(t *testing.T) {
	const size = 4 << 20
	for name, make := range map[string]func(a *assembler){
		"expensive CIE": func(a *assembler) {
			c := a.cie(bytes.Repeat([]byte{cfaRememberState, cfaRestoreState}, size/4)...)
			for i := range uint64(size / 2 / 28) {
				a.fde(c, 0x10000+i*4, 4)
			}
		},
		"CIEs only": func(a *assembler) {
			for range size / 32 {
				a.cie()
			}
		},
		"remembering": func(a *assembler) { a.fde(a.cie(), 0x10000, 1000, bytes.Repeat([]byte{cfaRememberState}, size)...) },
		"long expression in every row": func(a *assembler) {
			expr := append([]byte{cfaDefCFAExpression, 0x80, 0x80, 0x40}, bytes.Repeat([]byte{opNop}, 1<<20)...)
			rows := bytes.Repeat([]byte{cfaAdvanceLoc | 1, cfaOffset | 6, 2}, size/4)
			a.fde(a.cie(), 0x10000, 1<<30, append(expr, rows...)...)
		},
		"all rules different": func(a *assembler) {
			var ins []byte
			for i := range uint64(size / 5) {
				ins = binary.AppendUvarint(append(ins, cfaAdvanceLoc|1, cfaDefCFAOffset), i)
			}
			a.fde(a.cie(), 0x10000, 1<<30, ins...)
		},
		"one start": func(a *assembler) {
			c := a.cie()
			for range size / 28 {
				a.fde(c, 0x10000, 1<<20)
			}
		},
		"descending": func(a *assembler) {
			c := a.cie()
			for i := range uint64(size / 28) {
				a.fde(c, 1<<25-8*i, 1<<20)
			}
		},
	} {
		var a assembler
		make(&a)
		begin := time.Now()
		tab, st, err := a.section().table(textFile(1 << 30))
		if took := time.Since(begin); err != nil || took > 5*time.Second {
			t.Errorf("%s: %v for %d bytes, %v", name, took, len(a.b), err)
		} else {
			t.Logf("%s: %v, %d rows, %d rules, %+v", name, took, len(tab.Rows), len(tab.Rules), st)
		}
		checkTable(t, tab)
	}
}

func FuzzTable(f *testing.F) {
	var a assembler
	c := a.cie()
	a.fde(c, 0x10000, 0x40, cfaAdvanceLoc|1, cfaDefCFAOffset, 16, cfaRememberState, cfaOffset|6, 2, cfaAdvanceLoc1, 4,
		cfaRestoreState, cfaDefCFAExpression, 2, opBReg0+6, 8, cfaExpression, 3, 2, opBReg0+6, 0)
	f.Add(a.b, uint64(0), false, false)
	f.Add(a.b, uint64(0x2000), true, true)
	for _, name := range []string{"cfi_amd64", "cfi_arm64", "gcc_amd64", "clang_arm64"} {
		file := unwindtest.Open(f, "../../../testdata/elf/"+name+".elf")
		sec := file.Section(".eh_frame")
		b, err := file.SectionData(sec, MaxSection)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint64(sec.Addr)+0x10000, false, file.Arch == unwind.ArchARM64)
	}
	f.Fuzz(func(t *testing.T, data []byte, addr uint64, debug, arm bool) {
		s := section{data: data, addr: addr, debug: debug, arch: unwind.ArchAMD64}
		if arm {
			s.arch = unwind.ArchARM64
		}
		tab, _, err := s.table(textFile(1 << 20))
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, tab)
	})
}
