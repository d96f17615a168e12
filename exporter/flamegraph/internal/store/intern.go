package store

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
