package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// testSymbol is a symbol of an ELF file made by synth.
type testSymbol struct {
	name string
	addr uint64
	size uint64
	info byte
}

const (
	localFunc  = byte(elf.STB_LOCAL)<<4 | byte(elf.STT_FUNC)
	globalFunc = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
	weakFunc   = byte(elf.STB_WEAK)<<4 | byte(elf.STT_FUNC)
	localLabel = byte(elf.STB_LOCAL)<<4 | byte(elf.STT_NOTYPE)
)

// synthText is the code section of synth's files.
var synthText = unwind.Extent{Start: 0x1000, End: 0x1000 + 64<<20}

// synth makes an ELF file that has a code section (without bytes), .symtab, and extra sections.
func synth(arch elf.Machine, syms []testSymbol, extra map[string][]byte) []byte {
	le := binary.LittleEndian
	strs := []byte{0}
	symtab := make([]byte, elffile.SymbolSize, (len(syms)+1)*elffile.SymbolSize)
	for _, s := range syms {
		symtab = le.AppendUint32(symtab, uint32(len(strs)))
		symtab = append(symtab, s.info, 0, 1, 0)
		symtab = le.AppendUint64(le.AppendUint64(symtab, s.addr), s.size)
		strs = append(append(strs, s.name...), 0)
	}
	type section struct {
		name             string
		typ, link        uint32
		flags            elf.SectionFlag
		addr, size, ents uint64
		data             []byte
	}
	sections := []section{
		{},
		{".text", uint32(elf.SHT_NOBITS), 0, elf.SHF_ALLOC | elf.SHF_EXECINSTR, uint64(synthText.Start), uint64(synthText.End - synthText.Start), 0, nil},
		{".symtab", uint32(elf.SHT_SYMTAB), 3, 0, 0, 0, elffile.SymbolSize, symtab},
		{".strtab", uint32(elf.SHT_STRTAB), 0, 0, 0, 0, 0, strs},
	}
	for name, data := range extra {
		sections = append(sections, section{name, uint32(elf.SHT_PROGBITS), 0, 0, 0, 0, 0, data})
	}
	names := []byte{0}
	nameOffs := make([]uint32, len(sections)+1)
	sections = append(sections, section{".shstrtab", uint32(elf.SHT_STRTAB), 0, 0, 0, 0, 0, nil})
	for i, s := range sections {
		nameOffs[i] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	sections[len(sections)-1].data = names

	out := make([]byte, 64)
	copy(out, elf.ELFMAG+"\x02\x01\x01")
	var headers []byte
	for i, s := range sections {
		if s.data != nil {
			s.size = uint64(len(s.data))
		}
		headers = le.AppendUint32(le.AppendUint32(headers, nameOffs[i]), s.typ)
		headers = le.AppendUint64(le.AppendUint64(headers, uint64(s.flags)), s.addr)
		headers = le.AppendUint64(le.AppendUint64(headers, uint64(len(out))), s.size)
		headers = le.AppendUint32(le.AppendUint32(headers, s.link), 0)
		headers = le.AppendUint64(le.AppendUint64(headers, 1), s.ents)
		out = append(out, s.data...)
	}
	le.PutUint16(out[16:], uint16(elf.ET_DYN))
	le.PutUint16(out[18:], uint16(arch))
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint16(out[52:], 64)
	le.PutUint16(out[58:], 64)
	le.PutUint16(out[60:], uint16(len(sections)))
	le.PutUint16(out[62:], uint16(len(sections)-1))
	return append(out, headers...)
}

func loadBytes(t testing.TB, b []byte, opts Options) (*Table, error) {
	t.Helper()
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return Load(f, opts)
}

func nameAt(t testing.TB, tab *Table, a uint64) string {
	t.Helper()
	s, ok, err := tab.Symbol(unwind.FileAddr(a))
	if err != nil {
		t.Fatal(err)
	}
	if ok != (s.Name != "") {
		t.Fatalf("%#x: %+v, %v", a, s, ok)
	}
	return s.Name
}

// TestChoice has an address for every rule by which symbols are chosen.
func TestChoice(t *testing.T) {
	end := uint64(synthText.End)
	tab, err := loadBytes(t, synth(elf.EM_AARCH64, []testSymbol{
		{"sized", 0x1000, 16, localFunc}, {"unsized", 0x1000, 0, globalFunc},
		{"local", 0x2000, 16, localFunc}, {"__weak", 0x2000, 16, weakFunc},
		{"_write", 0x3000, 16, globalFunc}, {"write", 0x3000, 16, weakFunc},
		{"weak", 0x4000, 16, weakFunc}, {"a_global", 0x4000, 16, globalFunc},
		{"longer", 0x5000, 16, globalFunc}, {"short@@V_1.2_longer", 0x5000, 16, globalFunc},
		{"b", 0x6000, 16, globalFunc}, {"a", 0x6000, 16, globalFunc},
		{"*L(Int32)", 0x6800, 16, globalFunc}, {"*L(Int32)@L(T)#run<UInt64>:UInt64", 0x6800, 16, globalFunc},
		{"part", 0x7000, 8, globalFunc}, {"whole", 0x7000, 16, localFunc}, {"covered", 0x7000, 4, localFunc},
		{"overlap1", 0x8000, 0x20, globalFunc}, {"overlap2", 0x8010, 0x20, globalFunc},
		{"nest1", 0x9000, 0x100, globalFunc}, {"nest2", 0x9010, 0x40, globalFunc}, {"nest3", 0x9020, 0x10, globalFunc},
		{"nest4", 0x9050, 0x10, globalFunc},
		{"label1", 0xa000, 0, localLabel}, {"label2", 0xa010, 0, localLabel},
		{"$x", 0xa020, 0, localLabel}, {"$d.17", 0xa030, 0, localLabel}, {"$dollar", 0xa040, 0, localLabel},
		{"", 0xb000, 16, globalFunc}, {"endless", 0xc000, 1 << 63, globalFunc},
		{"last", end - 16, 0, globalFunc}, {"outside", end, 16, globalFunc}, {"wraps", ^uint64(0), 16, globalFunc},
	}, nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		addr uint64
		want string
	}{
		{0xfff, ""}, {0x1000, "sized"}, {0x100f, "sized"}, {0x1010, ""},
		{0x2000, "__weak"}, {0x3000, "write"}, {0x4000, "a_global"}, {0x5000, "short@@V_1.2_longer"}, {0x6000, "a"},
		{0x6800, "*L(Int32)@L(T)#run<UInt64>:UInt64"}, {0x7000, "part"}, {0x7008, "whole"}, {0x7010, ""},
		{0x8000, "overlap1"}, {0x8010, "overlap2"}, {0x802f, "overlap2"}, {0x8030, ""},
		{0x9000, "nest1"}, {0x9010, "nest2"}, {0x9020, "nest3"}, {0x902f, "nest3"}, {0x9030, "nest2"}, {0x904f, "nest2"},
		{0x9050, "nest4"}, {0x9060, "nest1"}, {0x90ff, "nest1"}, {0x9100, ""},
		{0xa000, "label1"}, {0xa00f, "label1"}, {0xa010, "label2"}, {0xa03f, "label2"}, {0xa040, "$dollar"},
		{0xb000, ""}, {0xc000, "endless"}, {end - 1, "endless"}, {end, ""}, {^uint64(0), ""}, {0, ""},
	} {
		if got := nameAt(t, tab, c.addr); got != c.want {
			t.Errorf("%#x: %q, want %q", c.addr, got, c.want)
		}
	}
}

// TestAgainstBruteForce compares with a search through all symbols, for symbols at random.
func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		var syms []testSymbol
		for i := range 1 + rng.IntN(40) {
			s := testSymbol{fmt.Sprintf("s%03d", i), 0x1000 + uint64(rng.IntN(200)), uint64(rng.IntN(60)), globalFunc}
			if rng.IntN(3) == 0 {
				s.info = localFunc
			}
			if rng.IntN(6) == 0 {
				s.size = 0
			}
			syms = append(syms, s)
		}
		tab, err := loadBytes(t, synth(elf.EM_X86_64, syms, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for a := uint64(0x0ff0); a < 0x1200; a++ {
			if got, want := nameAt(t, tab, a), bruteForce(syms, a); got != want {
				t.Fatalf("round %d, %#x: %q, want %q of %+v", round, a, got, want, syms)
			}
		}
	}
}

// bruteForce is the rule as the package comment puts it.
func bruteForce(syms []testSymbol, a uint64) string {
	var best *testSymbol
	for i := range syms {
		s := &syms[i]
		if s.size == 0 || a < s.addr || a-s.addr >= s.size {
			continue
		}
		switch {
		case best == nil, s.addr > best.addr:
			best = s
		case s.addr == best.addr && s.info == best.info && s.name < best.name:
			best = s
		case s.addr == best.addr && s.info == globalFunc && best.info == localFunc:
			best = s
		}
	}
	if best != nil {
		return best.name
	}
	// Nothing with a size covers a. What has none goes on to the next symbol that counts, and counts outside others only.
	for i := range syms {
		s := &syms[i]
		if s.size != 0 || s.addr > a || best != nil && s.addr < best.addr {
			continue
		}
		inside := false
		for _, o := range syms {
			inside = inside || o.size != 0 && s.addr >= o.addr && s.addr-o.addr < o.size
		}
		if inside {
			continue
		}
		if best == nil || s.addr > best.addr || s.info == globalFunc && best.info == localFunc ||
			s.info == best.info && s.name < best.name {
			best = s
		}
	}
	if best == nil {
		return ""
	}
	for _, o := range syms {
		if o.size != 0 && o.addr > best.addr && o.addr <= a {
			return ""
		}
	}
	return best.name
}

func TestLimits(t *testing.T) {
	var syms []testSymbol
	for i := range 1000 {
		syms = append(syms, testSymbol{fmt.Sprint("f", i), 0x1000 + uint64(i)*16, 16, globalFunc})
	}
	tab, err := loadBytes(t, synth(elf.EM_X86_64, syms, nil), Options{MaxSymbols: 100})
	if !errors.Is(err, ErrTruncated) || tab.Len() != 100 || tab.Skipped() != 900 {
		t.Errorf("%d symbols, %d left out: %v", tab.Len(), tab.Skipped(), err)
	}
	tab, err = loadBytes(t, synth(elf.EM_X86_64, syms, nil), Options{Except: [2]unwind.FileAddr{0x1000, 0x1100}})
	if err != nil || nameAt(t, tab, 0x10ff) != "" || nameAt(t, tab, 0x1100) != "f16" {
		t.Errorf("%d symbols: %v", tab.Len(), err)
	}
}

// TestDamaged: part of a file is wrong, the rest is used.
func TestDamaged(t *testing.T) {
	syms := []testSymbol{{"f", 0x1000, 16, globalFunc}}
	good := xzBytes(t, synth(elf.EM_X86_64, []testSymbol{{"g", 0x2000, 16, globalFunc}}, nil))
	tab, err := loadBytes(t, synth(elf.EM_X86_64, syms, map[string][]byte{".gnu_debugdata": good}), Options{})
	if err != nil || nameAt(t, tab, 0x1000) != "f" || nameAt(t, tab, 0x2000) != "g" {
		t.Fatal(err)
	}
	for cut := 0; cut < len(good); cut++ {
		tab, err := loadBytes(t, synth(elf.EM_X86_64, syms, map[string][]byte{".gnu_debugdata": good[:cut]}), Options{})
		if nameAt(t, tab, 0x1000) != "f" {
			t.Fatalf("cut at %d: lost f", cut)
		}
		if err == nil && nameAt(t, tab, 0x2000) != "g" {
			t.Fatalf("cut at %d: lost g without an error", cut)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		tab, _ := loadBytes(t, synth(elf.EM_X86_64, syms, map[string][]byte{".gnu_debugdata": bad}), Options{})
		if nameAt(t, tab, 0x1000) != "f" {
			t.Fatalf("bit of byte %d: lost f", i)
		}
	}
}

func xzBytes(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := xz.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// xzBytesOf decodes a stream and checks that nothing stays taken.
func xzBytesOf(b []byte, limit uint64) ([]byte, error) {
	budget := elffile.NewBudget("xz", 1<<30)
	p, err := xzDecode(b, limit, budget)
	if err != nil {
		if p != nil || budget.Used() != 0 {
			return nil, fmt.Errorf("%d bytes taken after: %v", budget.Used(), err)
		}
		return nil, err
	}
	out := make([]byte, p.size)
	if err := readFull(p, out, 0); err != nil {
		return nil, fmt.Errorf("reading what was decoded: %v", err)
	}
	if p.release(); budget.Used() != 0 {
		return nil, fmt.Errorf("%d bytes taken in the end", budget.Used())
	}
	return out, nil
}

// TestDebugDataMemory has debug data that grows without end: what it takes is bounded, with a budget and without.
func TestDebugDataMemory(t *testing.T) {
	zeros := func(n int) *elffile.File {
		b := synth(elf.EM_X86_64, nil, map[string][]byte{".gnu_debugdata": xzBytes(t, make([]byte, n))})
		f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	allocated := func(f *elffile.File) (uint64, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(f, Options{})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, err
	}
	f := zeros(64 << 20)
	if n, err := allocated(f); n > 32<<20 || !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("%d KiB allocated, %v", n>>10, err)
	}
	budget := elffile.NewBudget("zeros", 12<<20)
	var large *elffile.TooLargeError
	if n, err := allocated(f.Within(budget)); n > 16<<20 || !errors.As(err, &large) || budget.Used() != 0 {
		t.Errorf("with a budget: %d KiB allocated, %d bytes taken, %v", n>>10, budget.Used(), err)
	}
	good := synth(elf.EM_X86_64, nil, map[string][]byte{
		".gnu_debugdata": xzBytes(t, synth(elf.EM_X86_64, []testSymbol{{"g", 0x2000, 16, globalFunc}}, nil)),
	})
	if f, err := elffile.New(bytes.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	} else if tab, err := Load(f.Within(budget), Options{}); err != nil || nameAt(t, tab, 0x2000) != "g" || budget.Used() != 0 {
		t.Errorf("%v, %d bytes taken", err, budget.Used())
	}
	blocks := xzBytes(t, []byte("x"))
	block := blocks[xzHeader : xzHeader+(int(blocks[xzHeader])+1)*4+8+8] // header, a chunk and its end, checksum of 8 bytes
	many := append(bytes.Clone(blocks[:xzHeader]), bytes.Repeat(block, maxXZBlock+1)...)
	if _, err := xzBytesOf(many, 1000); !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("many blocks: %v", err)
	}
}

func TestXZ(t *testing.T) {
	data := bytes.Repeat([]byte("some data, again and again; "), 5000)
	for _, check := range []byte{xz.CRC32, xz.CRC64, xz.SHA256} {
		for _, blockSize := range []int64{0, 10_000} {
			var buf bytes.Buffer
			w, err := xz.WriterConfig{CheckSum: check, BlockSize: blockSize}.NewWriter(&buf)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(data)
			w.Close()
			got, err := xzBytesOf(buf.Bytes(), uint64(len(data)))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("check %d: %d bytes, %v", check, len(got), err)
			}
			if _, err = xzBytesOf(buf.Bytes(), uint64(len(data))-1); !errors.Is(err, elffile.ErrTooLarge) {
				t.Errorf("check %d: beyond the limit: %v", check, err)
			}
		}
	}
	if _, err := xzBytesOf(bigDictionary(t), 1<<20); !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("dictionary of 4 GiB: %v", err)
	}
}

// bigDictionary is a stream whose first block asks for a dictionary of 4 GiB.
func bigDictionary(t testing.TB) []byte {
	b := xzBytes(t, []byte("x"))
	header := b[xzHeader:][:(int(b[xzHeader])+1)*4]
	i := bytes.Index(header, []byte{xzLZMA2, 1})
	header[i+2] = 40
	binary.LittleEndian.PutUint32(header[len(header)-4:], crcOf(header[:len(header)-4]))
	return b
}

// TestStubs decodes entries as linkers wrote them; all jump through the slot at 0x4018, but for two.
func TestStubs(t *testing.T) {
	const slot = 0x4018
	at := func(addr uint64, opcode string, tail string) string {
		disp := binary.LittleEndian.AppendUint32(nil, uint32(slot-addr-uint64(len(opcode))-4))
		return opcode + string(disp) + tail
	}
	for _, c := range []struct {
		name    string
		code    string
		entSize uint64
		want    stub
	}{
		{"ld lazy", at(0x1000, "\xff\x25", "\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff"), 16, stub{0x1000, 16, slot, noIndex}},
		{"ld cet", at(0x1000, "\xf3\x0f\x1e\xfa\xff\x25", "\x66\x0f\x1f\x44\x00\x00"), 16, stub{0x1000, 16, slot, noIndex}},
		{"ld cet bnd", at(0x1000, "\xf3\x0f\x1e\xfa\xf2\xff\x25", "\x0f\x1f\x44\x00\x00"), 16, stub{0x1000, 16, slot, noIndex}},
		{"ld cet lazy", "\xf3\x0f\x1e\xfa\x68\x07\x00\x00\x00\xe9\xe2\xff\xff\xff\x66\x90", 16, stub{0x1000, 16, noSlot, 7}},
		{"ld got", at(0x1000, "\xff\x25", "\x66\x90"), 8, stub{0x1000, 8, slot, noIndex}},
		{"mold", at(0x1000, "\xf3\x0f\x1e\xfa\x41\xbb\x07\x00\x00\x00\xff\x25", ""), 0, stub{0x1000, 16, slot, noIndex}},
		{"lld retpoline", at(0x1000, "\x4c\x8b\x1d", "\xe8\x04\x00\x00\x00\xe9\x0f\x00\x00\x00\x68\x00\x00\x00\x00\xe9\xb0\xff\xff\xff\xcc\xcc\xcc\xcc\xcc"), 32, stub{0x1000, 32, slot, noIndex}},
		{"plt0", "\xff\x35\x02\x2f\x00\x00\xff\x25\x04\x2f\x00\x00\x0f\x1f\x40\x00", 16, stub{}},
	} {
		got := stubsAMD64(nil, []byte(c.code), 0x1000, c.entSize)
		if c.want == (stub{}) && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	words := func(w ...uint32) (b []byte) {
		for _, x := range w {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	// At 0x1000: adrp x16, 0x4000; ldr x17, [x16, #0x18]; add x16, x16, #0x18; br x17.
	const bti, adrp, ldr, add, br, nop, auth = 0xd503245f, 0xf0000010, 0xf9400e11, 0x91006210, 0xd61f0220, 0xd503201f, 0xd503219f
	for _, c := range []struct {
		name string
		code []byte
		want []stub
	}{
		{"plain", words(adrp, ldr, add, br, adrp, ldr, add, br),
			[]stub{{0x1000, 16, slot, noIndex}, {0x1010, 16, slot, noIndex}}},
		{"bti", words(bti, adrp, ldr, add, br, nop, bti, adrp, ldr, add, br, nop),
			[]stub{{0x1000, 24, slot, noIndex}, {0x1018, 24, slot, noIndex}}},
		{"pac", words(adrp, ldr, add, auth, br, nop), []stub{{0x1000, 24, slot, noIndex}}},
		{"cut", words(adrp), nil},
		{"page before", words(0xf0fffff0, ldr, add, br), []stub{{0x1000, 16, 0x18, noIndex}}},
		{"endless", words(adrp, ldr, add), []stub{{0x1000, 12, slot, noIndex}}},
	} {
		got := stubsARM64(nil, c.code, 0x1000)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// countingReader counts the bytes read.
type countingReader struct {
	io.ReaderAt
	n int64
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, off)
	c.n += int64(n)
	return n, err
}

func BenchmarkLoadMillion(b *testing.B) {
	var syms []testSymbol
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1_000_000 {
		syms = append(syms, testSymbol{
			fmt.Sprintf("_ZN9something4long8function%dEv", i), 0x1000 + uint64(rng.IntN(4<<20))*16, 15, globalFunc,
		})
	}
	data := synth(elf.EM_X86_64, syms, nil)
	b.ReportAllocs()
	for b.Loop() {
		r := &countingReader{ReaderAt: bytes.NewReader(data)}
		f, err := elffile.New(r, int64(len(data)))
		if err != nil {
			b.Fatal(err)
		}
		tab, err := Load(f, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(tab.Bytes()), "held-B")
		b.ReportMetric(float64(r.n), "read-B")
	}
}

func BenchmarkLookup(b *testing.B) {
	var syms []testSymbol
	for i := range 100_000 {
		syms = append(syms, testSymbol{fmt.Sprintf("_ZN9something4long8function%dEv", i), 0x1000 + uint64(i)*64, 60, globalFunc})
	}
	data := synth(elf.EM_X86_64, syms, nil)
	tab, err := loadBytes(b, data, Options{})
	if err != nil {
		b.Fatal(err)
	}
	var dst []unwind.Line
	a := unwind.FileAddr(0x1000)
	b.ReportAllocs()
	for b.Loop() {
		dst, _, _ = tab.Lookup(dst[:0], a)
		a = 0x1000 + (a+0x4321)%(100_000*64)
	}
}
