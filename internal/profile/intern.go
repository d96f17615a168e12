package profile

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"unsafe"
)

// lists interns lists by value: equal lists get the same id. Id 0 is the empty list. Elements lie in one array, so a known
// list costs no allocation.
type lists[T comparable] struct {
	elems []T
	spans []span
	heads map[uint64]int32 // hash -> the newest list with it
}

type span struct {
	start, end int
	next       int32 // the list before this one with the same hash; 0 for none
}

func newLists[T comparable](sizeHint int) lists[T] {
	l := lists[T]{heads: make(map[uint64]int32, sizeHint)}
	l.spans = append(make([]span, 0, sizeHint+1), span{})
	return l
}

// at returns the list with the id; it must not be changed.
func (l *lists[T]) at(id int32) []T {
	s := l.spans[id]
	return l.elems[s.start:s.end:s.end]
}

func (l *lists[T]) len() int { return len(l.spans) }

// intern returns the id of the list, which is copied if it is new.
func (l *lists[T]) intern(hash uint64, list []T) int32 {
	if len(list) == 0 {
		return 0
	}
	for id := l.heads[hash]; id != 0; id = l.spans[id].next {
		if slices.Equal(l.at(id), list) {
			return id
		}
	}
	start := len(l.elems)
	l.elems = append(l.elems, list...)
	return l.seal(hash, start)
}

// seal makes the elements from start on a new list.
func (l *lists[T]) seal(hash uint64, start int) int32 {
	id := int32(len(l.spans))
	l.spans = append(l.spans, span{start: start, end: len(l.elems), next: l.heads[hash]})
	l.heads[hash] = id
	return id
}

// mix folds the product of two words: one round of a multiplicative hash. The start value is a random seed, so a target
// cannot make its stacks collide.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

const (
	mixA = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	mixB = 0xc2b2ae3d27d4eb4f // an odd number with half of its bits set
)

func newSeed() uint64 {
	var h maphash.Hash
	return h.Sum64() | 1
}

func hashInts(seed uint64, list []int32) uint64 {
	h := seed
	for _, v := range list {
		h = mix(h^uint64(uint32(v)), mixA)
	}
	return h
}

// hashStack hashes locations by the words that tell them apart in practice; comparing tells the rest. Pointers are stable:
// the builder keeps what they point to on the heap, which Go does not move.
func hashStack(seed uint64, stack []Location) uint64 {
	h := seed
	for i := range stack {
		l := &stack[i]
		p := uint64(uintptr(unsafe.Pointer(l.Mapping)))
		q := uint64(uintptr(unsafe.Pointer(l.Symbol)))
		h = mix(h^l.Address, mixA) + mix(p^mixB, q^mixA)
	}
	return mix(h, mixB)
}
