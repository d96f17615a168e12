package process

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func mapping(inode, generation uint64, path string) *MmapInfo {
	return &MmapInfo{Start: 0x1000, End: 0x2000, File: FileID{Major: 8, Minor: 1, Inode: inode, Generation: generation}, Path: path}
}

func TestFileIdentity(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	libc := x.Acquire(mapping(1, 7, "/lib/libc.so"), 1)
	for _, c := range []struct {
		what string
		m    *MmapInfo
		same bool
	}{
		{"again", mapping(1, 7, "/lib/libc.so"), true},
		{"by another name, the kernel says it is the same", mapping(1, 7, "/host/lib/libc.so"), true},
		{"from /proc, without a generation", mapping(1, 0, "/lib/libc.so"), true},
		{"deleted since", mapping(1, 0, "/lib/libc.so (deleted)"), true},
		{"from /proc, by another name", mapping(1, 0, "/lib/other.so"), false},
		{"the inode number was used again", mapping(1, 8, "/lib/libc.so"), false},
		{"another file", mapping(2, 7, "/lib/libc.so"), false},
	} {
		if got := x.Acquire(c.m, 1) == libc; got != c.same {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	first := x.Acquire(mapping(5, 0, "/a"), 1)
	if x.Acquire(mapping(5, 3, "/a"), 1) != first || first.ID.Generation != 3 {
		t.Error("an event tells the generation of a file that /proc told of")
	}
	vdso := &MmapInfo{Start: 0x7000, End: 0x9000, Path: PathVDSO}
	short := &MmapInfo{Start: 0x7000, End: 0x8000, Path: PathVDSO}
	if f := x.Acquire(vdso, 1); !f.VDSO() || f != x.Acquire(vdso, 2) || f == x.Acquire(short, 3) {
		t.Error("a vdso is known by its length")
	}
	for i := range 1000 {
		x.Acquire(mapping(9, 0, fmt.Sprint("/link", i)), 1)
	}
	if x.Len() != 6+maxVariants+1 {
		t.Errorf("%d files", x.Len())
	}
}

// TestOtherRoot: of a process with a root of its own the kernel's records have paths below that, and /proc has them in full. Both are of
// one file, so that mappings that are read again are what they were.
func TestOtherRoot(t *testing.T) {
	for path, same := range map[string]bool{
		"/srv/root/usr/lib/libz.so.1": true, "/usr/lib/libz.so.1": true, "/srv/root/usr/lib/libz.so.1 (deleted)": true,
		"/srv/rootusr/lib/libz.so.1": false, "/lib/libz.so.1": true, "/srv/usr/lib/libz.so.2": false, "libz.so.1": false,
	} {
		x := NewExecutables[int](ExecutablesOptions{})
		f := x.Acquire(mapping(1, 7, "/usr/lib/libz.so.1"), 1)
		if got := x.Acquire(mapping(1, 0, path), 1) == f; got != same {
			t.Errorf("%s: one file: %v, want %v", path, got, same)
		}
		if x.Acquire(mapping(1, 8, "/srv/root/usr/lib/libz.so.1"), 1) == f {
			t.Error("another generation is another file")
		}
	}
	x := NewExecutables[int](ExecutablesOptions{})
	if x.Acquire(mapping(1, 0, "/usr/lib/libz.so.1"), 1) == x.Acquire(mapping(1, 0, "/snapshot/usr/lib/libz.so.1"), 1) {
		t.Error("/proc has both paths in full: these are two files of btrfs with one inode number")
	}
}

// TestPathsOfOneFile: a mount shows a file under a path of its own, and hard links do. Where the kernel has told that it is one file,
// mappings that are read again, which have no generation, are of it.
func TestPathsOfOneFile(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	f := x.Acquire(mapping(1, 7, "/lower/program"), 1)
	if x.Acquire(mapping(1, 0, "/other/program"), 2) == f {
		t.Error("nobody said that this is the same file")
	}
	for i := range 2 * maxPaths {
		path := fmt.Sprintf("/mount%d/program", i)
		if x.Acquire(mapping(1, 7, path), 3) != f || x.Acquire(mapping(1, 0, path), 3) != f {
			t.Errorf("%s: another file", path)
		}
	}
	if x.Acquire(mapping(1, 0, "/lower/program"), 3) != f || len(f.paths) != maxPaths {
		t.Errorf("%d paths", len(f.paths))
	}
	var bytes uint64
	for g := x.files[f.key]; g != nil; g = g.next {
		bytes += fileCost(g)
	}
	if bytes != x.Bytes() {
		t.Errorf("%d bytes are counted, %d taken", x.Bytes(), bytes)
	}
}

// TestGenerations has many files get one inode number, one after the other: a program that is built and run again and again. Each is
// a file of its own, whether those before are still mapped or not, and all that is kept of them is bounded.
func TestGenerations(t *testing.T) {
	for name, mapped := range map[string]int{"none stays mapped": 0, "some stay mapped": 5, "all stay mapped": 100} {
		x := NewExecutables[int](ExecutablesOptions{})
		files := map[*File]struct{}{}
		for g := range uint64(100) {
			f := x.Acquire(mapping(1, g+1, "/tmp/a.out"), uint32(g))
			if _, known := files[f]; known || f.ID.Generation != g+1 {
				t.Errorf("%s: generation %d is taken for %d", name, g+1, f.ID.Generation)
				break
			}
			if f != x.Acquire(mapping(1, g+1, "/tmp/a.out"), 1) {
				t.Errorf("%s: generation %d is two files", name, g+1)
			}
			files[f] = struct{}{}
			e := x.Of(f)
			x.StartOpening(e)
			if x.SetPayload(x.Opened(e, Identity{Size: 1}), 1, 10); e.State() != Ready {
				t.Errorf("%s: state %v", name, e.State())
			}
			for len(files) > mapped {
				x.release(f)
				x.release(f)
				delete(files, f)
			}
			variants := 0
			for f := x.files[f.key]; f != nil; f = f.next {
				variants++
			}
			if variants > maxVariants {
				t.Errorf("%s: a chain of %d", name, variants)
			}
		}
		for f := range files {
			if e := x.Of(f); e.State() != Ready || e.Replaced() {
				t.Errorf("%s: what is mapped is forgotten", name)
			}
			x.release(f)
			x.release(f)
		}
		x.Evict(0)
		if evicted := len(x.TakeEvicted()); evicted != 100 || x.Len() != 0 || x.Bytes() != 0 || len(x.files) != 0 {
			t.Errorf("%s: of 100 payloads %d were dropped; %d files of %d bytes left", name, evicted, x.Len(), x.Bytes())
		}
	}
}

func TestCandidates(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	var f *File
	pids := func() (out []uint32) {
		for _, c := range f.Candidates() {
			out = append(out, c.PID)
		}
		return out
	}
	for pid, want := range [][]uint32{1: {1}, 2: {2, 1}, 3: {3, 2, 1}, 4: {4, 3, 2, 1}, 5: {5, 4, 3, 2}, 6: {6, 5, 4, 3}} {
		if want == nil {
			continue
		}
		f = x.Acquire(mapping(1, 7, "/a"), uint32(pid))
		if got := pids(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	m := mapping(1, 7, "/b")
	m.Start, m.End, m.Offset = 5, 6, 7
	x.Acquire(m, 4)
	if got := f.Candidates()[2]; got != (Candidate{PID: 4, Start: 5, End: 6, Offset: 7, Path: "/b"}) {
		t.Errorf("%+v", got)
	}
}

func TestOpening(t *testing.T) {
	x := NewExecutables[string](ExecutablesOptions{})
	f := x.Acquire(mapping(1, 7, "/a"), 1)
	e := x.Of(f)
	if !x.StartOpening(e) || x.StartOpening(e) || e.State() != Opening {
		t.Error("one opening at a time")
	}
	x.Fail(e, errors.New("no permission"), false)
	if e.State() != Failed || e.Err() == nil || x.StartOpening(e) {
		t.Error("not at once again")
	}
	tries := 0
	for range 200 {
		x.Tick()
		if x.StartOpening(e) {
			tries++
			x.Fail(e, errors.New("no permission"), false)
		}
	}
	if tries < 6 || tries > 9 {
		t.Errorf("%d tries in 200 ticks", tries)
	}
	x.Acquire(mapping(1, 7, "/a"), 2)
	x.Tick()
	if !x.StartOpening(e) {
		t.Error("another process is another way to open it")
	}
	if got := x.Opened(e, Identity{Size: 1}); got != e {
		t.Error("the first opening replaces nothing")
	}
	if !x.SetPayload(e, "table", 1000) || e.State() != Ready || e.Err() != nil || x.Bytes() != fileCost(e.File)+1000 {
		t.Errorf("state %d, %d bytes", e.State(), x.Bytes())
	}
	if x.StartOpening(e) {
		t.Error("it is ready, and mapped all the time")
	}
}

func TestPermanentFailure(t *testing.T) {
	x := NewExecutables[string](ExecutablesOptions{})
	f := x.Acquire(mapping(1, 7, "/a"), 1)
	e := x.Of(f)
	x.StartOpening(e)
	x.Fail(e, errors.New("not an ELF file"), true)
	for range 100 {
		x.Tick()
		x.Acquire(mapping(1, 7, "/a"), uint32(x.tick))
		if x.StartOpening(e) {
			t.Fatal("it does not become one")
		}
	}
	for f.refs > 0 {
		x.release(f)
	}
	x.Acquire(mapping(1, 7, "/a"), 1)
	if !x.StartOpening(e) {
		t.Error("while nothing mapped it, it may have become one")
	}
}

func TestReplacedInPlace(t *testing.T) {
	x := NewExecutables[string](ExecutablesOptions{})
	m := mapping(1, 7, "/a")
	f := x.Acquire(m, 1)
	old := x.Of(f)
	x.StartOpening(old)
	x.Opened(old, Identity{Size: 1, MTime: 1})
	x.SetPayload(old, "old", 1000)
	x.release(f)

	if x.Acquire(m, 1); x.StartOpening(old) {
		t.Error("looked at in this very tick")
	}
	x.release(f)
	x.Tick()
	x.Acquire(m, 1)
	if !x.StartOpening(old) || old.State() != Ready {
		t.Error("it is checked, and serves meanwhile")
	}
	if x.Opened(old, Identity{Size: 1, MTime: 1, CTime: 5}) != old || x.StartOpening(old) {
		t.Error("unchanged")
	}
	x.release(f)
	x.Tick()
	x.Acquire(m, 1)
	x.StartOpening(old)
	n := x.Opened(old, Identity{Size: 2, MTime: 1})
	if n == old || n.State() != Opening || n.Serial == old.Serial || !old.Replaced() || x.Of(f) != n || x.StartOpening(n) {
		t.Errorf("%+v", n)
	}
	if got := x.TakeEvicted(); len(got) != 1 || got[0].Payload != "old" || got[0].Executable != old {
		t.Errorf("%+v", got)
	}
	if x.SetPayload(old, "late", 5) || x.Bytes() != fileCost(old.File) {
		t.Errorf("a replaced executable takes no payload; %d bytes", x.Bytes())
	}
	if !x.SetPayload(n, "new", 10) || x.Bytes() != fileCost(n.File)+10 || x.Stats().Replaced != 1 {
		t.Errorf("%d bytes", x.Bytes())
	}
}

// TestWrittenWhileMapped: a file that is mapped all the time is looked at again once somebody else maps it, once a tick at most.
func TestWrittenWhileMapped(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	m := mapping(1, 1, "/lib/a.so")
	f := x.Acquire(m, 1)
	e := x.Of(f)
	x.StartOpening(e)
	x.Opened(e, Identity{Size: 1, MTime: 1})
	x.SetPayload(e, 1, 10)
	if x.Acquire(m, 2); x.StartChecking(e) {
		t.Error("it was looked at in this tick")
	}
	x.Tick()
	if x.StartChecking(e) {
		t.Error("nobody has mapped it since")
	}
	if x.Acquire(m, 3); !x.StartChecking(e) || x.StartChecking(e) {
		t.Error("another process has mapped it: it is checked, once")
	}
	if n := x.Opened(e, Identity{Size: 1, MTime: 1}); n != e || x.StartChecking(e) {
		t.Error("it was the same, and nobody has mapped it since")
	}
	x.Tick()
	x.Acquire(m, 4)
	if !x.StartChecking(e) {
		t.Error("mapped again in another tick")
	}
	if n := x.Opened(e, Identity{Size: 1, MTime: 2}); n == e || !e.Replaced() || n.State() != Opening || x.Of(f) != n {
		t.Error("it was written to, and is another executable")
	}
	vdso := &MmapInfo{Start: 0x7000, End: 0x9000, Path: PathVDSO}
	v := x.Of(x.Acquire(vdso, 1))
	x.StartOpening(v)
	x.Opened(v, Identity{Size: 1})
	x.SetPayload(v, 1, 10)
	x.Tick()
	if x.Acquire(vdso, 2); x.StartChecking(v) {
		t.Error("the vdso is the same for ever")
	}
}

// TestWrittenWhileLookedAt: a look takes its time, on a slow file system or where a table is made. Of who maps the file meanwhile it says
// nothing.
func TestWrittenWhileLookedAt(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	m := mapping(1, 1, "/lib/a.so")
	f := x.Acquire(m, 1)
	e := x.Of(f)
	id := Identity{Size: 1, MTime: 1}
	ends := func(what string, look func(*Executable[int]) bool, end func()) {
		t.Helper()
		x.Tick()
		x.Acquire(m, 1)
		if !look(e) {
			t.Fatalf("%s: not looked at", what)
		}
		x.Acquire(m, 2) // in the tick of the look: that counts as before it
		end()
		if x.StartChecking(e) {
			t.Errorf("%s: looked at twice in a tick", what)
		}
		x.Tick()
		x.Acquire(m, 3)
		if !look(e) && !x.StartChecking(e) {
			t.Fatalf("%s: not looked at", what)
		}
		x.Tick()
		x.Acquire(m, 4)
		end()
		if e.State() != Ready || e.Checking() {
			t.Fatalf("%s: state %v", what, e.State())
		}
		if !x.StartChecking(e) {
			t.Errorf("%s: who mapped it since the look began may have something else", what)
		}
		if end(); x.StartChecking(e) {
			t.Errorf("%s: now it was looked at", what)
		}
	}
	made := func() { x.SetPayload(x.Opened(e, id), 1, 10) }
	ends("opened first", x.StartOpening, made)
	ends("checked", x.StartChecking, func() { x.Opened(e, id) })
	ends("found to be another", x.StartChecking, func() {
		id.MTime++
		if e = x.Opened(e, id); e.State() == Opening {
			x.SetPayload(e, 2, 10)
		}
	})
	ends("nothing mapped it", func(*Executable[int]) bool {
		for f.refs > 0 {
			x.release(f)
		}
		x.Acquire(m, 5)
		return x.StartOpening(e)
	}, func() { x.Opened(e, id) })
}

// TestFailedChecks: what cannot be looked at again stays as it is, and is tried less and less often, but at once by another way or if
// its file is wanted.
func TestFailedChecks(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{})
	m := mapping(1, 1, "/lib/a.so")
	e := x.Of(x.Acquire(m, 1))
	x.StartOpening(e)
	x.Opened(e, Identity{Size: 1})
	x.SetPayload(e, 1, 10)
	tries := 0
	for range 200 {
		x.Tick()
		if x.Acquire(m, 1); x.StartChecking(e) {
			tries++
			x.FailCheck(e)
		}
	}
	if tries < 6 || tries > 9 || e.State() != Ready || e.Err() != nil || x.Stats().OpenFailures != 0 {
		t.Errorf("%d tries in 200 ticks; state %d, %v", tries, e.State(), e.Err())
	}
	if x.TakeWanted(e) {
		t.Error("nobody wants its file")
	}
	x.Reopen(e)
	if !x.StartOpening(e) {
		t.Error("its file is wanted")
	}
	if x.Opened(e, Identity{Size: 1}); !x.TakeWanted(e) || x.TakeWanted(e) {
		t.Error("it was wanted, once")
	}
	for range 8 {
		x.FailCheck(e)
	}
	x.Acquire(m, 2)
	x.Tick()
	if x.Acquire(m, 2); !x.StartChecking(e) {
		t.Error("another process is another way to open it")
	}
}

func TestEvict(t *testing.T) {
	x := NewExecutables[int](ExecutablesOptions{MaxUnused: 50})
	var files []*File
	for i := range 10 {
		f := x.Acquire(mapping(uint64(i+1), 7, fmt.Sprint("/f", i)), 1)
		e := x.Of(f)
		x.StartOpening(e)
		x.Opened(e, Identity{})
		x.SetPayload(e, i, 1000)
		files = append(files, f)
	}
	x.Tick()
	x.release(files[3])
	x.release(files[4])
	x.Tick()
	x.Use(x.Of(files[0]))
	evicted := func() (out []int) {
		for _, e := range x.TakeEvicted() {
			out = append(out, e.Payload)
		}
		return out
	}
	x.Evict(x.Bytes() - 1)
	if got := evicted(); !slices.Equal(got, []int{3}) {
		t.Errorf("what was unused longest goes first: %v", got)
	}
	x.Evict(x.Bytes() - 2500)
	if got := evicted(); !slices.Equal(got, []int{4, 1}) {
		t.Errorf("then what is mapped, longest not used: %v", got)
	}
	if e := x.Of(files[1]); e.State() != Unopened || e.Replaced() || !x.StartOpening(e) {
		t.Error("a mapped one can be opened again")
	}
	if e := x.Of(files[1]); x.Opened(e, Identity{Size: 9}) == e || !e.Replaced() {
		t.Error("it has changed since")
	}
	x.Evict(0)
	if got := evicted(); slices.Contains(got, 0) || len(got) != 6 {
		t.Errorf("not what was used in this tick: %v", got)
	}
	if s := x.Stats(); s.EvictedUnused != 2 || s.EvictedMapped != 7 {
		t.Errorf("%+v", s)
	}
	for i := range 200 {
		x.release(x.Acquire(mapping(uint64(1000+i), 7, "/x"), 1))
	}
	if x.unused.Len() != 50 || x.Len() != 58 {
		t.Errorf("%d unused of %d", x.unused.Len(), x.Len())
	}
}

func BenchmarkAcquire(b *testing.B) {
	x := NewExecutables[int](ExecutablesOptions{})
	var maps []*MmapInfo
	for i := range 200 {
		m := mapping(uint64(i), 7, fmt.Sprint("/usr/lib/x86_64-linux-gnu/lib", i, ".so"))
		m.Start = unwind.Addr(i)
		x.Acquire(m, 1)
		maps = append(maps, m)
	}
	i := 0
	for b.Loop() {
		i = (i + 1) % 200
		x.release(x.Acquire(maps[i], 2))
	}
}
