package hotspot

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/cache"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxMethods bounds the methods that are kept of one process; they are read again when they are sampled at a new place.
	maxMethods = 1 << 14
	// maxMethodBytes bounds what their names and tables take.
	maxMethodBytes = 4 << 20
	// methodBytes is about what one takes beside these.
	methodBytes = 200
	// maxLineBytes bounds a table of lines.
	maxLineBytes = 1 << 16

	accNative   = 0x100 // The Java Virtual Machine Specification, 4.6
	constantTag = 1     // JVM_CONSTANT_Utf8, 4.4
	hasLines    = 1     // of a ConstMethod's flags: share/oops/constMethod.hpp (JDK 8), constMethodFlags.hpp (JDK 26)
	noLine      = -1
)

// methodKey tells methods apart. Both are freed with their class, and when a class was redefined; that a pair is used again is unlikely.
type methodKey struct{ method, constMethod unwind.Addr }

// method is what is known of one.
type method struct {
	function unwind.Function
	native   bool
	codeSize int // bytes of bytecodes
	lines    []lineEntry
}

func (m *method) bytes() int {
	return len(m.function.Name) + len(m.function.SystemName) + len(m.function.File) + lineEntryBytes*len(m.lines)
}

// line is where a bytecode of it is in the source. HotSpot has -1 for what is done before the first one.
func (m *method) line(bci int) unwind.Line {
	l := unwind.Line{Function: m.function}
	if !m.native && bci < m.codeSize && bci != noLine {
		l.Line = lineOf(m.lines, bci)
	}
	return l
}

// methods keeps them.
type methods = cache.Cache[methodKey, *method]

func newMethods() *methods { return cache.New[methodKey](maxMethods, maxMethodBytes, (*method).bytes) }

// constMethodOf reads which ConstMethod a Method has.
func (n *instance) constMethodOf(mem unwind.Memory, a unwind.Addr) (unwind.Addr, error) {
	if a == 0 || a%8 != 0 {
		return 0, fmt.Errorf("no method: %w", runtimes.ErrStale)
	}
	p := &peek{mem: mem}
	cm := p.word(uint64(a) + uint64(n.layout.method.constMethod))
	if p.err == nil && (cm == 0 || cm%8 != 0) {
		p.err = fmt.Errorf("no method: %w", runtimes.ErrStale)
	}
	return unwind.Addr(cm), p.err
}

// method returns the one at an address that has that ConstMethod, ErrStale if it has another one.
func (n *instance) method(mem unwind.Memory, a, cm unwind.Addr) (*method, error) {
	key := methodKey{a, cm}
	if m, ok := n.methods.Get(key); ok {
		return m, nil
	}
	if is, err := n.constMethodOf(mem, a); err != nil {
		return nil, err
	} else if is != cm {
		return nil, fmt.Errorf("another method: %w", runtimes.ErrStale)
	}
	m, err := n.layout.method.read(mem, key)
	if err != nil {
		return nil, err
	}
	// what was read belongs together only if the method is still there
	if is, err := n.constMethodOf(mem, a); err != nil {
		return nil, err
	} else if is != cm {
		return nil, fmt.Errorf("another method by now: %w", runtimes.ErrStale)
	}
	n.methods.Add(key, m)
	return m, nil
}

// read reads a method.
func (l *methodLayout) read(mem unwind.Memory, key methodKey) (*method, error) {
	head := make([]byte, l.constBytes)
	if err := mem.Read(key.constMethod, head); err != nil {
		return nil, err
	}
	u2 := func(at int) int { return int(binary.LittleEndian.Uint16(head[at:])) }
	pool, err := l.readPool(mem, binary.LittleEndian.Uint64(head[l.constants:]))
	if err != nil {
		return nil, err
	}
	class, err := pool.class()
	if err != nil {
		return nil, fmt.Errorf("its class: %w", err)
	}
	name, err := pool.text(u2(l.nameIndex))
	if err != nil {
		return nil, fmt.Errorf("its name: %w", err)
	}
	signature, err := pool.text(u2(l.signatureIndex))
	if err == nil && !strings.HasPrefix(signature, "(") {
		err = fmt.Errorf("%q: %w", signature, runtimes.ErrStale)
	}
	if err != nil {
		return nil, fmt.Errorf("its signature: %w", err)
	}
	m := &method{codeSize: u2(l.codeSize), function: unwind.Function{Name: class + "." + name, SystemName: class + "." + name + signature}}
	if m.function.File, err = pool.source(); err != nil {
		return nil, fmt.Errorf("its file: %w", err)
	}
	var access [2]byte
	if err := mem.Read(key.method+unwind.Addr(l.access), access[:]); err != nil {
		return nil, err
	}
	if m.native = binary.LittleEndian.Uint16(access[:])&accNative != 0; m.native || u2(l.flags)&hasLines == 0 {
		return m, nil
	}
	// the bytecodes lie behind the head, and the table of lines behind them
	start := l.constBytes + m.codeSize
	end := 8 * int(binary.LittleEndian.Uint32(head[l.constSize:]))
	if end < start {
		return nil, fmt.Errorf("its size: %w", runtimes.ErrStale)
	}
	table := make([]byte, min(end-start, maxLineBytes))
	if err := mem.Read(key.constMethod+unwind.Addr(start), table); err != nil {
		return nil, err
	}
	m.lines = l.stream.lines(table)
	m.function.StartLine = lineOf(m.lines, 0)
	return m, nil
}

