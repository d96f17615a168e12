package gopclntab

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// tinyText is where tiny's code is.
const tinyText = 0x401000

// tiny makes the smallest Go program that has everything that is read: two functions, one of them with an inlined call,
// with a moduledata.
func tiny(arch unwind.Arch, magic uint32) []byte {
	const (
		base  = 0x400000
		table = 0x1100
		data  = 0x1400
		size  = 0x1800
	)
	b := make([]byte, size)
	le := binary.LittleEndian
	machine, quantum := uint16(62), byte(1)
	if arch == unwind.ArchARM64 {
		machine, quantum = 183, 4
	}
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 2) // ET_EXEC
	le.PutUint16(b[18:], machine)
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // e_phoff
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 2)
	for i, s := range []struct{ flags, start, end uint64 }{{5, 0, table}, {6, table, size}} {
		ph := b[64+56*i:]
		le.PutUint32(ph, 1) // PT_LOAD
		le.PutUint32(ph[4:], uint32(s.flags))
		le.PutUint64(ph[8:], s.start)
		le.PutUint64(ph[16:], base+s.start)
		le.PutUint64(ph[32:], s.end-s.start)
		le.PutUint64(ph[40:], s.end-s.start)
	}

	copy(b[data:], buildInfoMagic+"\x08\x02")
	copy(b[data+32:], "\x08go1.26.3")

	// the parts, relative to the header
	const names, cus, files, pctab, funcs = 0x48, 0x70, 0x78, 0x88, 0xa0
	tab := b[table:]
	le.PutUint32(tab, magic)
	tab[6], tab[7] = quantum, 8
	for i, v := range []uint64{2, 1, base + 0x1000, names, cus, files, pctab, funcs} {
		le.PutUint64(tab[8+8*i:], v)
	}
	copy(tab[names:], "main.a\x00main.b\x00runtime.mcall\x00")
	copy(tab[files:], "/src/a.go\x00")
	// pctab: value 0 for 16 units, value 8 for 16 units, end; value 0 for 32, end
	copy(tab[pctab:], "\x00\x02\x10\x10\x10\x00\x02\x20\x00")
	record := func(at int, entry, name uint32, flags byte) {
		r := tab[funcs+at:]
		for i, v := range []uint32{entry, name, 0, 0, 1, 6, 1, 3, 0} {
			le.PutUint32(r[4*i:], v)
		}
		r = r[36:]
		if magic != magic118 {
			le.PutUint32(r, 7) // startLine
			r = r[4:]
		}
		r[1], r[3] = flags, 4
		le.PutUint32(r[4+8:], 6) // PCDATA_InlTreeIndex: entry 0 everywhere
		for i := range 4 {
			le.PutUint32(r[16+4*i:], ^uint32(0))
		}
		le.PutUint32(r[16+12:], 0) // FUNCDATA_InlTree
	}
	unit := uint32(quantum)
	for i, v := range []uint32{0, 24, 32 * unit, 112, 64 * unit} {
		le.PutUint32(tab[funcs+4*i:], v)
	}
	record(24, 0, 0, 0)
	record(112, 32*unit, 14, flagAsm|flagSPWrite)

	const tree = 0x1300
	t := b[tree:]
	if magic == magic118 {
		le.PutUint32(t[12:], 7)
	} else {
		le.PutUint32(t[4:], 7)
	}
	md := b[data+0x80:]
	at := func(off int, v uint64) { le.PutUint64(md[off:], v) }
	at(0, base+table)
	at(mdFuncnametab, base+table+names)
	at(mdFuncnametab+8, cus-names)
	at(mdPctab, base+table+pctab)
	at(mdFtab, base+table+funcs)
	at(mdFtab+8, 3)
	at(mdMinPC, tinyText)
	at(mdMaxPC, tinyText+uint64(64*unit))
	at(mdText, tinyText)
	at(gofunc118, base+tree)
	at(gofunc120, base+tree)
	at(gofunc127, base+tree)
	return b
}

// everything does with a file all that this package can.
func everything(b []byte) (*Table, *unwind.Table, []unwind.Line) {
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, nil
	}
	t, err := Find(f)
	if err != nil {
		return nil, nil, nil
	}
	u, _ := t.UnwindTable()
	_, _ = t.Offsets()
	start, end := t.Text()
	lines, _ := t.Lookup(nil, start)
	for _, pc := range []unwind.FileAddr{start + (end-start)/2, end - 1} {
		t.Lookup(nil, pc)
	}
	return t, u, lines
}

func TestTiny(t *testing.T) {
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		for _, magic := range []uint32{magic118, magic120} {
			tab, u, lines := everything(tiny(arch, magic))
			if tab == nil || u == nil {
				t.Fatalf("%v %#x: nothing found", arch, magic)
			}
			if !tab.HasInlining() || tab.Version() != "go1.26.3" || len(lines) == 0 || lines[0].Function.Name != "main.b" {
				t.Errorf("%v %#x: inlining %v, version %q, lines %v", arch, magic, tab.HasInlining(), tab.Version(), lines)
			}
			unit := unwind.FileAddr(1)
			if arch == unwind.ArchARM64 {
				unit = 4
			}
			if got, want := u.Lookup(tinyText+16*unit), tab.frameRule(8); got != want {
				t.Errorf("%v %#x: got %v, want %v", arch, magic, got, want)
			}
		}
	}
}

// TestDamage flips every byte of a small program: nothing may panic or hang.
func TestDamage(t *testing.T) {
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		whole := tiny(arch, magic120)
		for i := range whole {
			for _, v := range []byte{0, 0x7f, 0xff} {
				b := bytes.Clone(whole)
				b[i] = v
				everything(b)
			}
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		f.Add(tiny(arch, magic118))
		f.Add(tiny(arch, magic120))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, u, _ := everything(b); u != nil {
			checkTable(t, u)
		}
	})
}

// FuzzCode reads prologues and stack switches in arbitrary code.
func FuzzCode(f *testing.F) {
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x62, 0x38}, uint16(1), uint16(8), "runtime.systemstack")
	f.Add(code32(0xf81f0ffe, 0xf81f83fd, 0xd10023fd, 0x9100007f), uint16(4), uint16(16), "runtime.asmcgocall")
	f.Fuzz(func(t *testing.T, code []byte, start, delta uint16, name string) {
		spans := []span{{0, 0}, {uint64(start), int32(delta)}}
		for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
			tab := &Table{arch: arch}
			a := amd64Func(code, spans)
			if arch == unwind.ArchARM64 {
				a = arm64Func(code, spans)
			}
			rows := a.add(nil, spans[0], spans[1].start)
			rows = a.add(rows, spans[1], uint64(len(code)))
			tab.switches(rows, name, flagAsm|flagSPWrite, code, &a)
			var o Offsets
			o.threadLocalAMD64(code, 0)
			o.threadLocalARM64(code, 0)
		}
	})
}
