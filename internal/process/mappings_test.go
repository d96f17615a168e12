package process

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// page is what the naive model knows of one page.
type page struct {
	file   *File
	offset unwind.FileOffset
	time   uint64
}

// pages is the naive model of a process's mappings.
type pages map[unwind.Addr]page

const pageSize = 0x1000

func (p pages) paint(m *MappedFile) {
	for a := m.Start; a < m.End; a += pageSize {
		if old, ok := p[a]; ok && old.time > m.Time {
			continue
		}
		pg := page{file: m.File, time: m.Time}
		if m.File != nil {
			pg.offset = m.Offset + unwind.FileOffset(a-m.Start)
		}
		p[a] = pg
	}
}

// compare checks that m is sorted and disjoint and says the same as the model; times only if they are to be exact.
func (p pages) compare(m []MappedFile, times bool) error {
	n := 0
	for i := range m {
		if m[i].Start >= m[i].End || i > 0 && m[i-1].End > m[i].Start {
			return fmt.Errorf("not sorted and disjoint at %d: %+v", i, m)
		}
		for a := m[i].Start; a < m[i].End; a += pageSize {
			n++
			want, ok := p[a]
			got := page{file: m[i].File, time: m[i].Time}
			if m[i].File != nil {
				got.offset = m[i].Offset + unwind.FileOffset(a-m[i].Start)
			}
			if !times {
				got.time = want.time
			}
			if !ok || got != want {
				return fmt.Errorf("page %#x is %+v, want %+v", a, got, want)
			}
		}
	}
	if n != len(p) {
		return fmt.Errorf("%d pages, want %d", n, len(p))
	}
	return nil
}

func randomMapping(r *rand.Rand, files []*File, time uint64) MappedFile {
	start := unwind.Addr(r.IntN(60)+1) * pageSize
	m := MappedFile{Time: time, File: files[r.IntN(len(files))]}
	m.Start, m.End = start, start+unwind.Addr(1+r.IntN(12))*pageSize
	if m.File != nil {
		// Often in step with the address, so that neighbours continue each other.
		m.Offset = unwind.FileOffset(start)
		if r.IntN(3) == 0 {
			m.Offset = unwind.FileOffset(r.IntN(20)) * pageSize
		}
	}
	return m
}

func TestPaint(t *testing.T) {
	files := []*File{nil, {Path: "a"}, {Path: "b"}}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		model := pages{}
		var list []MappedFile
		for range 1 + r.IntN(4) {
			add := make([]MappedFile, 1+r.IntN(8))
			for i := range add {
				add[i] = randomMapping(r, files, uint64(r.IntN(10))) // also out of order
				model.paint(&add[i])
			}
			list = paint(list, add, false)
			if err := model.compare(list, true); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

func TestPaintJoins(t *testing.T) {
	f := &File{Path: "a"}
	mapping := func(start, end unwind.Addr, f *File, o unwind.FileOffset, time uint64) (m MappedFile) {
		m.Start, m.End, m.File, m.Offset, m.Time = start, end, f, o, time
		return m
	}
	for _, c := range []struct {
		name string
		a, b MappedFile
		join bool
		want int
	}{
		{"in step", mapping(1, 2, f, 1, 1), mapping(2, 3, f, 2, 2), true, 1},
		{"in step, times kept apart", mapping(1, 2, f, 1, 1), mapping(2, 3, f, 2, 2), false, 2},
		{"in step, same time", mapping(1, 2, f, 1, 1), mapping(2, 3, f, 2, 1), false, 1},
		{"out of step", mapping(1, 2, f, 1, 1), mapping(2, 3, f, 3, 1), true, 2},
		{"gap", mapping(1, 2, f, 1, 1), mapping(3, 4, f, 3, 1), true, 2},
		{"other file", mapping(1, 2, f, 1, 1), mapping(2, 3, &File{}, 2, 1), true, 2},
		{"anonymous", mapping(1, 2, nil, 0, 1), mapping(2, 3, nil, 0, 2), true, 1},
	} {
		if got := paint(nil, []MappedFile{c.b, c.a}, c.join); len(got) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestNewest(t *testing.T) {
	var m []MappedFile
	for i := range 100 {
		e := MappedFile{Time: uint64(i * 37 % 100)}
		e.Start, e.End = unwind.Addr(i), unwind.Addr(i+1)
		m = append(m, e)
	}
	got := newest(m, 30)
	if len(got) != 30 {
		t.Fatalf("%d", len(got))
	}
	for i := range got {
		if got[i].Time < 70 || i > 0 && got[i-1].Start >= got[i].Start {
			t.Fatalf("%+v", got)
		}
	}
	for i := range m {
		m[i].Time = 5
	}
	if got := newest(m, 30); len(got) != 30 {
		t.Fatalf("equal times: %d", len(got))
	}
}
