package ehframe

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// maxCIE bounds a CIE that Functions reads: compilers' have some 24 bytes.
const maxCIE = 1 << 10

// Functions finds where the function around an address begins, by the sorted table of .eh_frame_hdr (LSB Core 5.0, 10.6.2).
// It keeps no part of the file. Its reader must stay open as long as it is used.
type Functions struct {
	f     *elffile.File
	base  unwind.FileAddr // of the header, to which the table's addresses are relative
	table unwind.FileAddr
	count uint64
	enc   uint8
	width uint64 // bytes of one value; an entry has two
}

// NewFunctions reads the header. A file without such a table gives a Functions that finds nothing, which is no error.
func NewFunctions(f *elffile.File) (*Functions, error) {
	fs := &Functions{f: f}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_EH_FRAME {
			if err := fs.header(p); err != nil {
				return &Functions{f: f}, fmt.Errorf("reading .eh_frame_hdr: %w", err)
			}
			break
		}
	}
	return fs, nil
}

func (fs *Functions) header(p elffile.Prog) error {
	b := make([]byte, min(p.FileSize, 4+8+8))
	if err := fs.f.ReadAddr(b, p.VAddr); err != nil {
		return err
	}
	c := cursor{b: b}
	version, frames, count, table := c.u8(), c.u8(), c.u8(), c.u8()
	c.pointer(frames, uint64(p.VAddr), uint64(p.VAddr))
	if version != 1 || count == peOmit || table == peOmit {
		return nil // without a table
	}
	n := c.value(count)
	switch table & peFormat {
	case peUData2, peSData2:
		fs.width = 2
	case peUData4, peSData4:
		fs.width = 4
	case peAbsPtr, peUData8, peSData8:
		fs.width = 8
	}
	// relative to its own place, an entry could not be compared with others where it lies
	if c.bad || fs.width == 0 || table&(peApply|peIndirect) != peDataRel {
		return nil
	}
	fs.base, fs.table, fs.enc = p.VAddr, p.VAddr+unwind.FileAddr(c.pos), table
	fs.count = min(n, (p.FileSize-uint64(c.pos))/(2*fs.width))
	return nil
}

// Find returns the first address of the function that has a, as the FDE says that covers it. ok is false if none does. An
// error is one of reading the file.
func (fs *Functions) Find(a unwind.FileAddr) (start unwind.FileAddr, ok bool, err error) {
	x, ok, err := fs.Extent(a)
	return x.Start, ok, err
}

// Extent returns what the FDE covers that covers a; that is all of a function, or of a part of one that lies by itself. ok is
// false if none does. An error is one of reading the file.
func (fs *Functions) Extent(a unwind.FileAddr) (x unwind.Extent, ok bool, err error) {
	lo, hi := uint64(0), fs.count // the last entry that is not behind a is in [lo-1, hi-1]
	var fde uint64
	for lo < hi {
		mid := lo + (hi-lo)/2
		at, entry, err := fs.entry(mid)
		if err != nil {
			return x, false, err
		}
		if at <= uint64(a) {
			lo, fde = mid+1, entry
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return x, false, nil
	}
	first, end, ok, err := fs.extent(unwind.FileAddr(fde))
	if err != nil || !ok || uint64(a) < first || uint64(a) >= end {
		return x, false, err
	}
	return unwind.Extent{Start: unwind.FileAddr(first), End: unwind.FileAddr(end)}, true, nil
}

// entry reads an entry of the table: where a function begins, and the address of its FDE.
func (fs *Functions) entry(n uint64) (start, fde uint64, err error) {
	b := make([]byte, 2*fs.width)
	if err := fs.f.ReadAddr(b, fs.table+unwind.FileAddr(n*2*fs.width)); err != nil {
		return 0, 0, fmt.Errorf("reading an entry of .eh_frame_hdr: %w", err)
	}
	c := cursor{b: b}
	return c.pointer(fs.enc, 0, uint64(fs.base)), c.pointer(fs.enc, 0, uint64(fs.base)), nil
}

// extent reads which addresses an FDE is for; ok is false if it makes no sense.
func (fs *Functions) extent(at unwind.FileAddr) (start, end uint64, ok bool, err error) {
	const enough = 64 // bytes for lengths, pointers and two addresses
	c, head, ok, err := fs.read(at, enough, false)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	place := uint64(at) + uint64(head)
	back := c.u32()
	if back == 0 || uint64(back) > place {
		return 0, 0, false, nil
	}
	cieAt := unwind.FileAddr(place - uint64(back))
	d, _, ok, err := fs.read(cieAt, maxCIE, true)
	if err != nil || !ok || d.u32() != 0 || d.bad {
		return 0, 0, false, err
	}
	s := &section{data: d.b, addr: uint64(cieAt), arch: fs.f.Arch}
	p, ok := s.parseCIE(entry{body: d.pos, end: len(d.b), cie: true})
	if !ok {
		return 0, 0, false, nil
	}
	start = c.pointer(p.enc, uint64(at), 0)
	end = start + c.value(p.enc)
	return start, end, !c.bad && end > start, nil
}

// read reads an entry of .eh_frame as far as limit, and returns it behind its length, which takes head bytes. whole refuses
// what is longer. ok is false if it makes no sense.
func (fs *Functions) read(at unwind.FileAddr, limit uint64, whole bool) (c cursor, head int, ok bool, err error) {
	var b [12]byte
	if ok, err := fs.bytes(b[:4], at); !ok {
		return c, 0, false, err
	}
	c.b = b[:4]
	length, head := uint64(c.u32()), 4
	if length == 0xffffffff {
		if ok, err := fs.bytes(b[:12], at); !ok {
			return c, 0, false, err
		}
		c = cursor{b: b[:], pos: 4}
		length, head = c.u64(), 12
	}
	if length < 4 || whole && length > limit-uint64(head) {
		return c, 0, false, nil
	}
	entry := make([]byte, uint64(head)+min(length, limit-uint64(head)))
	if ok, err := fs.bytes(entry, at); !ok {
		return c, 0, false, err
	}
	return cursor{b: entry, pos: head}, head, true, nil
}

// bytes reads; ok is false if there is nothing at the address.
func (fs *Functions) bytes(b []byte, at unwind.FileAddr) (ok bool, err error) {
	err = fs.f.ReadAddr(b, at)
	if errors.Is(err, elffile.ErrNoData) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading .eh_frame: %w", err)
	}
	return true, nil
}
