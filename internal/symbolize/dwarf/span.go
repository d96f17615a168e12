package dwarf

import (
	"cmp"
	"math"
	"slices"
)

// span is a range of addresses that belongs to something with a number.
type span struct {
	start uint64
	size  uint32 // what is longer is cut: no code of one function or unit has 4 GiB
	id    uint32
}

func (s span) end() uint64 { return s.start + uint64(s.size) }

// newSpan returns false for what is no range of live code.
func (d *Data) newSpan(start, end uint64, id uint32) (span, bool) {
	if end <= start || !d.alive(start) {
		return span{}, false
	}
	return span{start, uint32(min(end-start, math.MaxUint32)), id}, true
}

// find returns the last of the sorted, disjoint spans that covers a.
func find(spans []span, a uint64) (span, bool) {
	i, ok := slices.BinarySearchFunc(spans, a, func(s span, a uint64) int { return cmp.Compare(s.start, a) })
	if !ok {
		i--
	}
	if i < 0 || a >= spans[i].end() {
		return span{}, false
	}
	return spans[i], true
}

// paint makes sorted, disjoint spans of any: where several overlap, the one with the largest number wins. The result may
// be in the memory of spans, which the account lets go of otherwise.
//
//	7           [        )
//	5   [               )      [   )
//	    [  5   )[   7    )     [ 5 )
func (d *Data) paint(a *account, spans []span, part string) ([]span, error) {
	slices.SortFunc(spans, func(x, y span) int {
		if c := cmp.Compare(x.start, y.start); c != 0 {
			return c
		}
		return cmp.Compare(x.id, y.id)
	})
	if disjoint(spans) {
		return spans, nil
	}
	var out []span
	p := painter{a: a, part: part, spans: spans}
	defer func() { drop(a, p.heap) }()
	for {
		err := p.open()
		if err != nil {
			return nil, err
		}
		if len(p.heap) == 0 {
			break
		}
		at := p.at
		if err := d.step(1); err != nil {
			return nil, err
		}
		top := spans[p.heap[0]]
		end := top.end()
		if p.next < len(spans) {
			end = min(end, spans[p.next].start)
		}
		if n := len(out) - 1; n >= 0 && out[n].id == top.id && out[n].end() == at && uint64(out[n].size)+end-at <= math.MaxUint32 {
			out[n].size += uint32(end - at)
		} else if out, err = add(a, out, span{at, uint32(end - at), top.id}, part); err != nil {
			return nil, err
		}
		p.at = end
	}
	drop(a, spans)
	return out, nil
}

func disjoint(spans []span) bool {
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end() {
			return false
		}
	}
	return true
}

// painter goes through spans by address. heap has those that have begun and perhaps not ended, the largest number first.
type painter struct {
	a     *account
	part  string
	spans []span
	next  int // that has not begun
	at    uint64
	heap  []uint32
}

// open takes in the spans that begin where the painter is, or where the next one begins if there are none, and lets go of
// those that have ended.
func (p *painter) open() error {
	for {
		for len(p.heap) > 0 && p.spans[p.heap[0]].end() <= p.at {
			p.pop()
		}
		if p.next == len(p.spans) {
			return nil
		}
		if len(p.heap) == 0 {
			p.at = max(p.at, p.spans[p.next].start)
		}
		if p.spans[p.next].start > p.at {
			return nil
		}
		if err := p.push(uint32(p.next)); err != nil {
			return err
		}
		p.next++
	}
}

func (p *painter) above(i, j int) bool { return p.spans[p.heap[i]].id > p.spans[p.heap[j]].id }

func (p *painter) push(n uint32) (err error) {
	if p.heap, err = add(p.a, p.heap, n, p.part); err != nil {
		return err
	}
	for i := len(p.heap) - 1; i > 0 && p.above(i, (i-1)/2); i = (i - 1) / 2 {
		p.heap[i], p.heap[(i-1)/2] = p.heap[(i-1)/2], p.heap[i]
	}
	return nil
}

func (p *painter) pop() {
	last := len(p.heap) - 1
	p.heap[0] = p.heap[last]
	p.heap = p.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return
		}
		if child+1 < last && p.above(child+1, child) {
			child++
		}
		if !p.above(child, i) {
			return
		}
		p.heap[i], p.heap[child] = p.heap[child], p.heap[i]
		i = child
	}
}
