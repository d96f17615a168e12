package tables

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

const (
	mib = 1 << 20
	// testBudget is what the engine gives a large build with the default of 256 MiB.
	testBudget = 64 * mib

	textAddr   = 0x10000000
	framesAddr = 0x1000
)

// part is a section, and the segment that holds it.
type part struct {
	name  string
	typ   elf.SectionType
	flags elf.SectionFlag
	addr  uint64
	size  uint64 // as the header says
	data  []byte // at its start, the rest is a hole
}

// write makes the file; without sections, .eh_frame_hdr becomes PT_GNU_EH_FRAME.
func write(t testing.TB, sections bool, parts ...part) *elffile.File {
	t.Helper()
	le := binary.LittleEndian
	const phSize, shSize, align = 56, 64, 4096
	names, header := "\x00", make([]byte, align)
	copy(header, "\x7fELF\x02\x01\x01")
	le.PutUint16(header[16:], uint16(elf.ET_DYN))
	le.PutUint16(header[18:], uint16(elf.EM_X86_64))
	le.PutUint64(header[32:], 64)
	le.PutUint16(header[54:], phSize)
	path := filepath.Join(t.TempDir(), "hostile")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	put := func(b []byte, at int64) {
		if _, err := w.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	table, off, programs := make([]byte, shSize), uint64(align), 0
	program := func(typ elf.ProgType, flags elf.ProgFlag, p part) {
		b := header[64+phSize*programs:]
		le.PutUint32(b, uint32(typ))
		le.PutUint32(b[4:], uint32(flags))
		for i, v := range []uint64{off, p.addr, p.addr, p.size, p.size, align} {
			le.PutUint64(b[8+8*i:], v)
		}
		programs++
	}
	for _, p := range parts {
		flags := elf.PF_R
		if p.flags&elf.SHF_EXECINSTR != 0 {
			flags |= elf.PF_X
		}
		program(elf.PT_LOAD, flags, p)
		if p.name == ".eh_frame_hdr" {
			program(elf.PT_GNU_EH_FRAME, elf.PF_R, p)
		}
		put(p.data, int64(off))
		s := make([]byte, shSize)
		le.PutUint32(s, uint32(len(names)))
		names += p.name + "\x00"
		le.PutUint32(s[4:], uint32(p.typ))
		le.PutUint64(s[8:], uint64(p.flags|elf.SHF_ALLOC))
		for i, v := range []uint64{p.addr, off, p.size} {
			le.PutUint64(s[16+8*i:], v)
		}
		table = append(table, s...)
		off += (p.size + align - 1) &^ (align - 1)
	}
	s := make([]byte, shSize)
	le.PutUint32(s[4:], uint32(elf.SHT_STRTAB))
	le.PutUint64(s[24:], off)
	le.PutUint64(s[32:], uint64(len(names)))
	table = append(table, s...)
	put([]byte(names), int64(off))
	off += align
	put(table, int64(off))
	if sections {
		le.PutUint64(header[40:], off)
		le.PutUint16(header[58:], shSize)
		le.PutUint16(header[60:], uint16(len(table)/shSize))
		le.PutUint16(header[62:], uint16(len(table)/shSize-1))
	}
	le.PutUint16(header[56:], uint16(programs))
	put(header, 0)
	f, err := elffile.New(w, int64(off)+int64(len(table)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// frames is a .eh_frame of some size: one CIE, and functions of 128 bytes with so many rows each.
func frames(size, rows int) []byte { return framesApart(size, rows, 128, 128) }

// framesApart is the same with functions of length bytes, of which one begins every stride bytes.
func framesApart(size, rows int, length, stride uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, size)
	b = le.AppendUint32(b, 16)
	b = append(le.AppendUint32(b, 0), 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0)
	var ins []byte
	for i := range rows - 1 {
		ins = append(ins, 0x41, 0x0e, byte(16+8*(i%8))) // advance 1, CFA offset
	}
	for len(ins)%4 != 0 {
		ins = append(ins, 0)
	}
	n := 4 + 16 + len(ins)
	for i := uint64(0); len(b)+4+n <= size-4; i++ {
		at := len(b)
		b = le.AppendUint32(b, uint32(n))
		b = le.AppendUint32(b, uint32(at+4))
		b = le.AppendUint64(le.AppendUint64(b, textAddr+stride*i), length)
		b = append(b, ins...)
	}
	return append(b, 0, 0, 0, 0)
}

func text(size uint64, code []byte) part {
	return part{".text", elf.SHT_PROGBITS, elf.SHF_EXECINSTR, textAddr, size, code}
}

func ehFrame(size uint64, data []byte) part {
	return part{".eh_frame", elf.SHT_PROGBITS, 0, framesAddr, size, data}
}

// ehHeader leads to .eh_frame.
func ehHeader() part {
	data := append([]byte{1, 0x04, 0xff, 0xff}, binary.LittleEndian.AppendUint64(nil, framesAddr)...)
	return part{".eh_frame_hdr", elf.SHT_PROGBITS, 0, 0x100, uint64(len(data)), data}
}

// buildWithin builds within a budget and returns by how much the heap grew at most meanwhile.
func buildWithin(f *elffile.File, budget uint64) (tab *unwind.Table, info Info, grown int64, err error) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	before, stop, peak := heap(), make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for {
			most = max(most, heap())
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	tab, info, err = Build(f.Within(elffile.NewBudget("hostile", budget)))
	close(stop)
	return tab, info, <-peak - before, err
}

// TestHostileMemory builds tables of files that are made to take memory.
func TestHostileMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name     string
		sections bool
		budget   uint64
		parts    func() []part
		want     string // part that the error names; empty if there is none
		rows     int    // at least
	}{
		{"sparse .eh_frame", true, testBudget, func() []part { return []part{text(4096, nil), ehFrame(2*gib, nil)} }, ".eh_frame", 0},
		{"sparse .eh_frame that fits", true, testBudget,
			func() []part { return []part{text(4096, nil), ehFrame(60*mib, nil)} }, "", 0},
		{"sparse everything", true, testBudget, func() []part {
			return []part{text(2*gib, nil), {".gopclntab", elf.SHT_PROGBITS, 0, 1 << 33, 2 * gib, []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}},
				{".debug_frame", elf.SHT_PROGBITS, 0, 2 << 33, 2 * gib, nil},
				{".symtab", elf.SHT_SYMTAB, 0, 3 << 33, 2 * gib, nil}}
		}, ".debug_frame", 0},
		{"sparse without sections", false, testBudget, func() []part {
			return []part{text(2*gib, nil), ehHeader(), ehFrame(gib/4, binary.LittleEndian.AppendUint32(nil, gib/4-100))}
		}, ".eh_frame", 0},
		{"200 MiB of .eh_frame", true, testBudget,
			func() []part { return []part{text(4*gib-1, nil), ehFrame(200*mib, frames(200*mib, 20))} }, ".eh_frame", 0},
		{"200 MiB of .eh_frame without sections", false, testBudget,
			func() []part { return []part{text(4*gib-1, nil), ehHeader(), ehFrame(200*mib, frames(200*mib, 20))} }, ".eh_frame", 0},
		{"200 MiB of .eh_frame, all rows that a table may have", true, 512 * mib,
			func() []part { return []part{text(4*gib-1, nil), ehFrame(200*mib, frames(200*mib, 30))} }, "rows", tablebuild.MaxRows},
		{"30 MiB of .eh_frame with many rows", true, testBudget,
			func() []part { return []part{text(4*gib-1, nil), ehFrame(30*mib, frames(30*mib, 40))} }, "rows", 1000000},
		{"far apart", true, testBudget, func() []part {
			b := frames(1000, 2)
			binary.LittleEndian.PutUint64(b[20+8:], textAddr+7<<30)
			return []part{text(8*gib, nil), ehFrame(uint64(len(b)), b)}
		}, "layout", 0},
		{"branches without end", true, testBudget,
			func() []part { return []part{text(4*mib, bytes.Repeat([]byte{0x75, 0x10}, 2*mib))} }, "", 0},
		{"calls without end", true, testBudget,
			func() []part { return []part{text(3*mib, bytes.Repeat([]byte{0xe8, 3, 0, 0, 0}, 3*mib/5))} }, "calls", 2},
		{"code in small pieces", true, testBudget, func() []part {
			b := framesApart(24*220000, 1, 16, 32)
			return []part{text(32*220000, bytes.Repeat([]byte{0x90, 0xc3}, 16*220000)), ehFrame(uint64(len(b)), b)}
		}, "code", 200000},
		{"many states", true, 8 * mib,
			func() []part { return []part{text(64<<10, bytes.Repeat([]byte{0x50}, 64<<10))} }, "states", 1000},
		{"jumps without end", true, testBudget, func() []part {
			code := bytes.Repeat([]byte{0x50, 0xff, 0xe0, 0x90}, 3*mib/8) // push, jmp *rax
			syms := make([]byte, 0, 24*len(code)/4)
			for i := 0; i < len(code); i += 4 {
				s := make([]byte, 24)
				s[4], s[6] = 2, 1
				binary.LittleEndian.PutUint64(s[8:], textAddr+uint64(i))
				syms = append(syms, s...)
			}
			return []part{text(uint64(len(code)), code), {".symtab", elf.SHT_SYMTAB, 0, 1 << 33, uint64(len(syms)), syms}}
		}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := write(t, c.sections, c.parts()...)
			tab, info, grown, err := buildWithin(f, c.budget)
			t.Logf("%d rows, %d rules, heap +%d KiB, %v", info.Rows, info.Rules, grown>>10, err)
			if uint64(max(grown, 0)) > c.budget {
				t.Errorf("the heap grew by %d MiB, the budget is %d", grown>>20, c.budget>>20)
			}
			if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, elffile.ErrTooLarge) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want one of %s", err, c.want)
			}
			var large *elffile.TooLargeError
			if errors.As(err, &large) && large.File != "hostile" {
				t.Errorf("%+v", large)
			}
			if len(tab.Rows) < c.rows {
				t.Errorf("%d rows, want %d", len(tab.Rows), c.rows)
			}
			check(t, tab)
		})
	}
}

