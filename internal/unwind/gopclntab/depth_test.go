package gopclntab

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// TestDeepInlining has 200 calls inlined into each other, at addresses that are that deep: 64 lines at most, of which the
// last is the function.
func TestDeepInlining(t *testing.T) {
	const (
		calls                 = 200
		table, data, size     = 0x1100, 0x1400, 0x1800
		pctab, tree, fileSize = size, 0x2000, 0x3000
		funcs                 = table + 0xa0
	)
	le := binary.LittleEndian
	b := append(tiny(unwind.ArchAMD64, magic120), make([]byte, fileSize-size)...)
	base := le.Uint64(b[64+16:])
	for _, off := range []int{32, 40} { // of the second segment
		le.PutUint64(b[64+56+off:], fileSize-table)
	}
	// The first function becomes longer.
	le.PutUint32(b[funcs+8:], calls+24)
	le.PutUint32(b[funcs+16:], calls+40)
	le.PutUint32(b[funcs+112:], calls+24)
	le.PutUint64(b[data+0x80+mdMaxPC:], tinyText+calls+40)
	copy(b[pctab+6:], bytes.Repeat([]byte{2, 1}, calls)) // the index grows by one with each byte
	for i := range calls {
		e := b[tree+16*i:]
		le.PutUint32(e[4:], 7)                   // main.b
		le.PutUint32(e[8:], uint32(max(i-1, 0))) // parentPC
	}
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Find(f)
	if err != nil {
		t.Fatal(err)
	}
	tab.pctab, tab.gofunc = part{unwind.FileAddr(base + pctab), tree - pctab}, unwind.FileAddr(base+tree)
	for depth, want := range map[int]int{1: 2, 10: 11, 63: 64, 64: 64, calls: 64} {
		lines, ok := tab.Lookup(nil, tinyText+unwind.FileAddr(depth)-1)
		if !ok || len(lines) != want || lines[0].Function.Name != "main.b" || lines[len(lines)-1].Function.Name != "main.a" {
			t.Errorf("%d calls: %d lines, want %d", depth, len(lines), want)
		}
	}
}

// TestLongName reads a name without an end: as much of it as a name may have.
func TestLongName(t *testing.T) {
	img := tiny(unwind.ArchAMD64, magic120)
	base := binary.LittleEndian.Uint64(img[64+16:])
	b := append(img, []byte(strings.Repeat("x", 3*maxName))...)
	le := binary.LittleEndian
	for _, off := range []int{32, 40} {
		le.PutUint64(b[64+56+off:], uint64(len(b)-0x1100))
	}
	f, err := elffile.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Find(f)
	if err != nil {
		t.Fatal(err)
	}
	names := part{unwind.FileAddr(base + uint64(len(img))), 3 * maxName}
	if s, ok := tab.cString(names, 1); !ok || s != strings.Repeat("x", maxName) {
		t.Errorf("%d bytes, %v", len(s), ok)
	}
	if s, ok := tab.cString(names, 3*maxName-10); ok {
		t.Errorf("%q has no end", s)
	}
}
