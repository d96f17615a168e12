package store

import (
	"maps"
	"slices"
	"unsafe"
)

// table holds each value once and knows it by its index. It only grows.
type table[K comparable] struct {
	items []K
	index map[K]uint32
}

func newTable[K comparable](first ...K) table[K] {
	t := table[K]{index: make(map[K]uint32)}
	for _, k := range first {
		t.add(k)
	}
	return t
}

// add returns the index of k, which is kept if it is new.
func (t *table[K]) add(k K) (i uint32, isNew bool) {
	if i, ok := t.index[k]; ok {
		return i, false
	}
	i = uint32(len(t.items))
	t.items = append(t.items, k)
	t.index[k] = i
	return i, true
}

func (t *table[K]) len() int { return len(t.items) }

// size is about what the table takes: each value twice, in the list and in the map, which is on average three quarters full
// and was grown by doubling.
func (t *table[K]) size() int {
	var k K
	const index, fill = 5, 1.5
	return int(float64(len(t.items)) * (float64(unsafe.Sizeof(k)) + fill*(float64(unsafe.Sizeof(k))+index)))
}

// cut forgets all but the first n. Those who look at the first only may go on.
func (t *table[K]) cut(n int) {
	for _, k := range t.items[n:] {
		delete(t.index, k)
	}
	clear(t.items[n:])
	if t.items = t.items[:n]; cap(t.items) > 2*n+1024 {
		// Slices and maps keep what they grew to.
		t.items = slices.Clone(t.items)
		index := make(map[K]uint32, n)
		maps.Copy(index, t.index)
		t.index = index
	}
}

// FNV-1a with 64 bits: its parameters are of the Internet draft draft-eastlake-fnv.
const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// fnv goes on with a hash over s and its end.
func fnv(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime64
	}
	return (h ^ 0xff) * prime64
}