// TestMergeFull merges tables that have too many rows together, and some for which there is no room: the first one stays.
func TestMergeFull(t *testing.T) {
	table := func(n, shift int) *unwind.Table {
		var b tablebuild.Builder
		for i := range n {
			if err := b.Add(unwind.FileAddr(16*i+shift), unwind.Rule{CFA: unwind.CFAReg, Offset: int32(i % 2)}); err != nil {
				t.Fatal(err)
			}
		}
		return b.Table(unwind.FileAddr(16 * n))
	}
	half := table(tablebuild.MaxRows/2, 0)
	var full *tablebuild.FullError
	if got, err := Merge(nil, half, table(tablebuild.MaxRows/2, 8)); got != half || !errors.As(err, &full) {
		t.Errorf("%d rows, %v", len(got.Rows), err)
	}
	small := table(1000, 0)
	if got, err := Merge(elffile.NewBudget("file", 1000), small, table(1000, 8)); got != small || !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("%d rows, %v", len(got.Rows), err)
	}
}

// manySymbols is a program whose names take more room than all else: without them, functions are missing.
func manySymbols() string {
	var s strings.Builder
	s.WriteString(cSource)
	for i := range 5000 {
		fmt.Fprintf(&s, "__asm__(\".globl a%[1]d%[2]s\\n.set a%[1]d%[2]s, 1\");\n", i, strings.Repeat("x", 800))
	}
	return s.String()
}

