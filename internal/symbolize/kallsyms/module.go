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
	i := sort.Search(len(p.addrs), func(i int) bool { return p.addrs[i] > addr }) - 1
	return i, i >= 0 && addr-p.addrs[i] < uint64(p.sizes[i])
}
