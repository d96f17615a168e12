package gopclntab

import (
	"encoding/binary"
	"math"
	"sort"
	"strings"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	sparseStep = 64
	maxDepth   = 64 // lines of an address: 63 inlined calls, and the function
	// maxIntern bounds the file names that are shared, maxShared their bytes.
	maxIntern = 1024
	maxShared = 512
	// internBytes is about what an entry of the map takes.
	internBytes = 48
)

// inlinedCall is an entry of an inline tree.
type inlinedCall struct {
	name      uint32
	parentPC  int32 // offset from the entry of an instruction that stands for the call
	startLine int32 // 0 before Go 1.20
}

// inlinedCall reads entry i of the inline tree at off from base (runtime/symtabinl.go; Go 1.18: runtime/symtab.go).
func (t *Table) inlinedCall(base unwind.FileAddr, off uint32, i int32) (c inlinedCall, ok bool) {
	size := 16
	if t.old {
		size = 20
	}
	b := t.mem.bytes(base+unwind.FileAddr(off)+unwind.FileAddr(i)*unwind.FileAddr(size), size)
	if b == nil {
		return c, false
	}
	u := binary.LittleEndian.Uint32
	if t.old {
		return inlinedCall{name: u(b[12:]), parentPC: int32(u(b[16:]))}, true
	}
	return inlinedCall{name: u(b[4:]), parentPC: int32(u(b[8:])), startLine: int32(u(b[12:]))}, true
}

// Lookup appends the places that the instruction at pc stands for, the innermost inlined call first and the physical
// function last. For a return address the caller passes the address before it. Names are spelled as
// runtime.FuncForPC does, with the symbol's full name as SystemName where it differs (type arguments). ok is false if
// pc is in no function of the table.
func (t *Table) Lookup(dst []unwind.Line, pc unwind.FileAddr) (_ []unwind.Line, ok bool) {
	i, ok := t.search(pc)
	if !ok {
		return dst, false
	}
	fn, ok := t.function(i)
	if !ok {
		return dst, false
	}
	off := uint64(pc-t.text) - uint64(fn.entry)
	first := len(dst)
	// A call's entry in the tree stands behind the entry of the call that it is part of, so that this ends.
	for outer := int32(math.MaxInt32); t.gofunc != 0 && fn.inlPC != 0 && fn.inlTree != noFuncdata; {
		index, ok := t.value(fn.inlPC, off)
		if !ok || index < 0 || index >= outer || len(dst)-first >= maxDepth-1 {
			break
		}
		outer = index
		call, ok := t.inlinedCall(t.gofunc, fn.inlTree, index)
		if !ok || call.parentPC < 0 || uint64(call.parentPC) >= uint64(fn.end-fn.entry) {
			break
		}
		if dst, ok = t.appendLine(dst, &fn, off, call.name, call.startLine); !ok {
			break
		}
		off = uint64(call.parentPC)
	}
	return t.appendLine(dst, &fn, off, fn.name, fn.startLine)
}

// appendLine appends the place of the instruction at off of fn, in the function called name.
func (t *Table) appendLine(dst []unwind.Line, fn *function, off uint64, name uint32, start int32) ([]unwind.Line, bool) {
	full, ok := t.name(name)
	if !ok {
		return dst, false
	}
	line, _ := t.value(fn.pcline, off)
	l := unwind.Line{Line: int(max(line, 0)), Function: unwind.Function{
		Name: shortName(full), File: t.file(fn, off), StartLine: int(max(start, 0)),
	}}
	if l.Function.Name != full {
		l.Function.SystemName = full
	}
	return append(dst, l), true
}

// shortName replaces type arguments by "[...]" (runtime/symtab.go, funcNameForPrint).
func shortName(full string) string {
	i := strings.IndexByte(full, '[')
	j := strings.LastIndexByte(full, ']')
	if i < 0 || j <= i || full[i:j+1] == "[...]" {
		return full
	}
	return full[:i] + "[...]" + full[j+1:]
}

// file is the source file of the instruction at off of fn, empty if unknown. Strings are shared while they fit.
func (t *Table) file(fn *function, off uint64) string {
	number, ok := t.value(fn.pcfile, off)
	if !ok || number < 0 || fn.cu == ^uint32(0) {
		return ""
	}
	a, ok := t.cus.at(4*(uint64(fn.cu)+uint64(number)), 4)
	if !ok {
		return ""
	}
	at, ok := t.mem.u32(a)
	if !ok || at == ^uint32(0) {
		return ""
	}
	if s, ok := t.intern[at]; ok {
		return s
	}
	s, _ := t.cString(t.files, at)
	if len(s) > maxShared {
		return s
	}
	if t.intern == nil || len(t.intern) >= maxIntern {
		t.intern = make(map[uint32]string)
	}
	t.intern[at] = s
	return s
}

// search finds the function that contains pc: among every sparseStep-th entry in memory, then among those between.
func (t *Table) search(pc unwind.FileAddr) (int, bool) {
	last, ok := t.entryOff(t.nfunc)
	if !ok || pc < t.text || uint64(pc-t.text) >= uint64(last) || !t.index() {
		return 0, false
	}
	off := uint32(pc - t.text)
	block := sort.Search(len(t.sparse), func(i int) bool { return t.sparse[i] > off }) - 1
	if block < 0 {
		return 0, false
	}
	first := block * sparseStep
	n := min(sparseStep, t.nfunc-first)
	a, ok := t.funcs.at(uint64(first)*8, uint64(n)*8)
	if !ok {
		return 0, false
	}
	b := t.mem.bytes(a, n*8)
	if b == nil {
		return 0, false
	}
	i := sort.Search(n, func(i int) bool { return binary.LittleEndian.Uint32(b[8*i:]) > off }) - 1
	return first + i, i >= 0
}

// index reads every sparseStep-th entry, once.
func (t *Table) index() bool {
	if t.sparse != nil {
		return true
	}
	sparse := make([]uint32, 0, (t.nfunc+sparseStep-1)/sparseStep)
	for i := 0; i < t.nfunc; i += sparseStep {
		off, ok := t.entryOff(i)
		if !ok {
			return false
		}
		sparse = append(sparse, off)
	}
	t.sparse = sparse
	return true
}

// Bytes is about the memory that the Table holds.
func (t *Table) Bytes() int {
	n := int(unsafe.Sizeof(*t)) + len(t.mem.blocks)*blockSize + cap(t.mem.pair) + 4*cap(t.sparse)
	for _, s := range t.intern {
		n += internBytes + len(s)
	}
	return n
}
