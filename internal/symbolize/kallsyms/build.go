package kallsyms

import (
	"cmp"
	"math"
	"os"
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
	symbols     symbols
	names       texts
	moduleNames []string
	unsorted    bool
}

const chunkSymbols = 4096

// symbols is a list in pieces: a slice that grows would leave a multiple of itself behind as garbage, just when the
// collector starts.
type symbols struct {
	chunks [][]symbol
	n      int
}

func (l *symbols) append(s symbol) {
	if l.n%chunkSymbols == 0 {
		l.chunks = append(l.chunks, make([]symbol, 0, chunkSymbols))
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, s)
	l.n++
}

func (l *symbols) at(i int) *symbol { return &l.chunks[i/chunkSymbols][i%chunkSymbols] }

// sort keeps the order of symbols with one address.
func (l *symbols) sort() {
	all := slices.Concat(l.chunks...)
	slices.SortStableFunc(all, func(x, y symbol) int { return cmp.Compare(x.addr, y.addr) })
	l.chunks = slices.Collect(slices.Chunk(all, chunkSymbols))
}

// textBytes is the size of a block of texts; the longest name and its length fit into one.
const textBytes = 128 << 10

// texts is a list of names in blocks, each behind its length in two bytes. A name's number is its place.
type texts struct {
	blocks [][]byte
}

func (t *texts) add(name []byte) uint32 {
	name = name[:min(len(name), math.MaxUint16)]
	n := len(t.blocks)
	if n == 0 || len(t.blocks[n-1])+2+len(name) > textBytes {
		t.blocks = append(t.blocks, make([]byte, 0, textBytes))
		n++
	}
	b := &t.blocks[n-1]
	at := len(*b)
	*b = append(append(*b, byte(len(name)), byte(len(name)>>8)), name...)
	return uint32((n-1)*textBytes + at)
}

func (t *texts) get(i uint32) string { return string(t.bytesOf(i)) }

func (t *texts) bytesOf(i uint32) []byte {
	b := t.blocks[i/textBytes][i%textBytes:]
	return b[2:][:int(b[0])|int(b[1])<<8]
}

func (t *texts) bytes() int { return len(t.blocks) * textBytes }

type symbol struct {
	addr   uint64
	name   uint32 // in names
	module uint16
	kind   kind
}

func (b *builder) add(l line, module uint16) {
	s := symbol{addr: l.addr, module: module, kind: l.kind}
	if n := b.symbols.n; n > 0 {
		last := b.symbols.at(n - 1)
		if s.addr < last.addr {
			b.unsorted = true
		}
		// In a sorted text a boundary behind another tells nothing; the kernel's data has many.
		if s.kind == boundary && last.kind == boundary && !b.unsorted && len(b.moduleNames) == 0 {
			return
		}
	}
	if l.kind != boundary {
		s.name = b.names.add(l.name)
	}
	b.symbols.append(s)
}

// finish sorts the symbols and chooses one for each address. The extents are those of modules by name.
func (b *builder) finish(extents map[string]extent) (*part, error) {
	if b.unsorted {
		b.symbols.sort()
	}
	n := 0
	b.each(func(symbol, uint64, bool) { n++ })
	p := &part{entries: make([]entry, 0, n), names: b.names, moduleNames: b.moduleNames}
	if len(b.moduleNames) > 0 {
		p.modules = make([]uint16, 0, n)
		p.sums = make([]uint64, len(b.moduleNames))
	}
	page := uint64(os.Getpagesize())
	b.each(func(s symbol, size uint64, last bool) {
		if len(b.moduleNames) > 0 {
			p.modules = append(p.modules, s.module)
			p.sums[s.module] = addSum(p.sums[s.module], s.addr, b.names.bytesOf(s.name))
			if e, ok := extents[b.moduleNames[s.module]]; ok && s.addr >= e.start && s.addr < e.end {
				size = min(size, e.end-s.addr)
				if last {
					// A module's size is that of all its memory since Linux 6.4, wherever that is; the next page may be that of
					// a module that is not known yet.
					size = min(size, page-s.addr%page)
				}
			}
		}
		p.entries = append(p.entries, entry{s.addr, uint32(size), s.name})
	})
	return p, nil
}

// each calls f for the symbol of each address that has one, with its size as far as other symbols tell it; last: that is none of its
// module's functions.
func (b *builder) each(f func(s symbol, size uint64, last bool)) {
	for i := 0; i < b.symbols.n; {
		best := *b.symbols.at(i)
		j := i + 1
		for ; j < b.symbols.n && b.symbols.at(j).addr == best.addr; j++ {
			if s := b.symbols.at(j); s.kind < best.kind {
				best = *s
			}
		}
		i = j
		if best.kind == boundary {
			continue
		}
		size, last := uint64(maxFunction), true
		switch {
		case j == b.symbols.n:
			size = maxGap
		case b.symbols.at(j).module != best.module:
			size = min(maxGap, b.symbols.at(j).addr-best.addr)
		default:
			size, last = min(size, b.symbols.at(j).addr-best.addr), b.symbols.at(j).kind == boundary
		}
		f(best, size, last)
	}
}
