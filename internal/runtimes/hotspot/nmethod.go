package hotspot

import (
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	pcDescBytes  = 16      // PcDesc of share/code/pcDesc.hpp, JDK 8 to 26: offsets of the code and of the scope, and two more
	maxPcDescs   = 1 << 18 // of an nmethod
	maxMetadata  = 1 << 18
	maxScopes    = 256 // inlined into each other
	scopeBytes   = 16  // more than what is read of a scope takes
	descsAtOnce  = 256
	metadataWord = 8
)

// place is one in an nmethod's code.
type place struct {
	at     unwind.Addr
	id     uint32 // of the compilation
	offset uint32 // from where the code begins
	leaf   bool   // it is no return address
}

// compiled appends the lines of a place in compiled code: the method there, and those that it was inlined into.
func (n *instance) compiled(mem unwind.Memory, dst []unwind.Line, f place) ([]unwind.Line, error) {
	m, err := n.readNmethod(mem, f)
	if err != nil {
		return dst, fmt.Errorf("compiled code at %#x: %w", uint64(f.at), err)
	}
	lines, err := n.scopes(m, dst, f)
	if err != nil {
		return dst, fmt.Errorf("compiled code at %#x+%#x: %w", uint64(f.at), f.offset, err)
	}
	if _, err := n.readNmethod(mem, f); err != nil { // what was read belongs together only if the code is still there
		return dst, fmt.Errorf("compiled code at %#x: %w", uint64(f.at), err)
	}
	return lines, nil
}

// nmethod is where what describes the code lies.
type nmethod struct {
	mem           unwind.Memory
	arch          unwind.Arch
	method        unwind.Addr
	code          uint64 // where it begins
	pcs, pcsEnd   uint64
	scopes        uint64
	metadata      uint64
	metadataWords uint64
}

// readNmethod reads one, ErrStale if it is not that of the compilation.
func (n *instance) readNmethod(mem unwind.Memory, f place) (*nmethod, error) {
	l, at := &n.layout.nmethod, uint64(f.at)
	b := make([]byte, l.bytes)
	if err := mem.Read(f.at, b); err != nil {
		return nil, err
	}
	word := func(o int) uint64 { return field{o, 8}.get(b) }
	if id := binary.LittleEndian.Uint32(b[l.id:]); id != f.id {
		return nil, fmt.Errorf("compilation %d, not %d: %w", id, f.id, runtimes.ErrStale)
	}
	m := &nmethod{mem: mem, arch: n.arch, method: unwind.Addr(word(l.method)), code: n.layout.blob.code.get(b)}
	if n.layout.blob.code.bytes != 8 {
		m.code += at
	}
	base := at
	if l.immutable >= 0 {
		base = word(l.immutable)
	}
	m.pcs, m.pcsEnd, m.scopes = base+l.pcs.get(b), base+l.pcsEnd.get(b), l.scopes.get(b)
	if l.scopes.bytes != 8 {
		m.scopes += base
	}
	if l.mutable >= 0 {
		relocation := l.relocation.get(b)
		m.metadata, m.metadataWords = word(l.mutable)+relocation, (l.mutableSize.get(b)-relocation)/metadataWord
	} else { // behind it are the scopes
		m.metadata = at + l.metadata.get(b)
		m.metadataWords = (m.scopes - m.metadata) / metadataWord
	}
	if m.pcsEnd < m.pcs || m.pcsEnd-m.pcs > maxPcDescs*pcDescBytes || m.metadataWords > maxMetadata {
		return nil, fmt.Errorf("no nmethod: %w", runtimes.ErrStale)
	}
	return m, nil
}

// pcDesc is what is looked at of one.
type pcDesc struct{ offset, scope int32 }

func (m *nmethod) desc(i int) (pcDesc, error) {
	var b [8]byte
	err := m.mem.Read(unwind.Addr(m.pcs+pcDescBytes*uint64(i)), b[:])
	return pcDesc{int32(binary.LittleEndian.Uint32(b[:])), int32(binary.LittleEndian.Uint32(b[4:]))}, err
}

// find returns the scope of a place in the code, 0 if none is described. Described are calls and other safepoints: of another place the next
// one counts, as HotSpot itself has it (PcDescContainer::find_pc_desc, share/code/nmethod.cpp), unless it is behind a loop that the place is
// in. The first and the last are no places.
func (m *nmethod) find(f place) (int32, error) {
	offset := int32(f.offset)
	if f.leaf {
		offset++
	}
	lo, hi := 0, int((m.pcsEnd-m.pcs)/pcDescBytes)
	count := hi
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		d, err := m.desc(mid)
		if err != nil {
			return 0, err
		}
		if d.offset < offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == count-1 && lo > 0 { // behind the last one
		lo--
	}
	if lo >= count {
		return 0, nil
	}
	d, err := m.desc(lo)
	if err != nil || !f.leaf || lo < 2 {
		return d.scope, err
	}
	before, err := m.desc(lo - 1)
	if err != nil {
		return 0, err
	}
	if before.scope > 0 && m.inLoop(int32(f.offset), before.offset, d.offset) {
		return before.scope, nil
	}
	return d.scope, nil
}

// scopes appends the lines of the methods at a place, the innermost first: ScopeDesc::decode_body of share/code/scopeDesc.cpp, JDK 8 to 26. A
// native method's wrapper describes nothing.
func (n *instance) scopes(m *nmethod, dst []unwind.Line, f place) ([]unwind.Line, error) {
	at, err := m.find(f)
	if err != nil {
		return dst, err
	}
	if at <= 0 {
		return n.appendLine(m.mem, dst, m.method, noLine)
	}
	x := n.layout.method.stream
	for range maxScopes {
		b := make([]byte, scopeBytes)
		if err := m.mem.Read(unwind.Addr(m.scopes+uint64(at)), b); err != nil {
			return dst, err
		}
		sender, b, _ := x.unsigned(b)
		index, b, _ := x.unsigned(b)
		bci, _, ok := x.unsigned(b)
		if !ok || index == 0 || uint64(index) > m.metadataWords || sender >= uint32(at) || bci > uint32(noBCI) {
			return dst, fmt.Errorf("scope at %d: %w", at, runtimes.ErrStale)
		}
		p := &peek{mem: m.mem}
		method := p.word(m.metadata + metadataWord*uint64(index-1))
		if p.err != nil {
			return dst, p.err
		}
		// one is added, so that what comes before the first bytecode is none
		if dst, err = n.appendLine(m.mem, dst, unwind.Addr(method), max(int(bci)-1, 0)); err != nil {
			return dst, err
		}
		if sender == 0 {
			return dst, nil
		}
		at = int32(sender)
	}
	return dst, fmt.Errorf("scopes without an end: %w", runtimes.ErrStale)
}

// appendLine appends a place in a method's bytecodes.
func (n *instance) appendLine(mem unwind.Memory, dst []unwind.Line, a unwind.Addr, bci int) ([]unwind.Line, error) {
	cm, err := n.constMethodOf(mem, a)
	if err != nil {
		return dst, err
	}
	m, err := n.method(mem, a, cm)
	if err != nil {
		return dst, fmt.Errorf("method at %#x: %w", uint64(a), err)
	}
	return append(dst, m.line(bci)), nil
}
