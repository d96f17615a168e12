package python

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// An interpreter of 3.14 or later may be built with --with-tail-call-interp, as python-build-standalone's are: each instruction is a
// function, a handler, which jumps to the next one by a table of 256 (Python/ceval_macros.h, Python/generated_cases.c.h of 3.14.2).
// _PyEval_EvalFrameDefault only makes the first frame and calls the first handler, and compilers put it into its callers. So at
// any time one native frame of some handler takes the place that the loop's frame has in other builds.
const (
	instructions = 256
	// fewestHandlers of the table are functions, and fewestDistinct of these are different ones: 3.14 has some 230.
	fewestHandlers, fewestDistinct = 200, 100
	// maxAddresses is how many addresses in code are looked at, and maxHandlers how many functions there may be.
	maxAddresses, maxHandlers = 256, 4096
	// maxExtents bounds how many places are looked up, maxPasses how far functions may be from handlers.
	maxExtents, maxPasses = 1 << 16, 16
	// maxEntry is more than the code has that calls the first handler; loops have ten times as much.
	maxEntry = 8 << 10
	// padding is the most bytes between functions that are nobody's.
	padding = 64
	// maxRelocations bounds how many are looked at for a table without contents, of which there may be maxEmpty: libpython has some 30,000.
	maxRelocations, maxEmpty = 1 << 18, 4
)

// findHandlers returns where the functions of a tail-calling interpreter lie, which entry leads to, sorted; none if it is another
// interpreter.
func findHandlers(f *elffile.File, entry []unwind.Extent) ([]unwind.Extent, error) {
	if slices.ContainsFunc(entry, func(x unwind.Extent) bool { return x.End-x.Start > maxEntry }) {
		return nil, nil // it has the instructions in it
	}
	functions, err := ehframe.NewFunctions(f)
	if err != nil {
		return nil, fmt.Errorf("looking for the interpreter's functions: %w", err)
	}
	h := handlers{
		file: f, functions: functions, left: maxDecoded, extents: map[unwind.FileAddr]unwind.Extent{}, seen: map[unwind.FileAddr]bool{},
	}
	for _, x := range entry {
		code, err := readPart(f, x)
		if err != nil {
			return nil, err
		}
		addresses := constants(f.Arch, code, x.Start)
		for _, at := range addresses[:min(len(addresses), maxAddresses)] {
			if err := h.table(at); err != nil {
				return nil, err
			}
		}
	}
	if len(h.parts) == 0 {
		return nil, nil
	}
	if err := h.others(entry); err != nil {
		return nil, err
	}
	return h.joined()
}

type handlers struct {
	file      *elffile.File
	functions *ehframe.Functions
	left      unwind.FileAddr // bytes of code that may be looked through
	empty     int             // tables without contents
	extents   map[unwind.FileAddr]unwind.Extent
	parts     []unwind.Extent
	seen      map[unwind.FileAddr]bool // where parts begin
}

// extent is the function that has an address; false if there is none. What was asked once costs nothing.
func (h *handlers) extent(at unwind.FileAddr) (x unwind.Extent, ok bool, err error) {
	if x, ok = h.extents[at]; ok || len(h.extents) == maxExtents {
		return x, ok && x.End > x.Start, nil
	}
	if x, ok, err = h.functions.Extent(at); err != nil {
		return x, false, fmt.Errorf("looking for the interpreter's functions: %w", err)
	}
	if !ok || x.End-x.Start > maxLoop {
		x, ok = unwind.Extent{}, false
	}
	h.extents[at] = x
	return x, ok, nil
}

// follow reads a function: which functions it jumps into, itself not among them, and whether it jumps by a table. false if too much was
// looked through already.
func (h *handlers) follow(x unwind.Extent) (to []unwind.Extent, dispatches, ok bool, err error) {
	if x.End-x.Start > h.left {
		return nil, false, false, nil
	}
	h.left -= x.End - x.Start
	code, err := readPart(h.file, x)
	if err != nil {
		return nil, false, false, err
	}
	for _, at := range leaving(h.file.Arch, code, x.Start) {
		y, ok, err := h.extent(at)
		if err != nil {
			return nil, false, false, err
		}
		if ok && (len(to) == 0 || to[len(to)-1] != y) {
			to = append(to, y)
		}
	}
	return to, scaledJump(h.file.Arch, code), true, nil
}

// table takes the functions of a table of handlers, if that is at an address.
func (h *handlers) table(at unwind.FileAddr) error {
	b := make([]byte, 8*instructions)
	if h.file.ReadAddr(b, at) != nil {
		return nil // no table
	}
	if !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) && h.empty < maxEmpty {
		h.empty++
		relocated(h.file, b, at)
	}
	var found []unwind.Extent
	distinct := map[unwind.FileAddr]bool{}
	good := 0
	for i := range instructions {
		to := unwind.FileAddr(binary.LittleEndian.Uint64(b[8*i:]))
		if i-good > instructions-fewestHandlers {
			return nil
		}
		if distinct[to] {
			good++
			continue
		}
		x, ok, err := h.extent(to)
		if err != nil {
			return err
		}
		if !ok || x.Start != to {
			continue // what is never run may have been left where there is no unwind information
		}
		good++
		distinct[to] = true
		found = append(found, x)
	}
	if good < fewestHandlers || len(distinct) < fewestDistinct {
		return nil
	}
	for _, x := range found {
		h.add(x)
	}
	return nil
}

