package cache

import "testing"

// TestBounds: neither number nor bytes grow beyond what was said, and the bytes are those of what is kept.
func TestBounds(t *testing.T) {
	c := New[int](10, 100, func(v int) int { return v })
	sum := func() (n int) {
		for i := range 1000 {
			if v, ok := c.lru.Peek(i); ok {
				n += v
			}
		}
		return n
	}
	for i := range 500 {
		c.Add(i, i%30)
		if c.Len() > 10 || c.Bytes() > 100 || c.Bytes() != sum() {
			t.Fatalf("after %d: %d values, %d bytes, in truth %d", i, c.Len(), c.Bytes(), sum())
		}
	}
	c.Add(999, 1000)
	if v, ok := c.Get(999); !ok || v != 1000 || c.Len() != 1 || c.Bytes() != 1000 {
		t.Errorf("%d %v, %d values, %d bytes", v, ok, c.Len(), c.Bytes())
	}
}
