// Package gopclntab reads what the Go toolchain (1.18 and newer) puts into every program for its own tracebacks: the pc-line
// table with frame sizes, names, files, lines and inlined calls. From it come the unwind table of a Go executable and
// the symbolization of its code; neither needs symbols or DWARF.
//
// Layouts: Go 1.18 to 1.27, runtime/symtab.go (pcHeader, functab, moduledata), runtime/runtime2.go (_func),
// runtime/symtabinl.go (inlinedCall) and cmd/link/internal/ld/pcln.go.
//
// Words: the *header* (pcHeader) begins the table; *functab* has an entry for each function in ascending order, its
// offset from *text* (the start of Go's code) and where its *record* (_func) is; a record names pc-value tables in
// *pctab*, each a run of (value, pc) steps.
package gopclntab

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

var (
	// ErrNotGo: the file has no pc-line table of a supported version.
	ErrNotGo = errors.New("no Go pc-line table")
	// ErrUnknownVersion: the offsets in the runtime's structs are not known for the file's version of Go.
	ErrUnknownVersion = errors.New("unknown version of Go")
	// errDamaged: the table contradicts itself.
	errDamaged = errors.New("damaged Go pc-line table")
)

const (
	magic118 = 0xfffffff0 // Go 1.18 and 1.19
	magic120 = 0xfffffff1 // Go 1.20 and newer

	headerSize = 8 + 8*8

	maxFuncs = 4 << 20   // the largest programs have some 300,000
	maxPart  = 128 << 20 // bytes of pctab, which is read as a whole; the largest programs have some 30 MiB
)

// Table is the pc-line table of one executable. It keeps the places of its parts and a small cache of file blocks, not
// the table. It may be used from one goroutine at a time.
type Table struct {
	f    *elffile.File
	mem  *pager
	arch unwind.Arch

	base unwind.FileAddr // of the header
	text unwind.FileAddr // what the functions' offsets are relative to
	old  bool            // Go 1.18 or 1.19

	nfunc int
	names part
	cus   part
	files part
	pctab part
	funcs part // functab and records

	gofunc  unwind.FileAddr // base of funcdata offsets; 0 if it was not found, and then inlined calls are not known
	version string

	sparse []uint32 // entry offset of every sparseStep-th function, once Lookup needed it
	intern map[uint32]string
}

// part is a range of ELF virtual addresses.
type part struct {
	addr unwind.FileAddr
	size uint64
}

// at returns the address of n bytes at off; ok is false if they are not all inside.
func (p part) at(off, n uint64) (_ unwind.FileAddr, ok bool) {
	if off > p.size || n > p.size-off {
		return 0, false
	}
	return p.addr + unwind.FileAddr(off), true
}

// Version is the Go version that built the file ("go1.26.3"), or empty if it is not recorded.
func (t *Table) Version() string { return t.version }

// Text is the range of the Go code that the table describes, [start, end).
func (t *Table) Text() (start, end unwind.FileAddr) {
	first, ok1 := t.entryOff(0)
	last, ok2 := t.entryOff(t.nfunc)
	if !ok1 || !ok2 {
		return 0, 0
	}
	return t.text + unwind.FileAddr(first), t.text + unwind.FileAddr(last)
}

// HasInlining tells whether inlined calls can be told; if not, Lookup names physical functions only.
func (t *Table) HasInlining() bool { return t.gofunc != 0 }

// parseHeader checks the header at base, of which limit bytes of the file follow in its segment.
func parseHeader(f *elffile.File, mem *pager, base unwind.FileAddr, limit uint64) (*Table, error) {
	_, n, _ := mem.offset(base)
	limit = min(limit, n) // as much as is in the file
	var h [headerSize]byte
	if limit < headerSize || !mem.read(h[:], base) {
		return nil, fmt.Errorf("reading header: %w", errDamaged)
	}
	t := &Table{f: f, mem: mem, arch: f.Arch, base: base}
	if !isMagic(h[:8], t.arch) {
		return nil, errDamaged
	}
	t.old = binary.LittleEndian.Uint32(h[:]) == magic118
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(h[8+8*i:]) }
	nfunc := word(0)
	t.text = unwind.FileAddr(word(2)) // 0 from Go 1.26 on, and in files that are relocated
	offs := [6]uint64{word(3), word(4), word(5), word(6), word(7), limit}
	last := uint64(headerSize)
	for _, o := range offs {
		if o < last || o > limit {
			return nil, errDamaged
		}
		last = o
	}
	for i, p := range []*part{&t.names, &t.cus, &t.files, &t.pctab, &t.funcs} {
		*p = part{base + unwind.FileAddr(offs[i]), offs[i+1] - offs[i]}
	}
	if nfunc == 0 || nfunc > maxFuncs || nfunc*8+4 > t.funcs.size || t.pctab.size > maxPart {
		return nil, errDamaged
	}
	t.nfunc = int(nfunc)
	return t, t.checkFuncs()
}

// isMagic checks a header's first 8 bytes.
func isMagic(h []byte, arch unwind.Arch) bool {
	quantum := byte(1)
	if arch == unwind.ArchARM64 {
		quantum = 4
	}
	magic := binary.LittleEndian.Uint32(h)
	return (magic == magic118 || magic == magic120) && h[4] == 0 && h[5] == 0 && h[6] == quantum && h[7] == 8
}

// checkFuncs looks at a few functions to tell a table from bytes that look like a header.
func (t *Table) checkFuncs() error {
	const probes = 16
	prev := int64(-1)
	for i := range min(probes, t.nfunc) {
		n := i * (t.nfunc - 1) / max(1, min(probes, t.nfunc)-1)
		fn, ok := t.function(n)
		if !ok || int64(fn.entry) < prev {
			return errDamaged
		}
		prev = int64(fn.entry)
		if name, ok := t.name(fn.name); !ok || name == "" {
			return errDamaged
		}
	}
	if end, ok := t.entryOff(t.nfunc); !ok || int64(end) < prev {
		return errDamaged
	}
	return nil
}
