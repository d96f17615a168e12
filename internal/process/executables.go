package process

import (
	"maps"
	"math"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Identity is what fstat(2) says of an opened file: size and mtime tell a file that was rewritten in place from what it
// was. ctime is kept for whoever wants to know, but does not count: it also changes when a link to the file is made or
// removed, as every upgrade of a package does to the file it replaces.
type Identity struct {
	Size       int64 // bytes
	MTime      int64 // ns since 1970
	CTime      int64 // ns since 1970
	Dev, Inode uint64
}

// Same tells whether both are the same contents.
func (i Identity) Same(o Identity) bool { return i.Size == o.Size && i.MTime == o.MTime }

// OpenState is how far an Executable was read.
type OpenState uint8

// The states. An executable that is being checked again stays Ready.
const (
	Unopened OpenState = iota
	Opening
	Ready
	Failed
)

// Executable is a mapped file with certain contents, and what was made of them.
type Executable[T any] struct {
	Serial  uint64 // unique in its Executables, never used again
	File    *File
	Payload T // the engine's: unwind table, symbols, build ids

	state      OpenState
	checking   bool
	recheck    bool // nothing mapped the file for a while: it may have been rewritten
	identity   Identity
	identified bool
	bytes      uint64
	lastUse    uint64 // tick
	mapTick    uint64 // tick in which it was mapped last: libraries can be rewritten in place although others map them
	lookTick   uint64 // tick in which the last opening began
	checkTick  uint64 // lookTick of the last successful opening: what it found holds for that tick
	retryTick  uint64 // no opening before it
	failures   uint8
	laterTick  uint64 // no check before it
	unchecked  uint8  // checks in a row that failed
	wanted     bool   // its file was closed, and is to be open again
	err        error
	permanent  bool
	replaced   bool
}

// State tells how far the executable was read.
func (e *Executable[T]) State() OpenState { return e.state }

// Checking tells whether the file is being opened: Opened or Fail follows.
func (e *Executable[T]) Checking() bool { return e.checking }

// Mapped tells whether some process maps the file.
func (e *Executable[T]) Mapped() bool { return e.File.refs > 0 }

// Identity returns what the file was when it was opened last.
func (e *Executable[T]) Identity() Identity { return e.identity }

// Err returns why the last opening failed.
func (e *Executable[T]) Err() error { return e.err }

// Replaced tells that the file has other contents by now, or was forgotten: nothing more can be read of this executable.
func (e *Executable[T]) Replaced() bool { return e.replaced }

// ExecutablesOptions bound an Executables. A zero field means its default.
type ExecutablesOptions struct {
	MaxUnused int // executables that nothing maps any more; default 4,096
}

// ExecutablesStats counts what an Executables did since it was made.
type ExecutablesStats struct {
	Hits, Misses  uint64 // mappings of files that were, or were not, known already
	Opened        uint64
	OpenFailures  uint64
	Replaced      uint64 // files rewritten in place
	EvictedUnused uint64
	EvictedMapped uint64 // payloads dropped although the file is mapped
}

// Executables knows every mapped file once. It implements Files.
type Executables[T any] struct {
	options ExecutablesOptions
	files   map[inodeKey]*File
	count   int
	unused  *simplelru.LRU[*Executable[T], struct{}] // nothing maps them
	loaded  *simplelru.LRU[*Executable[T], struct{}] // mapped, with a payload
	evicted []Evicted[T]
	idle    map[*Executable[T]]struct{} // read, and nothing maps them since the last TakeIdle
	tick    uint64
	serial  uint64
	bytes   uint64
	stats   ExecutablesStats
}

// Evicted is a payload that was dropped, with the executable that it was of.
type Evicted[T any] struct {
	Executable *Executable[T]
	Payload    T
}

// NewExecutables returns an empty set.
func NewExecutables[T any](o ExecutablesOptions) *Executables[T] {
	if o.MaxUnused <= 0 {
		o.MaxUnused = 4096
	}
	return &Executables[T]{
		options: o,
		files:   make(map[inodeKey]*File),
		unused:  newLRU[T](),
		idle:    map[*Executable[T]]struct{}{},
		loaded:  newLRU[T](),
	}
}

// newLRU makes a list whose length bytes and MaxUnused bound, not the library.
func newLRU[T any]() *simplelru.LRU[*Executable[T], struct{}] {
	l, err := simplelru.NewLRU[*Executable[T], struct{}](math.MaxInt, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return l
}

// maxVariants bounds the chain of files with one inode number: hard links mapped under many names, and files that had the number
// one after the other.
const maxVariants = 16

// fileBytes is about what a file without payload takes.
const fileBytes = 640

// fileCost is about what this one takes: its path, which may have 4 KiB, is also that of its candidates.
func fileCost(f *File) uint64 {
	n := fileBytes + uint64(len(f.Path))
	for _, p := range f.paths {
		n += uint64(len(p))
	}
	return n
}

// Acquire returns the file that a mapping is of, with one more reference; pid is remembered as a way to open it.
func (x *Executables[T]) Acquire(m *MmapInfo, pid uint32) *File {
	f := x.find(m)
	if f == nil {
		x.stats.Misses++
		f = x.newFile(m)
	} else {
		x.stats.Hits++
		if f.ID.Generation == 0 {
			f.ID.Generation = m.File.Generation
		}
		if m.File.Generation != 0 {
			x.bytes += uint64(f.alsoAt(m.Path)) // less than 0 wraps to what it should be
		}
	}
	e := f.owner.(*Executable[T])
	if f.seen(m, pid) && !e.permanent {
		e.retryTick, e.laterTick = min(e.retryTick, x.tick+1), min(e.laterTick, x.tick+1)
	}
	if !f.VDSO() {
		e.mapTick = x.tick
	}
	x.retain(f)
	return f
}

// find returns the file that a mapping is of; nil if it is not known. Where the chain is full, what is not mapped any more makes
// room. If all are mapped and nothing tells the file apart from them, it is taken to be another link to the latest; if its generation
// does, the oldest is not found any more: whoever maps it keeps it.
func (x *Executables[T]) find(m *MmapInfo) *File {
	first := x.files[keyOf(m)]
	n := 0
	var oldest, unmapped *File
	for f := first; f != nil; f = f.next {
		if f.is(m) {
			return f
		}
		n++
		oldest = f
		if f.refs == 0 {
			unmapped = f
		}
	}
	switch {
	case n < maxVariants:
	case unmapped != nil:
		x.forgetUnused(x.Of(unmapped))
	case m.File.Generation == 0:
		return first
	default:
		x.forget(oldest)
	}
	return nil
}

func (x *Executables[T]) newFile(m *MmapInfo) *File {
	f := &File{ID: m.File, Path: m.Path, key: keyOf(m)}
	f.next = x.files[f.key]
	x.files[f.key] = f
	x.count++
	x.newExecutable(f)
	x.unused.Add(f.owner.(*Executable[T]), struct{}{})
	return f
}

func (x *Executables[T]) newExecutable(f *File) *Executable[T] {
	x.serial++
	e := &Executable[T]{Serial: x.serial, File: f, lastUse: x.tick}
	f.owner = e
	x.bytes += fileCost(f)
	return e
}

func (x *Executables[T]) retain(f *File) {
	f.refs++
	if f.refs > 1 {
		return
	}
	e := f.owner.(*Executable[T])
	x.unused.Remove(e)
	delete(x.idle, e)
	if e.bytes > 0 {
		x.loaded.Add(e, struct{}{})
	}
	// While nothing maps a file it can be rewritten, and its inode number can be given to another. Within a tick of the
	// last look that is taken to be the same file: a program that is started again and again costs one look a tick.
	if e.state == Ready && e.checkTick != x.tick {
		e.recheck = true
	}
	e.permanent = false
}

func (x *Executables[T]) release(f *File) {
	f.refs--
	if f.refs > 0 {
		return
	}
	e := f.owner.(*Executable[T])
	x.loaded.Remove(e)
	if e.replaced {
		return // the file was forgotten while somebody held it
	}
	x.unused.Add(e, struct{}{})
	x.noteIdle(e)
	for x.unused.Len() > x.options.MaxUnused {
		x.evictUnused()
	}
}

// Of returns the executable that a mapped file is now; nil for anonymous memory.
func (x *Executables[T]) Of(f *File) *Executable[T] {
	if f == nil {
		return nil
	}
	return f.owner.(*Executable[T])
}

// Use tells that a sample has a frame in e, which keeps it from being evicted.
func (x *Executables[T]) Use(e *Executable[T]) {
	if e.lastUse == x.tick {
		return
	}
	e.lastUse = x.tick
	if e.File.refs == 0 {
		x.unused.Get(e)
	} else {
		x.loaded.Get(e)
	}
}

// SetBytes corrects what e's payload takes.
func (x *Executables[T]) SetBytes(e *Executable[T], bytes uint64) {
	if e.replaced {
		return
	}
	x.bytes += bytes - e.bytes
	e.bytes = bytes
	if e.File.refs > 0 && bytes > 0 {
		x.loaded.Add(e, struct{}{})
	}
}

// Tick ends an interval.
func (x *Executables[T]) Tick() { x.tick++ }

// Bytes estimates the memory that executables take, with their payloads.
func (x *Executables[T]) Bytes() uint64 { return x.bytes }

// Len returns the number of executables.
func (x *Executables[T]) Len() int { return x.count }

// Stats returns the counters.
func (x *Executables[T]) Stats() ExecutablesStats { return x.stats }

// Evict drops payloads until at most budget bytes are taken: first executables that nothing maps, then those that were
// used longest ago and not in this tick.
func (x *Executables[T]) Evict(budget uint64) {
	for x.bytes > budget && x.unused.Len() > 0 {
		x.evictUnused()
	}
	for x.bytes > budget {
		e, _, ok := x.loaded.GetOldest()
		if !ok || e.lastUse == x.tick {
			return
		}
		x.stats.EvictedMapped++
		x.drop(e)
		e.state = Unopened
	}
}

// TakeEvicted returns the payloads that were dropped since the last call: by Evict, because a file was replaced, or
// because too many executables were unused.
func (x *Executables[T]) TakeEvicted() []Evicted[T] {
	out := x.evicted
	x.evicted = nil
	return out
}

// TakeIdle returns the executables that nothing has mapped since the last call. What holds their files open should let go:
// an open file keeps a deleted one on the disk, and a container's file system mounted.
func (x *Executables[T]) TakeIdle() []*Executable[T] {
	out := slices.Collect(maps.Keys(x.idle))
	clear(x.idle)
	return out
}

func (x *Executables[T]) noteIdle(e *Executable[T]) {
	if e.state == Ready && e.File.refs == 0 {
		x.idle[e] = struct{}{}
	}
}

// evictUnused forgets the file that was unused longest.
func (x *Executables[T]) evictUnused() {
	if e, _, ok := x.unused.GetOldest(); ok {
		x.forgetUnused(e)
	}
}

// forgetUnused forgets a file that nothing maps.
func (x *Executables[T]) forgetUnused(e *Executable[T]) {
	x.unused.Remove(e)
	x.stats.EvictedUnused++
	x.drop(e)
	// Processes that were removed, and samples that wait, may still point here: there is nothing to be had any more.
	e.replaced, e.state, e.permanent = true, Failed, true
	x.bytes -= fileCost(e.File)
	x.count--
	x.forget(e.File)
}

// drop takes the payload from e.
func (x *Executables[T]) drop(e *Executable[T]) {
	delete(x.idle, e)
	x.loaded.Remove(e)
	if e.state == Ready {
		x.evicted = append(x.evicted, Evicted[T]{e, e.Payload})
	}
	var none T
	e.Payload = none
	x.bytes -= e.bytes
	e.bytes = 0
}

// forget takes f out of the index.
func (x *Executables[T]) forget(f *File) {
	first := x.files[f.key]
	if first == f {
		if f.next == nil {
			delete(x.files, f.key)
		} else {
			x.files[f.key] = f.next
		}
		return
	}
	for g := first; g != nil; g = g.next {
		if g.next == f {
			g.next = f.next
			return
		}
	}
}
