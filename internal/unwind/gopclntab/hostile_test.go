package gopclntab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// counter counts the bytes that are read.
type counter struct {
	r    io.ReaderAt
	read uint64
}

func (c *counter) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(b, off)
	c.read += uint64(n)
	return n, err
}

const (
	hostileData = 0x10000 // offset of the contents of a hostile file
	hostileAddr = 0x400000
)

// hostile is a file with as many segments over the same contents as there may be, and sections that all begin there.
func hostile(t *testing.T, contents []byte, sections int) (*elffile.File, *counter) {
	t.Helper()
	const progs, section = 128, 64
	le := binary.LittleEndian
	names := "\x00.text\x00.note.go.buildid\x00.names\x00"
	b := make([]byte, hostileData)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_EXEC))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], progs)
	for i := range progs {
		p := b[64+56*i:]
		le.PutUint32(p, uint32(elf.PT_LOAD))
		le.PutUint32(p[4:], uint32(elf.PF_R|elf.PF_W|elf.PF_X))
		for j, v := range []uint64{hostileData, hostileAddr, hostileAddr, uint64(len(contents)), uint64(len(contents)), 8} {
			le.PutUint64(p[8+8*j:], v)
		}
	}
	copy(b[64+56*progs:], names)
	b = append(b, contents...)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[58:], section)
	le.PutUint16(b[60:], uint16(sections+2))
	le.PutUint16(b[62:], 1)
	header := func(name, typ int, flags elf.SectionFlag, addr, off, size uint64) {
		s := make([]byte, section)
		le.PutUint32(s, uint32(name))
		le.PutUint32(s[4:], uint32(typ))
		for i, v := range []uint64{uint64(flags), addr, off, size} {
			le.PutUint64(s[8+8*i:], v)
		}
		b = append(b, s...)
	}
	header(0, 0, 0, 0, 0, 0)
	header(0, int(elf.SHT_STRTAB), 0, 0, 64+56*progs, uint64(len(names)))
	for i := range sections {
		name := bytes.Index([]byte(names), []byte(".text"))
		if i == 0 {
			name = bytes.Index([]byte(names), []byte(".note"))
		}
		header(name, int(elf.SHT_PROGBITS), elf.SHF_ALLOC|elf.SHF_EXECINSTR, hostileAddr, hostileData, 1)
	}
	c := &counter{r: bytes.NewReader(b)}
	f, err := elffile.New(c, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Segments) != progs || len(f.Sections) != sections+2 || f.Section(".text") == nil && sections > 1 {
		t.Fatalf("%d segments, %d sections", len(f.Segments), len(f.Sections))
	}
	return f, c
}

// TestHostileSearch counts what is read of files that are made to be searched without end.
func TestHostileSearch(t *testing.T) {
	const size = 8 << 20
	start := binary.LittleEndian.AppendUint32(nil, magic120)
	start = append(start, 0, 0, 1, 8)
	pointer := binary.LittleEndian.AppendUint64(nil, hostileAddr)
	for _, c := range []struct {
		name     string
		contents []byte
		sections int
	}{
		{"nothing", make([]byte, size), 1},
		{"beginnings of tables", bytes.Repeat(start, size/8), 1},
		{"beginnings of module data", append(functions(t, 2), bytes.Repeat(pointer, size/8)...), 1},
		{"functions without goexit", functions(t, 40000), 1 << 13},
	} {
		f, n := hostile(t, c.contents, c.sections)
		n.read = 0
		_, err := Find(f)
		t.Logf("%s: %d KiB read, %v", c.name, n.read>>10, err)
		if !errors.Is(err, ErrNotGo) || n.read > maxScan+16<<20 {
			t.Errorf("%s: %d MiB read, %v", c.name, n.read>>20, err)
		}
	}
}

// functions is a pc-line table of n functions of two bytes, without goexit.
func functions(t *testing.T, n int) []byte {
	t.Helper()
	const record = 44
	le := binary.LittleEndian
	names := []byte("f\x00\x00\x00\x00\x00\x00\x00")
	b := le.AppendUint32(nil, magic120)
	b = append(b, 0, 0, 1, 8)
	at := uint64(headerSize)
	for _, v := range []uint64{uint64(n), 0, 0, at, at + 8, at + 8, at + 8, at + 8} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, names...)
	for i := range n {
		b = le.AppendUint32(le.AppendUint32(b, uint32(2*i)), uint32(8*n+8+record*i))
	}
	b = le.AppendUint64(b, uint64(2*n))
	for i := range n {
		r := make([]byte, record)
		le.PutUint32(r, uint32(2*i))
		b = append(b, r...)
	}
	return b
}

// TestManyCalls has nothing but calls in the function that changes stacks, and more frame sizes than any function has: their
// rows are gone through a few times only, and count in the budget of the file.
func TestManyCalls(t *testing.T) {
	code := code32(0x9100001f) // mov sp, x0
	for len(code) < maxCode {
		code = append(code, code32(blrARM64)...)
	}
	rows := make([]row, 1000)
	for i := range rows {
		rows[i] = row{uint64(4 * i), linkRule(int32(16 * i))}
	}
	a := asmFunc{arch: unwind.ArchARM64, framed: true, frame: 16}
	n := testing.AllocsPerRun(10, func() { overrideCgocallARM64(rows, code, []uint64{4}, &a) })
	if n > maxOverrides || n < 2 {
		t.Errorf("the rows are copied %v times", n)
	}

	tab, _, _ := everything(tiny(unwind.ArchARM64, magic120))
	pctab, err := tab.mem.bulk(tab.pctab, "pctab")
	if err != nil {
		t.Fatal(err)
	}
	for budget, enough := range map[int]bool{maxOverrides: false, 4 * maxOverrides: true} {
		b := tableBuilder{t: tab, pctab: pctab, budget: budget}
		if err := b.functions(); (err == nil) != enough {
			t.Errorf("%d: %v", budget, err)
		}
	}
}
