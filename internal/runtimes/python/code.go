package python

import (
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/cache"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxCodes bounds the code objects that are kept of one process; they are read again when their frames are sampled at a new place.
	maxCodes = 1 << 14
	// maxCodeText bounds what they take, in bytes.
	maxCodeText = 4 << 20
	// keptBytes is about what one takes beside its texts.
	keptBytes = 200
	// maxLines bounds a table of lines, in bytes: the largest modules that are generated have some hundred thousand.
	maxLines = 1 << 20
	// codeObject is how much is read of a code object, in bytes.
	codeObject = 256
)

// codeKey tells code objects apart: what BPF says of their contents goes with the address, which may be used again.
type codeKey struct {
	at    unwind.Addr
	check uint32
}

// code is what is known of a code object.
type code struct {
	name, file string
	firstLine  int
	lines      []byte
	hidden     bool // no function of the program's
}

func (c *code) bytes() int { return len(c.name) + len(c.file) + len(c.lines) }

// codes keeps code objects.
type codes = cache.Cache[codeKey, *code]

func newCodes() *codes { return cache.New[codeKey](maxCodes, maxCodeText, (*code).bytes) }

// check is python_check of bpf/unwind/python.h.
func check(names []byte) uint32 {
	const multiplier = 0x9e3779b97f4a7c15
	h := binary.LittleEndian.Uint64(names)
	h = (h ^ binary.LittleEndian.Uint64(names[8:])) * multiplier
	h = (h ^ h>>29 ^ binary.LittleEndian.Uint64(names[16:])) * multiplier
	h = (h ^ h>>29 ^ binary.LittleEndian.Uint64(names[24:])) * multiplier
	return uint32(h >> 32)
}

// codeBytes is how much of a code object is looked at.
func (l *layout) codeBytes() int {
	return max(l.names()+32, l.code.table+8, l.code.firstLine+8, l.code.filename+8, l.code.name+8, l.code.qualname+8)
}

// readCode reads a code object, ErrStale if it is another one than BPF has seen there.
func (n *instance) readCode(mem unwind.Memory, key codeKey) (*code, error) {
	l := &n.image.layout
	b := make([]byte, codeObject)
	if err := mem.Read(key.at, b[:l.codeBytes()]); err != nil {
		return nil, err
	}
	word := func(offset int) uint64 { return binary.LittleEndian.Uint64(b[offset:]) }
	if word(l.header-8) != uint64(n.image.code)+n.bias {
		return nil, fmt.Errorf("no code object: %w", runtimes.ErrStale)
	}
	if check(b[l.names():]) != key.check {
		return nil, fmt.Errorf("another code object: %w", runtimes.ErrStale)
	}
	c := &code{firstLine: int(int32(binary.LittleEndian.Uint32(b[l.code.firstLine:])))}
	name := l.code.name
	if l.code.qualname != 0 {
		name = l.code.qualname
	}
	var err error
	if c.name, err = l.readText(mem, unwind.Addr(word(name))); err != nil {
		return nil, fmt.Errorf("its name: %w", err)
	}
	if c.file, err = l.readText(mem, unwind.Addr(word(l.code.filename))); err != nil {
		return nil, fmt.Errorf("its file: %w", err)
	}
	if c.lines, err = l.readBytes(mem, unwind.Addr(word(l.code.table)), maxLines); err != nil {
		return nil, fmt.Errorf("its lines: %w", err)
	}
	// A class that is called has a frame of the interpreter's own below that of its __init__, to look at what that returns:
	// _Py_InitCleanup in Python/specialize.c and Python/codegen.c, from 3.13 on. It is nobody's function.
	c.hidden = c.file == "__init__" && c.name == "__init__"
	// what was read belongs together only if the object is still there
	again := make([]byte, codeObject)
	if err := mem.Read(key.at, again[:l.codeBytes()]); err != nil {
		return nil, err
	}
	if check(again[l.names():]) != key.check {
		return nil, fmt.Errorf("another code object by now: %w", runtimes.ErrStale)
	}
	return c, nil
}
