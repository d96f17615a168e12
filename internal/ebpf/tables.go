package ebpf

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	blockBytes = int(unsafe.Sizeof(block{}))
	// slabBlocks is a slab's usual size (1 MiB): inserting a map into a map waits for RCU, so tables share.
	slabBlocks = 1 << 20 / blockBytes
)

// ErrNoRoom: the kernel memory that the configuration allows is used up; make room and try again.
var ErrNoRoom = errors.New("no room in kernel maps")

// TableRef is where a table lies in the kernel. The zero value is no table.
type TableRef struct {
	slab, block  uint32
	page0, pages uint32
	blocks       int
}

// Valid tells whether there is a table.
func (r TableRef) Valid() bool { return r.blocks > 0 }

// Bytes is the table's size in kernel memory.
func (r TableRef) Bytes() int { return r.blocks * blockBytes }

// Tables holds unwind tables in kernel memory: slabs of blocks, and the rules of all tables, each distinct one once.
// It is used by the workers that build tables, hence the lock; it never touches a target.
type Tables struct {
	mu       sync.Mutex
	outer    *ebpf.Map
	spec     *ebpf.MapSpec
	slabs    []*slab // by number; nil: not there
	maxBytes int
	bytes    int
	rules    map[unwind.Rule]uint32
	ruleMem  []rule
}

type slab struct {
	m       *ebpf.Map
	mem     []block
	extents *extents
}

func newTables(outer *ebpf.Map, inner *ebpf.MapSpec, rules *ebpf.Map, maxBytes int) (*Tables, error) {
	mem, err := arrayMemory[rule](rules)
	if err != nil {
		return nil, err
	}
	t := &Tables{
		outer: outer, spec: inner, maxBytes: maxBytes, ruleMem: mem,
		rules: map[unwind.Rule]uint32{{}: 0},
		slabs: make([]*slab, outer.MaxEntries()),
	}
	return t, nil
}

// Add copies a table into the kernel. It may wait for RCU (tens of milliseconds).
func (t *Tables) Add(table *unwind.Table, g *GoSwitch) (TableRef, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	blocks, page0, pages, err := encodeTable(table, g, t.ruleNumber)
	if err != nil {
		return TableRef{}, err
	}
	slab, at, err := t.room(len(blocks))
	if err != nil {
		return TableRef{}, err
	}
	copy(t.slabs[slab].mem[at:], blocks)
	return TableRef{uint32(slab), uint32(at), page0, uint32(pages), len(blocks)}, nil
}

// Remove frees a table's room. The caller has unlinked it from all processes' mappings.
func (t *Tables) Remove(r TableRef) {
	if !r.Valid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slabs[r.slab].extents.release(int(r.block), r.blocks, time.Now())
}

// Bytes is the kernel memory of all slabs.
func (t *Tables) Bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func (t *Tables) ruleNumber(r unwind.Rule) (uint32, error) {
	n, ok := t.rules[r]
	if !ok {
		if len(t.rules) >= maxRules {
			return 0, fmt.Errorf("%w: %d distinct unwind rules", ErrNoRoom, maxRules)
		}
		n = uint32(len(t.rules))
		t.rules[r] = n
		t.ruleMem[n] = encodeRule(r)
	}
	return n, nil
}

// room finds n blocks in a row, in a new slab if need be.
func (t *Tables) room(n int) (slabNumber, at int, err error) {
	now, vacant := time.Now(), -1
	for i, s := range t.slabs {
		if s == nil {
			if vacant < 0 {
				vacant = i
			}
			continue
		}
		if at, ok := s.extents.alloc(n, now); ok {
			return i, at, nil
		}
	}
	t.dropUnused(now)
	size := max(n, slabBlocks)
	if vacant < 0 || t.bytes+size*blockBytes > t.maxBytes {
		return 0, 0, fmt.Errorf("%w: %d bytes of unwind tables", ErrNoRoom, t.bytes)
	}
	s, err := t.newSlab(vacant, size)
	if err != nil {
		return 0, 0, err
	}
	at, _ = s.extents.alloc(n, now)
	return vacant, at, nil
}

func (t *Tables) newSlab(number, blocks int) (*slab, error) {
	spec := t.spec.Copy()
	spec.Name = "table_slab"
	spec.MaxEntries = uint32(blocks)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("creating a map for unwind tables: %w", err)
	}
	mem, err := arrayMemory[block](m)
	if err == nil {
		err = t.outer.Put(uint32(number), m)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("inserting a map for unwind tables: %w", err)
	}
	s := &slab{m: m, mem: mem, extents: newExtents(blocks)}
	t.slabs[number] = s
	t.bytes += blocks * blockBytes
	return s, nil
}

// dropUnused frees slabs that hold nothing any more.
func (t *Tables) dropUnused(now time.Time) {
	for i, s := range t.slabs {
		if s == nil {
			continue
		}
		s.extents.reclaim(now)
		if !s.extents.unused() {
			continue
		}
		if err := t.outer.Delete(uint32(i)); err != nil {
			continue
		}
		t.bytes -= len(s.mem) * blockBytes
		t.slabs[i] = nil
		s.close()
	}
}

func (s *slab) close() {
	unmapArray(s.mem)
	s.m.Close()
}

func (t *Tables) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.slabs {
		if s != nil {
			s.close()
			t.slabs[i] = nil
		}
	}
	unmapArray(t.ruleMem)
	t.ruleMem = nil
}