// pool is a constant pool.
type pool struct {
	l           *methodLayout
	mem         unwind.Memory
	at          uint64
	holder      uint64
	length      int
	tags        uint64
	sourceIndex int
}

func (l *methodLayout) readPool(mem unwind.Memory, at uint64) (*pool, error) {
	head := make([]byte, l.poolBytes)
	if at == 0 || at%8 != 0 {
		return nil, fmt.Errorf("no constant pool: %w", runtimes.ErrStale)
	}
	if err := mem.Read(unwind.Addr(at), head); err != nil {
		return nil, err
	}
	p := &pool{
		l: l, mem: mem, at: at, holder: binary.LittleEndian.Uint64(head[l.holder:]),
		length: int(int32(binary.LittleEndian.Uint32(head[l.length:]))), tags: binary.LittleEndian.Uint64(head[l.tags:]),
	}
	if p.holder == 0 || p.holder%8 != 0 || p.length <= 0 || p.length > 1<<16 {
		return nil, fmt.Errorf("no constant pool: %w", runtimes.ErrStale)
	}
	k := &peek{mem: mem}
	if l.sourceIndex != 0 {
		p.sourceIndex = int(binary.LittleEndian.Uint16(head[l.sourceIndex:]))
	} else {
		p.sourceIndex = int(k.bytes(p.holder+uint64(l.classSource), 2))
	}
	return p, k.err
}

// text is that of a constant.
func (p *pool) text(index int) (string, error) {
	if index <= 0 || index >= p.length {
		return "", fmt.Errorf("constant %d of %d: %w", index, p.length, runtimes.ErrStale)
	}
	k := &peek{mem: p.mem}
	// Array<u1>: a length of four bytes, then the elements
	if tag := k.bytes(p.tags+4+uint64(index), 1); k.err == nil && tag != constantTag {
		return "", fmt.Errorf("constant %d is of the kind %d: %w", index, tag, runtimes.ErrStale)
	}
	symbol := k.word(p.at + uint64(p.l.poolBytes) + 8*uint64(index))
	if k.err != nil {
		return "", k.err
	}
	return p.l.symbol(p.mem, symbol)
}

func (l *methodLayout) symbol(mem unwind.Memory, at uint64) (string, error) {
	k := &peek{mem: mem}
	n := int(k.bytes(at+uint64(l.symbolLength), 2))
	if k.err == nil && (n == 0 || at == 0) {
		k.err = fmt.Errorf("an empty name: %w", runtimes.ErrStale)
	}
	if k.err != nil {
		return "", k.err
	}
	b := make([]byte, min(n, maxSymbol))
	if err := mem.Read(unwind.Addr(at+uint64(l.symbolBody)), b); err != nil {
		return "", err
	}
	text := decode(b)
	if n > maxSymbol {
		text += "…"
	}
	return text, nil
}

// class is the name of the class that the pool is of. Its pool is this one, unless it was redefined since.
func (p *pool) class() (string, error) {
	k := &peek{mem: p.mem}
	constants, name := k.word(p.holder+uint64(p.l.classConstants)), k.word(p.holder+uint64(p.l.className))
	if k.err == nil && (constants == 0 || constants%8 != 0) {
		k.err = fmt.Errorf("no class: %w", runtimes.ErrStale)
	}
	if k.err != nil {
		return "", k.err
	}
	text, err := p.l.symbol(p.mem, name)
	return displayClass(text), err
}

// source is the file's name, as the compiler has written it down: without a folder; empty if it has not.
func (p *pool) source() (string, error) {
	if p.sourceIndex == 0 {
		return "", nil
	}
	return p.text(p.sourceIndex)
}
