package engine

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestHeldMappingsCount has stacks wait while their process maps one thing after the other: each list of mappings that they keep counts,
// once, and what is too much goes.
func TestHeldMappingsCount(t *testing.T) {
	s := newSwapped()
	for i := range uint64(maxHeldMappings - 2) {
		s.maps(20+i, unwind.Addr(0x7f0000000000+i<<16), 2)
	}
	s.cfg.MemoryBytes = 64 << 20
	list := int(listBytes(s.st.p.Mappings()))
	hold := func(time uint64, addrs ...uint64) { s.held.add(s.Engine, s.sample(time, addrs...)) }
	hold(3000, own)
	one := s.held.bytes
	if one < list {
		t.Fatalf("%d bytes with a list of %d", one, list)
	}
	hold(3001, own)
	if s.held.bytes != one+s.held.stacks[1].size() {
		t.Errorf("%d bytes with two stacks of one list, %d with one", s.held.bytes, one)
	}
	s.maps(3002, 0x500000, 3)
	hold(3003, own)
	if s.held.bytes < 2*list || len(s.held.lists) != 2 {
		t.Errorf("%d bytes with two lists of %d", s.held.bytes, list)
	}
	// A list that is longer: what the frames lie in is kept, and is found there.
	s.maps(3010, 0x700000, 3)
	before := s.held.bytes
	hold(3011, own, shared, own, 0x123)
	k := s.held.stacks[3]
	if n := s.held.bytes - before; len(k.mappings) != 2 || n >= list {
		t.Errorf("%d mappings kept, %d bytes", len(k.mappings), n)
	}
	s.maps(3020, shared&^0xfff, 4)
	for addr, inode := range map[unwind.Addr]uint64{own: 1, shared: 2, 0x700010: 3} {
		if m, ok := k.find(addr); !ok || m.File.ID.Inode != inode {
			t.Errorf("at %#x lies %v, want file %d", addr, m, inode)
		}
	}
	for _, k := range s.held.stacks {
		s.held.bytes -= k.size()
		s.held.release(k.mappings)
	}
	if s.held.bytes != 0 || len(s.held.lists) != 0 {
		t.Errorf("%d bytes left, %d lists", s.held.bytes, len(s.held.lists))
	}
}

// TestHeldWhileMapsAreRead: a sample waits for mappings to be read since its process is suspected to have more. What was known when it
// was taken still tells where it was, however late the read comes, unless events were lost.
func TestHeldWhileMapsAreRead(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := newSwapped()
		s.maps(20, shared&^0xfff, 2)
		s.table.Suspect(s.st.p)
		s.table.ReadStarted(s.st.p)
		if lost {
			s.table.Lost()
		}
		k := s.sample(30, shared)
		if s.complete(k) {
			t.Fatal("it does not wait")
		}
		s.held.add(s.Engine, k)
		s.maps(40, shared&^0xfff, 3)
		s.table.SetMaps(s.st.p, nil, 35, 0)
		want := uint64(2)
		if lost {
			want = 3
		}
		if m, ok := s.held.stacks[0].find(shared); !ok || m.File.ID.Inode != want {
			t.Errorf("lost %v: it was in %v, want file %d", lost, m, want)
		}
	}
}

// TestToldCounts: what BPF was told counts once the process has other mappings, and is forgotten after a while.
func TestToldCounts(t *testing.T) {
	s := newSwapped()
	s.maps(20, shared&^0xfff, 2)
	s.tell(30)
	if n := s.toldBytes(); n != 0 {
		t.Errorf("%d bytes, but the process has these mappings", n)
	}
	old := s.st.p.Mappings()
	s.maps(40, shared&^0xfff, 3)
	other := &processState{p: s.table.SampleArrived(8, 12, 5, 1), told: s.st.told}
	s.states[other.p] = other
	other.p.Version = 100
	if n := s.toldBytes(); n != listBytes(old) {
		t.Errorf("%d bytes of a list that two processes were told of, which takes %d", n, listBytes(old))
	}
	s.tell(50)
	s.steady()
	if n := len(s.st.told[1].mappings); n != 0 {
		t.Errorf("%d mappings that BPF knew long ago", n)
	}
	if k := s.sample(49, shared); k.stop != unwind.StopRoot {
		t.Errorf("a sample of that time: %v", k.stop)
	}
	var none []process.MappedFile
	if len(s.st.told[0].mappings) == 0 || listBytes(none) != 0 {
		t.Error("what BPF knows is forgotten")
	}
}
