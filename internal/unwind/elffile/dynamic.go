package elffile

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ErrNoDynamic: the file has no symbols for the dynamic linker that can be found by name.
var ErrNoDynamic = errors.New("no dynamic symbols")

// Dynamic finds symbols by name as the dynamic linker does: by the file's hash table, of which it reads just what a lookup touches.
// Section headers are not needed. The file's reader must stay open as long as it is used.
//
// Layouts: gABI 4.3 draft, "Dynamic Section" and "Hash Table"; DT_GNU_HASH as elf/dl-lookup.c and elf/dl-setup_hash.c of glibc 2.36
// read it.
type Dynamic struct {
	f       *File
	symbols unwind.FileAddr
	names   unwind.FileAddr
	size    uint64 // of names, bytes
	gnu     *gnuHash
	sysv    *sysvHash
}

// gnuHash is the head of DT_GNU_HASH's table: a Bloom filter of 64-bit words, buckets, and chains of hash values whose
// lowest bit ends them.
type gnuHash struct {
	buckets, first, words, shift uint32
	filter                       unwind.FileAddr
}

// sysvHash is the head of DT_HASH's table: buckets, and for each symbol the next of its chain.
type sysvHash struct {
	buckets, symbols uint32
	at               unwind.FileAddr
}

const (
	maxDynamic = 512     // entries of the dynamic section; there are some thirty
	maxChain   = 1 << 12 // symbols that one lookup looks at
)

// NewDynamic reads the dynamic section. ErrNoDynamic, wrapped, if there is none or it names no hash table.
func NewDynamic(f *File) (*Dynamic, error) {
	var at Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_DYNAMIC {
			at = p
		}
	}
	d := &Dynamic{f: f}
	var gnu, sysv unwind.FileAddr
	tags := make([]byte, min(at.FileSize/16, maxDynamic)*16)
	if err := f.ReadAddr(tags, at.VAddr); err != nil {
		return nil, fmt.Errorf("reading the dynamic section: %w", err)
	}
	for b := tags; len(b) >= 16; b = b[16:] {
		value := binary.LittleEndian.Uint64(b[8:])
		switch elf.DynTag(binary.LittleEndian.Uint64(b[:])) {
		case elf.DT_NULL:
			return d, d.open(gnu, sysv)
		case elf.DT_SYMTAB:
			d.symbols = unwind.FileAddr(value)
		case elf.DT_STRTAB:
			d.names = unwind.FileAddr(value)
		case elf.DT_STRSZ:
			d.size = value
		case elf.DT_GNU_HASH:
			gnu = unwind.FileAddr(value)
		case elf.DT_HASH:
			sysv = unwind.FileAddr(value)
		}
	}
	return d, d.open(gnu, sysv)
}

func (d *Dynamic) open(gnu, sysv unwind.FileAddr) error {
	var b [16]byte
	switch {
	case d.symbols == 0 || d.names == 0:
		return ErrNoDynamic
	case gnu != 0:
		if err := d.f.ReadAddr(b[:], gnu); err != nil {
			return fmt.Errorf("reading the hash table of dynamic symbols: %w", err)
		}
		d.gnu = &gnuHash{
			buckets: binary.LittleEndian.Uint32(b[0:]), first: binary.LittleEndian.Uint32(b[4:]),
			words: binary.LittleEndian.Uint32(b[8:]), shift: binary.LittleEndian.Uint32(b[12:]), filter: gnu + 16,
		}
		if d.gnu.buckets == 0 || d.gnu.words == 0 {
			return ErrNoDynamic
		}
	case sysv != 0:
		if err := d.f.ReadAddr(b[:8], sysv); err != nil {
			return fmt.Errorf("reading the hash table of dynamic symbols: %w", err)
		}
		d.sysv = &sysvHash{
			buckets: binary.LittleEndian.Uint32(b[0:]), symbols: binary.LittleEndian.Uint32(b[4:]), at: sysv + 8,
		}
		if d.sysv.buckets == 0 {
			return ErrNoDynamic
		}
	default:
		return ErrNoDynamic
	}
	return nil
}

