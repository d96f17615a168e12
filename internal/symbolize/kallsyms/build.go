package kallsyms

import (
	"cmp"
	"math"
	"slices"
)

const (
	// maxGap bounds a function that is the last before another module or before nothing, if its module's end is not known.
	maxGap = 64 << 10
	// maxFunction bounds all others; BPF programs may have anything behind them.
	maxFunction = 1 << 20
)

// extent is a range of addresses.
type extent struct{ start, end uint64 }

// builder collects the symbols of a part in the order of the text.
type builder struct {
	symbols     []symbol
	names       []byte
	moduleNames []string
	unsorted    bool
}

type symbol struct {
	addr   uint64
	off    uint32 // in names
	len    uint16
	module uint16
	kind   kind
}

func (b *builder) add(l line, module uint16) {
	s := symbol{addr: l.addr, module: module, kind: l.kind}
	if n := len(b.symbols); n > 0 {
		last := &b.symbols[n-1]
		if s.addr < last.addr {
			b.unsorted = true
		}
		// In a sorted text a boundary behind another tells nothing; the kernel's data has many.
		if s.kind == boundary && last.kind == boundary && !b.unsorted && len(b.moduleNames) == 0 {
			return
		}
	}
	if l.kind != boundary {
		s.off, s.len = uint32(len(b.names)), uint16(min(len(l.name), math.MaxUint16))
		b.names = append(b.names, l.name[:s.len]...)
	}
	b.symbols = append(b.symbols, s)
}

// finish sorts the symbols and chooses one for each address. The extents are those of modules by name.
func (b *builder) finish(extents map[string]extent) (*part, error) {
	if b.unsorted {
		slices.SortStableFunc(b.symbols, func(x, y symbol) int { return cmp.Compare(x.addr, y.addr) })
	}
	n := 0
	b.each(func(symbol, uint64) { n++ })
	p := &part{
		addrs: make([]uint64, 0, n), sizes: make([]uint32, 0, n), offs: make([]uint32, 0, n+1),
		names: make([]byte, 0, len(b.names)), moduleNames: b.moduleNames,
	}
	if len(b.moduleNames) > 0 {
		p.modules = make([]uint16, 0, n)
	}
	b.each(func(s symbol, size uint64) {
		if len(b.moduleNames) > 0 {
			p.modules = append(p.modules, s.module)
			if e, ok := extents[b.moduleNames[s.module]]; ok && s.addr >= e.start && s.addr < e.end {
				size = min(size, e.end-s.addr)
			}
		}
		p.addrs = append(p.addrs, s.addr)
		p.sizes = append(p.sizes, uint32(size))
		p.offs = append(p.offs, uint32(len(p.names)))
		p.names = append(p.names, b.names[s.off:][:s.len]...)
	})
	p.offs = append(p.offs, uint32(len(p.names)))
	return p, nil
}

// each calls f for the symbol of each address that has one, with its size as far as other symbols tell it.
func (b *builder) each(f func(s symbol, size uint64)) {
	for i := 0; i < len(b.symbols); {
		best := b.symbols[i]
		j := i + 1
		for ; j < len(b.symbols) && b.symbols[j].addr == best.addr; j++ {
			if b.symbols[j].kind < best.kind {
				best = b.symbols[j]
			}
		}
		i = j
		if best.kind == boundary {
			continue
		}
		size := uint64(maxFunction)
		switch {
		case j == len(b.symbols):
			size = maxGap
		case b.symbols[j].module != best.module:
			size = min(maxGap, b.symbols[j].addr-best.addr)
		default:
			size = min(size, b.symbols[j].addr-best.addr)
		}
		f(best, size)
	}
}
