package store

import "time"

// evict drops what is older than the window.
func (s *Store) evict(now time.Time) {
	n := 0
	for n < len(s.segments) && now.Sub(s.segments[n].arrived) > s.options.Window+segmentTime {
		n++
	}
	s.drop(n)
	if s.dropped > 0 && s.dropped >= s.rows/2 {
		s.compact()
	}
	if s.droppedUntil < now.Add(-s.options.Window).UnixMicro() {
		s.droppedUntil = 0 // all of that would be gone by now
	}
}

// drop forgets the n oldest segments.
func (s *Store) drop(n int) {
	if n == 0 {
		return
	}
	s.serial++
	for _, g := range s.segments[:n] {
		s.rows -= len(g.node)
		s.dropped += len(g.node)
	}
	s.segments = append([]*segment(nil), s.segments[n:]...)
}

// size is about the memory that rows and tables take.
func (s *Store) size() int {
	rows := 0
	for _, g := range s.segments {
		rows += cap(g.node)
	}
	return rows*rowBytes + len(s.segments)*segmentBytes + s.t.size()
}

// fit drops the oldest rows until all is within the budget.
func (s *Store) fit() {
	for s.size() > s.held() {
		if s.dropped > 0 {
			s.compact()
			if s.size() <= s.held()*7/8 {
				return
			}
		}
		if len(s.segments) == 0 {
			return
		}
		n, rows := 0, 0
		for n < len(s.segments) && (n == 0 || rows < s.rows/8) {
			rows += len(s.segments[n].node)
			s.droppedUntil = max(s.droppedUntil, s.segments[n].to)
			n++
		}
		s.drop(n)
		s.compact()
	}
}

// compact makes tables of what rows need, and the rows anew to refer to them. Snapshots keep the old ones.
func (s *Store) compact() {
	c := newCompaction(s.t)
	for _, g := range s.segments {
		for _, n := range g.node {
			c.mark(n)
		}
	}
	c.takeNodes()
	for i, g := range s.segments {
		n := *g
		n.series, n.node = make([]uint32, len(g.node)), make([]uint32, len(g.node))
		for k := range g.node {
			n.series[k], n.node[k] = c.series(g.series[k]), c.nodes[g.node[k]]
		}
		s.segments[i] = &n
	}
	s.t, s.dropped = c.to, 0
}
