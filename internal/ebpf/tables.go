package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/layout"
)

const (
	blockBytes = int(unsafe.Sizeof(block{}))
	// slabBlocks is a slab's usual size (1 MiB): inserting a map into a map waits for RCU, so tables share.
	slabBlocks = 1 << 20 / blockBytes
)

// ErrNoRoom: the kernel memory that the configuration allows is used up; make room and try again.
var ErrNoRoom = errors.New("no room in kernel maps")

// errClosed: the kernel's part is gone already.
var errClosed = errors.New("tables are closed")

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
// Workers that build tables add them, the engine reads them, hence the locks; it never touches a target.
type Tables struct {
	outer    *ebpf.Map
	spec     *ebpf.MapSpec
	maxBytes int

	closed  bool           // guarded by growing: workers may outlast it
	growing sync.Mutex     // held while a slab is made, which waits for RCU
	ahead   sync.WaitGroup // slabs that are made before they are needed

	mu    sync.Mutex // guards what follows, never held while waiting
	slabs []*slab    // by number; nil: not there
	bytes int
	free  int // blocks that no table has
	rules *rules
	uses  map[place][]uint32 // the numbers of a table's rules
}

// place is where a table begins.
type place struct{ slab, block uint32 }

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
		outer: outer, spec: inner, maxBytes: maxBytes,
		rules: newRules(mem), uses: map[place][]uint32{},
		slabs: make([]*slab, outer.MaxEntries()),
	}
	t.growAhead()
	return t, nil
}

// Add copies a table into the kernel; g is nil unless it is a Go program's. It may wait for RCU (tens of milliseconds).
func (t *Tables) Add(table *unwind.Table, g *gopclntab.Offsets) (TableRef, error) {
	var used []uint32
	e, err := layout.Encode(table, g, func(r unwind.Rule) (uint32, error) {
		n, err := t.ruleNumber(r)
		if err == nil {
			used = append(used, n)
		}
		return n, err
	})
	if err != nil {
		t.releaseRules(used)
		return TableRef{}, err
	}
	number, at, ok := t.room(len(e.Blocks))
	if !ok {
		if number, at, err = t.makeRoom(len(e.Blocks)); err != nil {
			t.releaseRules(used)
			return TableRef{}, err
		}
	}
	t.mu.Lock()
	if t.slabs[number] == nil {
		t.mu.Unlock()
		return TableRef{}, errClosed
	}
	t.rules.publish(used)
	copy(t.slabs[number].mem[at:], e.Blocks)
	t.uses[place{uint32(number), uint32(at)}] = used
	low := t.free < slabBlocks/4
	t.mu.Unlock()
	if low {
		t.growAhead()
	}
	return TableRef{uint32(number), uint32(at), e.Page0, e.Pages, len(e.Blocks)}, nil
}

// makeRoom finds n blocks in a row in a new slab.
func (t *Tables) makeRoom(n int) (number, at int, err error) {
	t.growing.Lock()
	defer t.growing.Unlock()
	if t.closed {
		return 0, 0, errClosed
	}
	number, at, ok := t.room(n)
	if ok {
		return number, at, nil // somebody else has made it
	}
	if err := t.grow(n); err != nil {
		return 0, 0, err
	}
	if number, at, ok = t.room(n); !ok {
		return 0, 0, ErrNoRoom
	}
	return number, at, nil
}

// growAhead makes a slab in the background, so that the next table need not wait for it.
func (t *Tables) growAhead() {
	if !t.growing.TryLock() {
		return // one is being made
	}
	if t.closed {
		t.growing.Unlock()
		return
	}
	t.ahead.Go(func() {
		defer t.growing.Unlock()
		_ = t.grow(slabBlocks) // if there is no room, whoever needs it is told
	})
}

// Rule returns the rule for an ELF virtual address, as BPF finds it.
func (t *Tables) Rule(r TableRef, a unwind.FileAddr) unwind.Rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.Valid() || t.slabs[r.slab] == nil {
		return unwind.Rule{}
	}
	table := layout.Table{Blocks: t.slabs[r.slab].mem[r.block : int(r.block)+r.blocks], Page0: r.page0, Pages: r.pages}
	return t.rules.values[table.Lookup(a)]
}

