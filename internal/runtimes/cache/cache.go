// Package cache keeps what runtimes' plug-ins have read of a process.
package cache

import "github.com/hashicorp/golang-lru/v2/simplelru"

// Cache keeps values, bounded in number and in bytes; what was used longest ago goes first. The last one stays whatever it takes.
type Cache[K comparable, V any] struct {
	lru         *simplelru.LRU[K, V]
	size        func(V) int
	most, bytes int
}

// New returns an empty one for so many values, more than 0, and so many bytes. What a value takes must not change.
func New[K comparable, V any](values, bytes int, size func(V) int) *Cache[K, V] {
	c := &Cache[K, V]{size: size, most: bytes}
	lru, err := simplelru.NewLRU(values, func(_ K, v V) { c.bytes -= size(v) })
	if err != nil {
		panic(err) // only for a number that is not positive
	}
	c.lru = lru
	return c
}

// Get finds a value.
func (c *Cache[K, V]) Get(key K) (V, bool) { return c.lru.Get(key) }

// Add keeps a value that is not there yet.
func (c *Cache[K, V]) Add(key K, v V) {
	c.lru.Add(key, v)
	for c.bytes += c.size(v); c.bytes > c.most && c.lru.Len() > 1; {
		c.lru.RemoveOldest()
	}
}

// Len is how many there are.
func (c *Cache[K, V]) Len() int { return c.lru.Len() }

// Bytes is what they take.
func (c *Cache[K, V]) Bytes() int { return c.bytes }