func (h *handlers) add(x unwind.Extent) {
	if !h.seen[x.Start] && len(h.parts) < maxHandlers {
		h.seen[x.Start] = true
		h.parts = append(h.parts, x)
	}
}

// others adds what handlers jump to: what they share, as the handling of exceptions, and fragments of them. Both jump to handlers
// again; what else a function may end with a jump to does not.
func (h *handlers) others(entry []unwind.Extent) error {
	type candidate struct {
		extent     unwind.Extent
		to         []unwind.Extent
		dispatches bool
	}
	candidates := map[unwind.FileAddr]*candidate{}
	for n, pass := 0, 0; n < len(h.parts) && pass < maxPasses; pass++ {
		for ; n < len(h.parts); n++ {
			all, _, _, err := h.follow(h.parts[n])
			if err != nil {
				return err
			}
			for _, x := range all {
				if h.seen[x.Start] || candidates[x.Start] != nil || within(entry, x.Start) || len(candidates) == maxHandlers {
					continue
				}
				c, ok := &candidate{extent: x}, false
				if c.to, c.dispatches, ok, err = h.follow(x); err != nil {
					return err
				}
				if ok {
					candidates[x.Start] = c
				}
			}
		}
		for start, c := range candidates {
			if c.dispatches || slices.ContainsFunc(c.to, func(x unwind.Extent) bool { return h.seen[x.Start] }) {
				delete(candidates, start)
				h.add(c.extent)
			}
		}
	}
	return nil
}

// scaledJump tells whether code jumps by a table of what has eight bytes.
func scaledJump(arch unwind.Arch, code []byte) bool {
	if arch == unwind.ArchARM64 {
		loaded := uint32(32) // the register that was loaded from such a table last
		for i := 0; i+4 <= len(code); i += 4 {
			switch v := binary.LittleEndian.Uint32(code[i:]); {
			case v&0xffe0fc00 == 0xf8607800: // ldr x, [x, x, lsl #3]
				loaded = v & 31
			case v&0xfffffc1f == 0xd61f0000 && v>>5&31 == loaded: // br
				return true
			}
		}
		return false
	}
	for _, ins := range amd64Instructions(code) {
		if m, ok := ins.Args[0].(x86asm.Mem); ok && ins.Op == x86asm.JMP && m.Scale == 8 && m.Index != 0 {
			return true
		}
	}
	return false
}

// constants returns the addresses of data that code refers to, each once.
func constants(arch unwind.Arch, code []byte, at unwind.FileAddr) (out []unwind.FileAddr) {
	if arch == unwind.ArchARM64 {
		var pages [32]unwind.FileAddr
		for i := 0; i+4 <= len(code); i += 4 {
			v, pc := binary.LittleEndian.Uint32(code[i:]), at+unwind.FileAddr(i)
			if page, ok := adrp(v, pc); ok {
				pages[v&31] = page
			} else if v&0xffc00000 == 0x91000000 && pages[v>>5&31] != 0 { // add x, x, #n
				out = append(out, pages[v>>5&31]+unwind.FileAddr(v>>10&0xfff))
			}
		}
	} else {
		for next, ins := range amd64Instructions(code) {
			for _, arg := range ins.Args {
				switch m, ok := arg.(x86asm.Mem); {
				case !ok:
				case m.Base == x86asm.RIP:
					out = append(out, at+unwind.FileAddr(next)+unwind.FileAddr(m.Disp))
				case m.Base == 0 && m.Segment == 0 && m.Disp > 0:
					out = append(out, unwind.FileAddr(m.Disp))
				}
			}
			if n, ok := ins.Args[1].(x86asm.Imm); ok && ins.Op == x86asm.MOV && n > 0 {
				out = append(out, unwind.FileAddr(n))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// relocated puts into a table what the dynamic linker does: addends of relative relocations. What cannot be read puts nothing.
func relocated(f *elffile.File, table []byte, at unwind.FileAddr) {
	s := f.Section(".rela.dyn")
	if s == nil {
		return
	}
	relative := uint32(elf.R_X86_64_RELATIVE)
	if f.Arch == unwind.ArchARM64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	const entry = 24 // Elf64_Rela
	b, err := f.SectionData(s, maxRelocations*entry)
	if err != nil {
		return
	}
	defer f.Budget().Give(uint64(len(b)))
	for r := b; len(r) >= entry; r = r[entry:] {
		place := binary.LittleEndian.Uint64(r) - uint64(at)
		if uint32(binary.LittleEndian.Uint64(r[8:])) == relative && place%8 == 0 && place < uint64(len(table)) {
			copy(table[place:], r[16:24])
		}
	}
}

// joined sorts the parts, and makes one of those that have only padding between them.
func (h *handlers) joined() ([]unwind.Extent, error) {
	const step = 8 // bytes: no function is shorter
	all := merge(h.parts)
	out := all[:1]
	for _, x := range all[1:] {
		last := &out[len(out)-1]
		empty := x.Start-last.End < padding
		for at := last.End; empty && at < x.Start; at += step {
			_, ok, err := h.extent(at)
			if err != nil {
				return nil, err
			}
			empty = !ok
		}
		if empty {
			last.End = x.End
		} else {
			out = append(out, x)
		}
	}
	return out, nil
}
