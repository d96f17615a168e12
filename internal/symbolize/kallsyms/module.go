package kallsyms

import "sort"

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
