package ehframe

import (
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// fromHeader finds .eh_frame through .eh_frame_hdr (LSB Core 5.0, 10.6.2): version, three encodings, then the pointer.
// The header does not tell the section's size, so its lengths are followed to the terminator first.
func fromHeader(f *elffile.File, p elffile.Prog) (*section, error) {
	b := make([]byte, min(p.FileSize, 16))
	if err := f.ReadAddr(b, p.VAddr); err != nil {
		return nil, fmt.Errorf("reading .eh_frame_hdr: %w", err)
	}
	c := cursor{b: b}
	version, enc := c.u8(), c.u8()
	c.take(2)
	addr := c.pointer(enc, uint64(p.VAddr), uint64(p.VAddr))
	if version != 1 || c.bad || enc == peOmit {
		return nil, nil
	}
	size, err := extent(f, unwind.FileAddr(addr))
	if err != nil || size == 0 {
		return nil, err
	}
	if err := f.Budget().Take(size, ".eh_frame"); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if err := f.ReadAddr(data, unwind.FileAddr(addr)); err != nil {
		return nil, fmt.Errorf("reading .eh_frame: %w", err)
	}
	return &section{data: data, addr: addr, arch: f.Arch, terminated: true}, nil
}

// extent is how many bytes of entries lie at addr: up to the terminator, the first senseless length, the end of the
// segment, or MaxSection.
func extent(f *elffile.File, addr unwind.FileAddr) (uint64, error) {
	var room uint64
	for _, s := range f.Segments {
		if d := uint64(addr - s.VAddr); addr >= s.VAddr && d < s.FileSize {
			room = min(s.FileSize-d, MaxSection)
		}
	}
	buf := make([]byte, 64<<10)
	var base, have uint64 // buf[:have] is at addr+base
	for off := uint64(0); ; {
		if room-off < 4 {
			return off, nil
		}
		if need := min(room-off, 12); off < base || off+need > base+have {
			base, have = off, min(uint64(len(buf)), room-off)
			if err := f.ReadAddr(buf[:have], addr+unwind.FileAddr(base)); err != nil {
				return 0, fmt.Errorf("reading .eh_frame: %w", err)
			}
		}
		c := cursor{b: buf[:have], pos: int(off - base)}
		length, head := uint64(c.u32()), uint64(4)
		if length == 0xffffffff {
			length, head = c.u64(), 12
		}
		if c.bad || length == 0 || length > room-off-min(head, room-off) {
			return off, nil
		}
		off += head + length
	}
}
