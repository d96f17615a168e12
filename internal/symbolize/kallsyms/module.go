package kallsyms

import (
	"iter"
	"slices"
	"sort"
)

// Module returns the module that a kernel address lies in, as Symbol.Module; false if no symbol covers the address. Unlike
// Lookup it allocates nothing.
func (t *Table) Module(addr uint64) (string, bool) {
	if _, ok := t.core.find(addr); ok {
		return "", true
	}
	i, ok := t.tail.find(addr)
	if !ok || len(t.tail.modules) == 0 {
		return "", ok
	}
	return t.tail.moduleNames[t.tail.modules[i]], true
}

func (p *part) find(addr uint64) (int, bool) {
	i := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].addr > addr }) - 1
	return i, i >= 0 && addr-p.entries[i].addr < uint64(p.entries[i].size)
}

// Text returns the addresses at which the kernel's own code begins and ends, those of _stext and _etext: 0 if they are not known.
func (t *Table) Text() (begin, end uint64) { return t.text.begin, t.text.end }

// Modules returns the names of what has symbols beside the kernel itself.
func (t *Table) Modules() []string { return t.tail.moduleNames }

// Sum identifies the symbols of a module, as Symbol.Module names it, and their addresses, among the tables that Reload makes of
// one; 0 if the table has none of it. A module that was removed and loaded again elsewhere has another.
func (t *Table) Sum(module string) uint64 {
	if module == "" {
		return uint64(t.text.sum) | 1<<32
	}
	for i, name := range t.tail.moduleNames {
		if name == module && i < len(t.tail.sums) {
			return t.tail.sums[i]
		}
	}
	return 0
}

// Symbols yields the names and the addresses of a module's symbols, by address.
func (t *Table) Symbols(module string) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		p := t.tail
		if module == "" {
			p = t.core
		}
		for i, e := range p.entries {
			if module != "" && p.moduleNames[p.modules[i]] != module {
				continue
			}
			if !yield(p.names.get(e.name), e.addr) {
				return
			}
		}
	}
}

// WithSizes returns the table with the sizes, in bytes, of functions that are no part of the kernel itself, by their addresses: what
// lies behind is not theirs. The other functions reach up to the next one.
func (t *Table) WithSizes(sizes map[uint64]uint32) *Table {
	if len(sizes) == 0 {
		return t
	}
	n, tail := *t, *t.tail
	tail.entries = slices.Clone(tail.entries)
	for i := range tail.entries {
		e := &tail.entries[i]
		if size, ok := sizes[e.addr]; ok {
			e.size = min(e.size, size)
		}
	}
	n.tail = &tail
	return &n
}

// addSum goes on with a sum: FNV-1a over an address and a name.
func addSum(sum, addr uint64, name []byte) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	if sum == 0 {
		sum = offset
	}
	for i := range 8 {
		sum = (sum ^ addr>>(8*i)&0xff) * prime
	}
	for _, b := range name {
		sum = (sum ^ uint64(b)) * prime
	}
	return sum
}
