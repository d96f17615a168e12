package dwarf

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// cacheKind is what an entry of the cache is.
type cacheKind uint8

const (
	kindAbbrevs cacheKind = iota
	kindUnit
	kindScan
	kindDeepScan
	kindTree
	kindFunction
	kindLines
	kindRows
	kindPath
	kindSplit
)

type cacheKey struct {
	kind   cacheKind
	object uint32
	off    uint64
	sub    uint64
}

// cacheEntry is something decoded, or why it could not be.
type cacheEntry struct {
	value any
	err   error
	bytes int
}

// entryBytes is about what an entry takes beside its value.
const entryBytes = 192

// cache keeps what was decoded, whatever it is: the least recently used goes first.
type cache struct {
	lru   *simplelru.LRU[cacheKey, cacheEntry]
	bytes uint64
}

func newCache() (*cache, error) {
	lru, err := simplelru.NewLRU[cacheKey, cacheEntry](math.MaxInt32, nil)
	if err != nil {
		return nil, fmt.Errorf("making the cache of units: %w", err)
	}
	return &cache{lru: lru}, nil
}

// account is the memory that building one thing takes.
type account struct {
	d     *Data
	taken int
}

func (a *account) take(n int, part string) error {
	if err := a.d.take(n, part); err != nil {
		return err
	}
	a.taken += n
	return nil
}

func (a *account) give(n int) {
	n = min(n, a.taken)
	a.d.give(n)
	a.taken -= n
}

// take asks the budget for n bytes more. What is cached makes room if need be.
func (d *Data) take(n int, part string) error {
	for {
		err := d.budget.Take(uint64(n), part)
		if err == nil {
			d.held += uint64(n)
			return nil
		}
		if d.cache == nil || !d.forget(d.cache.bytes-min(d.cache.bytes, uint64(n))) {
			return err
		}
	}
}

func (d *Data) give(n int) {
	d.budget.Give(uint64(n))
	d.held -= min(d.held, uint64(n))
}

// forget drops what is cached until no more than limit bytes are; false if that was so.
func (d *Data) forget(limit uint64) bool {
	some := false
	for d.cache.bytes > limit {
		_, e, ok := d.cache.lru.RemoveOldest()
		if !ok {
			break
		}
		some = true
		d.cache.bytes -= uint64(e.bytes)
		d.give(e.bytes)
	}
	return some
}

// cached returns what the key stands for, built if it is not there. That it could not be built is remembered too.
func cached[T any](d *Data, key cacheKey, build func(*account) (T, error)) (T, error) {
	if e, ok := d.cache.lru.Get(key); ok {
		if e.err != nil {
			var none T
			return none, e.err
		}
		return e.value.(T), nil
	}
	a := &account{d: d}
	v, err := build(a)
	if err != nil {
		a.give(a.taken)
		var none T
		if !permanent(err) {
			return none, err
		}
		d.note(err)
		d.keep(key, cacheEntry{err: err})
		return none, err
	}
	d.stats.Decoded++
	d.keep(key, cacheEntry{value: v, bytes: a.taken})
	return v, nil
}

// permanent tells whether trying again would end as before.
func permanent(err error) bool {
	return errors.Is(err, ErrFormat) || errors.Is(err, ErrTooMuchWork) || errors.Is(err, elffile.ErrTooLarge) ||
		errors.Is(err, ErrNoSplit) || errors.Is(err, ErrNoSupplement)
}

// keep adds an entry, whose bytes were taken already.
func (d *Data) keep(key cacheKey, e cacheEntry) {
	if err := d.take(entryBytes, "what is cached of debug information"); err != nil {
		// It can be used, but not kept.
		d.give(e.bytes)
		return
	}
	e.bytes += entryBytes
	d.cache.lru.Add(key, e)
	d.cache.bytes += uint64(e.bytes)
	d.forget(max(d.cacheLimit, uint64(e.bytes)))
}

// add appends v to s, whose growth is taken from the account.
func add[T any](a *account, s []T, v T, part string) ([]T, error) {
	if len(s) < cap(s) {
		return append(s, v), nil
	}
	n, size := max(2*cap(s), 8), int(unsafe.Sizeof(v))
	if err := a.take(n*size, part); err != nil {
		return s, err
	}
	grown := make([]T, len(s), n)
	copy(grown, s)
	drop(a, s)
	return append(grown, v), nil
}

// clip returns s without much room at its end.
func clip[T any](a *account, s []T, part string) []T {
	var v T
	size := int(unsafe.Sizeof(v))
	if cap(s)-len(s) <= len(s)/8 || a.take(len(s)*size, part) != nil {
		return s
	}
	clipped := make([]T, len(s))
	copy(clipped, s)
	drop(a, s)
	return clipped
}

// drop gives the memory of s back.
func drop[T any](a *account, s []T) {
	var v T
	a.give(cap(s) * int(unsafe.Sizeof(v)))
}