// TestSmallBudgets builds tables of programs with ever more room: what there is no room for is an error, and only that.
func TestSmallBudgets(t *testing.T) {
	for name, path := range map[string]string{
		"Go": build(t, goSource, "a.go", "go", "build"), "musl": build(t, cSource, "a.c", "musl-gcc", "-O2", "-static"),
		"glibc":        build(t, cSource, "b.c", "gcc", "-O2", "-static"),
		"many symbols": build(t, manySymbols(), "c.c", "musl-gcc", "-O2", "-static"),
	} {
		f := unwindtest.Open(t, path)
		whole, _, err := Build(f)
		if err != nil {
			t.Fatal(err)
		}
		complete := 0
		for size := uint64(1000); size < testBudget; size += size / 3 {
			budget := elffile.NewBudget(name, size)
			tab, _, err := Build(f.Within(budget))
			check(t, tab)
			if err != nil && !errors.Is(err, elffile.ErrTooLarge) || err == nil && !slices.Equal(tab.Rows, whole.Rows) {
				t.Errorf("%s in %d bytes: %d rows, %v", name, size, len(tab.Rows), err)
			}
			if budget.Used() != tablebuild.Bytes(tab) {
				t.Errorf("%s in %d bytes: %d are in use, the table has %d", name, size, budget.Used(), tablebuild.Bytes(tab))
			}
			if err == nil {
				complete++
			} else if complete > 0 {
				t.Errorf("%s in %d bytes: %v, less were enough", name, size, err)
			}
		}
		if complete == 0 {
			t.Errorf("%s: no budget was enough", name)
		}
	}
}
