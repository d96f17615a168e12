package dwarf

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// repeated is a file that has a part again and again, and is nowhere in memory.
//
//	[head)[body 0)[body 1) ... [body count-1)[tail)
type repeated struct {
	head, body, tail []byte
	count            int64
	patches          []int          // offsets in body of eight bytes
	value            uint64         // that the first body has there
	step             uint64         // that each further body has more
	read             map[int64]bool // which bodies were read
}

func (r *repeated) size() int64 {
	return int64(len(r.head)) + r.count*int64(len(r.body)) + int64(len(r.tail))
}

func (r *repeated) ReadAt(b []byte, off int64) (n int, err error) {
	bodies := int64(len(r.head))
	tail := bodies + r.count*int64(len(r.body))
	for n < len(b) && off < r.size() {
		var c int
		switch {
		case off < bodies:
			c = copy(b[n:], r.head[off:])
		case off >= tail:
			c = copy(b[n:], r.tail[off-tail:])
		default:
			at := (off - bodies) / int64(len(r.body))
			c = copy(b[n:], r.at(at)[(off-bodies)%int64(len(r.body)):])
		}
		n, off = n+c, off+int64(c)
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (r *repeated) at(n int64) []byte {
	r.read[n] = true
	for _, p := range r.patches {
		binary.LittleEndian.PutUint64(r.body[p:], r.value+uint64(n)*r.step)
	}
	return r.body
}

// open makes an ELF file of it: the bodies, between what front and back write, are .debug_info.
func (r *repeated) open(t testing.TB, codeSize uint64, front, back []byte) *elffile.File {
	t.Helper()
	r.read = map[int64]bool{}
	const header, entry = 64, 64
	le := binary.LittleEndian
	names := []byte("\x00.text\x00.shstrtab\x00.debug_info\x00.debug_abbrev\x00")
	abbrev := abbreviations()
	r.head = append(make([]byte, header), front...)
	info := int64(len(front)) + r.count*int64(len(r.body)) + int64(len(back))
	rest := header + info
	r.tail = append(append(append(slices.Clone(back), abbrev...), names...), make([]byte, 5*entry)...)
	table := r.tail[len(r.tail)-5*entry:]
	section := func(n, name int, typ elf.SectionType, flags elf.SectionFlag, addr uint64, off int64, size uint64) {
		h := table[n*entry:]
		le.PutUint32(h, uint32(name))
		le.PutUint32(h[4:], uint32(typ))
		le.PutUint64(h[8:], uint64(flags))
		le.PutUint64(h[16:], addr)
		le.PutUint64(h[24:], uint64(off))
		le.PutUint64(h[32:], size)
	}
	section(1, 1, elf.SHT_NOBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, textAddr, 0, codeSize)
	section(2, 17, elf.SHT_PROGBITS, 0, 0, header, uint64(info))
	section(3, 29, elf.SHT_PROGBITS, 0, 0, rest, uint64(len(abbrev)))
	section(4, 7, elf.SHT_STRTAB, 0, 0, rest+int64(len(abbrev)), uint64(len(names)))
	copy(r.head, "\x7fELF\x02\x01\x01")
	le.PutUint16(r.head[16:], uint16(elf.ET_DYN))
	le.PutUint16(r.head[18:], uint16(elf.EM_X86_64))
	le.PutUint64(r.head[40:], uint64(rest)+uint64(len(abbrev)+len(names)))
	le.PutUint16(r.head[58:], entry)
	le.PutUint16(r.head[60:], 5)
	le.PutUint16(r.head[62:], 4)
	f, err := elffile.New(r, r.size())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const manyBytes = 2 << 30

// TestManyUnits has 2 GiB of units, and a budget of 32 MiB: only the headers are read, and what is asked for.
func TestManyUnits(t *testing.T) {
	const unitCode = 0x100
	var patch int
	body := infoOf(langCxx, func(w *writer) {
		w.uleb(abFunction).str("f")
		patch = len(w.b)
		w.u64(0).u64(unitCode).u8(0)
		for w.pos() < 64<<10 {
			w.uleb(abStruct).str("something of some length").u8(0)
		}
	})
	lowPC := 4 + 2 + 4 + 1 + 1
	binary.LittleEndian.PutUint64(body[lowPC+8:], unitCode)
	r := &repeated{body: body, count: manyBytes / int64(len(body)), patches: []int{lowPC, patch}, value: textAddr, step: unitCode}
	f := r.open(t, uint64(r.count)*unitCode, nil, nil)
	budget := elffile.NewBudget("large", 32<<20)
	before := heap()
	start := time.Now()
	d, err := Open(f.Within(budget), Options{})
	if err != nil {
		t.Fatal(err)
	}
	opened, read := time.Since(start), d.Stats().BytesRead
	if len(d.main.units) != int(r.count) {
		t.Errorf("%d units, want %d", len(d.main.units), r.count)
	}
	for n := range 200 {
		a := unwind.FileAddr(textAddr + uint64(n)*uint64(r.count)/200*unitCode + 5)
		if got := namesAt(t, d, a); !slices.Equal(got, []string{"f"}) {
			t.Fatalf("%#x: %q", uint64(a), got)
		}
	}
	t.Logf("%d units: opened in %v, %d MiB read, then %d MiB for 200; %d KiB held, heap grew by %d KiB", r.count, opened, read>>20,
		(d.Stats().BytesRead-read)>>20, d.Bytes()>>10, (int64(heap())-int64(before))>>10)
	if grown := int64(heap()) - int64(before); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(d)
}

// TestHugeUnit has all in one unit, as LTO makes it.
func TestHugeUnit(t *testing.T) {
	const functionCode = 0x100
	w := &writer{}
	w.uleb(abFunction).str("f").u64(0).u64(functionCode)
	patch := []int{1 + len("f") + 1}
	for w.pos() < 4<<10 {
		w.uleb(abBlock)
		w.inlined(0x100, textAddr, 1, 7).u8(0)
		w.uleb(abStruct).str("something of some length, as variables are").u8(0)
		w.u8(0)
	}
	w.u8(0)
	front := infoOf(langCxx, func(*writer) {})
	front = front[:len(front)-1]
	r := &repeated{body: w.b, count: manyBytes / 4 / int64(len(w.b)), patches: patch, value: textAddr, step: functionCode}
	size := uint64(len(front)) + uint64(r.count)*uint64(len(w.b)) + 1
	binary.LittleEndian.PutUint32(front, uint32(size-4))
	binary.LittleEndian.PutUint64(front[4+2+4+1+1+8:], uint64(r.count)*functionCode)
	f := r.open(t, uint64(r.count)*functionCode, front, []byte{0})
	budget := elffile.NewBudget("large", 32<<20)
	before := heap()
	d, err := Open(f.Within(budget), Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for n := range 100 {
		a := unwind.FileAddr(textAddr + uint64(n)*uint64(r.count)/100*functionCode + 5)
		if got := namesAt(t, d, a); !slices.Equal(got, []string{"f"}) {
			t.Fatalf("%#x: %q, %v", uint64(a), got, d.Problems())
		}
	}
	t.Logf("unit of %d MiB, %d functions: %v for 100; %d KiB held", size>>20, r.count, time.Since(start), d.Bytes()>>10)
	if grown := int64(heap()) - int64(before); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(d)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