// Lookup returns the symbol of that name which the file defines. Versions are not looked at: of several, any is returned.
func (d *Dynamic) Lookup(name string) (s Symbol, ok bool, err error) {
	find := d.lookupSysV
	if d.gnu != nil {
		find = d.lookupGNU
	}
	if s, ok, err = find(name); err != nil {
		return Symbol{}, false, fmt.Errorf("looking up %s: %w", name, err)
	}
	return s, ok, nil
}

func (d *Dynamic) lookupGNU(name string) (Symbol, bool, error) {
	g := d.gnu
	hash := uint32(5381)
	for i := range len(name) {
		hash = hash*33 + uint32(name[i])
	}
	var b [8]byte
	if err := d.f.ReadAddr(b[:], g.filter+unwind.FileAddr(8*uint64((hash/64)%g.words))); err != nil {
		return Symbol{}, false, err
	}
	word := binary.LittleEndian.Uint64(b[:])
	if word>>(hash%64)&1 == 0 || word>>((hash>>(g.shift%32))%64)&1 == 0 {
		return Symbol{}, false, nil
	}
	buckets := g.filter + unwind.FileAddr(8*uint64(g.words))
	if err := d.f.ReadAddr(b[:4], buckets+unwind.FileAddr(4*uint64(hash%g.buckets))); err != nil {
		return Symbol{}, false, err
	}
	n := binary.LittleEndian.Uint32(b[:])
	if n < g.first {
		return Symbol{}, false, nil
	}
	chain := buckets + unwind.FileAddr(4*uint64(g.buckets))
	for range maxChain {
		if err := d.f.ReadAddr(b[:4], chain+unwind.FileAddr(4*uint64(n-g.first))); err != nil {
			return Symbol{}, false, err
		}
		value := binary.LittleEndian.Uint32(b[:])
		if value|1 == hash|1 {
			if s, ok, err := d.symbol(n, name); ok || err != nil {
				return s, ok, err
			}
		}
		if n++; value&1 != 0 {
			break
		}
	}
	return Symbol{}, false, nil
}

func (d *Dynamic) lookupSysV(name string) (Symbol, bool, error) {
	hash := uint32(0)
	for i := range len(name) {
		hash = hash<<4 + uint32(name[i])
		top := hash & 0xf0000000
		hash ^= top>>24 ^ top
	}
	var b [4]byte
	at := d.sysv.at + unwind.FileAddr(4*uint64(hash%d.sysv.buckets))
	for range maxChain {
		if err := d.f.ReadAddr(b[:], at); err != nil {
			return Symbol{}, false, err
		}
		n := binary.LittleEndian.Uint32(b[:])
		if n == 0 || n >= d.sysv.symbols {
			break
		}
		if s, ok, err := d.symbol(n, name); ok || err != nil {
			return s, ok, err
		}
		at = d.sysv.at + unwind.FileAddr(4*(uint64(d.sysv.buckets)+uint64(n)))
	}
	return Symbol{}, false, nil
}

// symbol reads symbol number n, and tells whether it is defined and has that name.
func (d *Dynamic) symbol(n uint32, name string) (Symbol, bool, error) {
	var b [SymbolSize]byte
	if err := d.f.ReadAddr(b[:], d.symbols+unwind.FileAddr(SymbolSize*uint64(n))); err != nil {
		return Symbol{}, false, err
	}
	s := ParseSymbol(b[:])
	if s.Section == elf.SHN_UNDEF || uint64(s.Name)+uint64(len(name)) >= d.size {
		return Symbol{}, false, nil
	}
	text := make([]byte, len(name)+1)
	if err := d.f.ReadAddr(text, d.names+unwind.FileAddr(s.Name)); err != nil {
		return Symbol{}, false, err
	}
	return s, string(text[:len(name)]) == name && text[len(name)] == 0, nil
}
