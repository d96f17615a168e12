package engine

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// sharedPages has two segments, far apart in memory, in one page of the file.
func sharedPages(serial uint64) *executable {
	x := &executable{serial: serial, segments: []unwind.Segment{
		{Offset: 0, VAddr: 0x400000, FileSize: 0x14ac, Exec: true},
		{Offset: 0x30000, VAddr: 0x10000000, FileSize: 0x2f, Exec: true},
		{Offset: 0x30240, VAddr: 0x18000240, FileSize: 0x5b, Exec: true},
	}}
	x.shared = unwind.SharePages(x.segments, uint64(pageSize))
	return x
}

// TestBiasOfItsTime: what lies beside a mapping tells its bias, and for a sample that is what lay there when it was taken.
func TestBiasOfItsTime(t *testing.T) {
	s, x := newSwapped(), sharedPages(1)
	if !x.shared {
		t.Fatal("no segments share pages")
	}
	const bias, alone = 0x7f0000000000, 0x7f0008000000
	s.mapsFrom(20, 0x400000+bias, 0, 2)
	s.mapsFrom(20, 0x10000000+bias, 0x30000, 2)
	s.mapsFrom(20, 0x18000000+bias, 0x30000, 2)
	k := s.sample(25, 0x18000250+bias)
	biasOf := func() uint64 {
		t.Helper()
		m, list, ok := k.findIn(0x18000250 + bias)
		if !ok {
			t.Fatal("nothing is mapped")
		}
		out := m.Mapping
		if !x.setBias(&out, s.st, list, m.File) {
			t.Fatal("no code is mapped")
		}
		return out.Bias
	}
	if b := biasOf(); b != bias {
		t.Errorf("bias %#x, want %#x", b, uint64(bias))
	}
	s.maps(30, 0x400000+bias, 3)
	s.maps(30, 0x10000000+bias, 3)
	now := s.sample(35, 0x18000250+bias)
	m, list, _ := now.findIn(0x18000250 + bias)
	for range 2 {
		out := m.Mapping
		if !x.setBias(&out, s.st, list, m.File) || out.Bias != alone {
			t.Errorf("bias %#x with nothing beside it, want %#x", out.Bias, uint64(alone))
		}
		if b := biasOf(); b != bias {
			t.Errorf("bias %#x of a sample that waited, want %#x", b, uint64(bias))
		}
	}
	if !sameList(s.st.biases.list, s.st.p.Mappings()) {
		t.Error("the sample that waited has replaced what is known of the mappings as they are")
	}
}

// TestBiasesAreCountedOnce for a list of mappings, and of a bounded number of files.
func TestBiasesAreCountedOnce(t *testing.T) {
	s := newSwapped()
	file := &process.File{}
	mappings := s.st.p.Mappings()
	counted := s.st.biasesOf(sharedPages(1), mappings, file)
	if counted == nil || s.st.biasesOf(sharedPages(1), mappings, file) != counted {
		t.Error("the same list was counted again")
	}
	for i := range uint64(3 * maxBiased) {
		x := sharedPages(i + 2)
		m := unwind.Mapping{Start: 0x18000000, Offset: 0x30000}
		if !x.setBias(&m, s.st, mappings, file) {
			t.Fatal("no bias")
		}
	}
	if len(s.st.biases.of) != maxBiased {
		t.Errorf("counted of %d files, want %d", len(s.st.biases.of), maxBiased)
	}
	s.maps(20, 0x500000, 2)
	if s.st.biasesOf(sharedPages(1), s.st.p.Mappings(), file) == counted || len(s.st.biases.of) != 1 {
		t.Error("another list was not counted")
	}
	// A file that is mapped again and again: the first mappings are asked.
	list := make([]process.MappedFile, 100*maxSiblings)
	for i := range list {
		list[i] = process.MappedFile{Mapping: unwind.Mapping{Start: unwind.Addr(i) << 20}, File: file}
	}
	if n := sharedPages(1).countBiases(list, file).Len(); n != maxSiblings {
		t.Errorf("%d biases, want %d", n, maxSiblings)
	}
}