// Remove frees a table's room. The caller has unlinked it from all processes' mappings.
func (t *Tables) Remove(r TableRef) {
	if !r.Valid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slabs[r.slab] == nil {
		return // closed
	}
	now := time.Now()
	t.slabs[r.slab].extents.release(int(r.block), r.blocks, now)
	t.free += r.blocks
	at := place{r.slab, r.block}
	t.rules.release(t.uses[at], now)
	delete(t.uses, at)
}

// Bytes is the kernel memory of all slabs.
func (t *Tables) Bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func (t *Tables) ruleNumber(r unwind.Rule) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rules.number(r, time.Now())
}

func (t *Tables) releaseRules(numbers []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rules.release(numbers, time.Now())
}

// room finds n blocks in a row in the slabs that there are.
func (t *Tables) room(n int) (number, at int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for i, s := range t.slabs {
		if s == nil {
			continue
		}
		if at, ok := s.extents.alloc(n, now); ok {
			t.free -= n
			return i, at, true
		}
	}
	return 0, 0, false
}

// grow makes a slab that has room for n blocks, after dropping those that hold nothing any more. It waits for RCU.
func (t *Tables) grow(n int) error {
	t.dropUnused(false)
	size := max(n, slabBlocks)
	t.mu.Lock()
	number := slices.Index(t.slabs, nil)
	full := number < 0 || t.bytes+size*blockBytes > t.maxBytes
	used := t.bytes
	t.mu.Unlock()
	if full {
		return fmt.Errorf("%w: %d bytes of unwind tables", ErrNoRoom, used)
	}
	spec := t.spec.Copy()
	spec.Name = "table_slab"
	spec.MaxEntries = uint32(size)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("creating a map for unwind tables: %w", err)
	}
	mem, err := arrayMemory[block](m)
	if err == nil {
		if err = t.outer.Put(uint32(number), m); err != nil {
			unmapArray(mem)
		}
	}
	if err != nil {
		m.Close()
		return fmt.Errorf("inserting a map for unwind tables: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += size
	t.slabs[number] = &slab{m: m, mem: mem, extents: newExtents(size)}
	t.bytes += size * blockBytes
	return nil
}

// dropUnused frees slabs that hold nothing any more, but for one of the usual size if spare is set. It waits for RCU.
func (t *Tables) dropUnused(spare bool) {
	for i, s := range t.takeUnused(time.Now(), spare) {
		if err := t.outer.Delete(uint32(i)); err != nil {
			t.restore(i, s) // BPF still has it
			continue
		}
		s.close()
	}
}

func (t *Tables) restore(number int, s *slab) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slabs[number] = s
	t.bytes += len(s.mem) * blockBytes
	t.free += len(s.mem)
}

// Trim frees slabs that hold nothing any more, but one. It may wait for RCU.
func (t *Tables) Trim() {
	if !t.growing.TryLock() {
		return // a slab is being made; the next call finds what is unused then
	}
	defer t.growing.Unlock()
	if !t.closed {
		t.dropUnused(true)
	}
}

func (t *Tables) takeUnused(now time.Time, spare bool) map[int]*slab {
	t.mu.Lock()
	defer t.mu.Unlock()
	unused := map[int]*slab{}
	for i, s := range t.slabs {
		if s == nil {
			continue
		}
		s.extents.reclaim(now)
		if !s.extents.unused() {
			continue
		}
		if spare && len(s.mem) == slabBlocks {
			spare = false // made ahead, or about as good as that
			continue
		}
		unused[i] = s
		t.bytes -= len(s.mem) * blockBytes
		t.free -= len(s.mem)
		t.slabs[i] = nil
	}
	return unused
}

func (s *slab) close() {
	unmapArray(s.mem)
	s.m.Close()
}

func (t *Tables) close() {
	t.growing.Lock() // what is being made ahead is there then
	t.closed = true
	t.growing.Unlock()
	t.ahead.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.slabs {
		if s != nil {
			s.close()
			t.slabs[i] = nil
		}
	}
	t.rules.close()
}
