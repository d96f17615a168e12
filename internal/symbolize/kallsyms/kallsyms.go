// Package kallsyms names kernel addresses by /proc/kallsyms: the kernel itself, its modules, BPF programs and the
// trampolines of ftrace and kprobes.
//
// Layout: Linux 6.12, kernel/kallsyms.c, s_show: address, type as of nm, name, and for what is not built in a tab and
// the owner in brackets. The kernel's own symbols come first, by address; modules follow in the order of loading, then
// ftrace's, BPF's and kprobes'. Of symbols with the same address the first counts, since scripts/kallsyms.c has sorted
// the best one there.
package kallsyms

import (
	"errors"
	"io"
	"unsafe"
)

var (
	// ErrHidden: every address is zero; kernel.kptr_restrict hides them from who lacks CAP_SYSLOG.
	ErrHidden = errors.New("kernel addresses are hidden")
	// ErrMalformed: a line that the kernel would not write.
	ErrMalformed = errors.New("malformed kernel symbols")
	// ErrTooLarge: more symbols than a kernel has.
	ErrTooLarge = errors.New("too many kernel symbols")
	// ErrChanged: Reload was given another kernel's symbols.
	ErrChanged = errors.New("the kernel's own symbols have changed")
)

// Table is a set of kernel symbols. It is immutable.
type Table struct {
	core *part // the kernel itself; shared by the tables that Reload makes
	tail *part // the rest
	text coreText
}

// part is a sorted run of symbols without duplicates.
type part struct {
	entries []entry
	modules []uint16 // index in moduleNames; none in the core part
	names   texts

	moduleNames []string
	sums        []uint64 // by module: of its symbols and their addresses
}

type entry struct {
	addr uint64
	size uint32 // bytes
	name uint32 // in names
}

// Symbol is what covers an address.
type Symbol struct {
	Name   string // as the kernel has it: Rust's are mangled
	Module string // empty for the kernel itself; "bpf" for BPF programs
	Offset uint64 // bytes from where it begins
}

// Parse reads /proc/kallsyms from r. If modules is not nil it is /proc/modules, which tells where modules end. It
// returns ErrHidden, ErrMalformed, ErrTooLarge or a reader's error, wrapped.
func Parse(r, modules io.Reader) (*Table, error) {
	p := &parser{in: lines{r: r, buf: make([]byte, bufferSize)}}
	t := &Table{}
	var err error
	if t.core, t.text, err = p.parseCore(); err != nil {
		return nil, err
	}
	if t.tail, err = p.parseTail(modules); err != nil {
		return nil, err
	}
	if !p.nonzero {
		return nil, ErrHidden
	}
	return t, nil
}

// Reload is Parse for modules and BPF programs only: it passes over the kernel's own symbols, which it shares with t. It
// takes a fraction of the time; most of that is the kernel's for writing the text. If r does not begin as the text did
// from which t was made it returns ErrChanged, wrapped, and a new Parse will tell more.
func (t *Table) Reload(r, modules io.Reader) (*Table, error) {
	p := &parser{in: lines{r: r, buf: make([]byte, bufferSize)}}
	if err := p.skipCore(t.text); err != nil {
		return nil, err
	}
	n := &Table{core: t.core, text: t.text}
	var err error
	if n.tail, err = p.parseTail(modules); err != nil {
		return nil, err
	}
	return n, nil
}

// Lookup returns the symbol that covers a kernel address; false if none does.
func (t *Table) Lookup(addr uint64) (Symbol, bool) {
	if s, ok := t.core.lookup(addr); ok {
		return s, true
	}
	return t.tail.lookup(addr)
}

// Len is the number of symbols.
func (t *Table) Len() int { return len(t.core.entries) + len(t.tail.entries) }

// Bytes is the memory that the table holds. What tables share counts in each.
func (t *Table) Bytes() int { return int(unsafe.Sizeof(*t)) + t.core.bytes() + t.tail.bytes() }

func (p *part) lookup(addr uint64) (Symbol, bool) {
	i, ok := p.find(addr)
	if !ok {
		return Symbol{}, false
	}
	s := Symbol{Name: p.names.get(p.entries[i].name), Offset: addr - p.entries[i].addr}
	if len(p.modules) > 0 {
		s.Module = p.moduleNames[p.modules[i]]
	}
	return s, true
}

func (p *part) bytes() int {
	n := int(unsafe.Sizeof(*p)) + cap(p.entries)*int(unsafe.Sizeof(entry{})) + cap(p.modules)*2 + cap(p.sums)*8 + p.names.bytes()
	for _, m := range p.moduleNames {
		n += len(m) + int(unsafe.Sizeof(m))
	}
	return n
}
