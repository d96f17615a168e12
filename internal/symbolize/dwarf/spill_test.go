package dwarf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// closedSpill is a file whose Close is noted.
type closedSpill struct {
	*os.File
	closed func()
}

func (s closedSpill) Close() error {
	s.closed()
	return s.File.Close()
}

// fullSpill is a file on a disk with little room left.
type fullSpill struct {
	closedSpill
	room int
}

func (s *fullSpill) Write(b []byte) (int, error) {
	if s.room -= len(b); s.room < 0 {
		return 0, unix.ENOSPC
	}
	return s.File.Write(b)
}

// wantMain looks main up, whose line and name are in several sections.
func wantMain(t *testing.T, d *Data, bin string) {
	t.Helper()
	for _, s := range unwindtest.Symbols(t, bin) {
		if s.Name != "main" {
			continue
		}
		lines, err := d.Lookup(nil, unwind.FileAddr(s.Value))
		if err != nil || len(lines) == 0 {
			t.Error(lines, err)
		} else if l := lines[len(lines)-1]; l.Function.Name != "main" || l.Line != 1 || l.Function.File == "" {
			t.Error(lines)
		}
		return
	}
	t.Error("there is no main")
}

// compressedProgram makes a program whose debug information is compressed.
func compressedProgram(t *testing.T) string {
	t.Helper()
	unwindtest.Need(t, "gcc")
	bin := filepath.Join(t.TempDir(), "prog")
	cmd := exec.Command("sh", "-ec", `echo 'int f(int a) { return a * 3; } int main(int c, char **v) { return f(c); }' | gcc -g -O1 -gz=zlib -x c -o "$0" -`, bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestSpill has all sections outside of memory, closes them, and does without where there is no room.
func TestSpill(t *testing.T) {
	bin := compressedProgram(t)
	budget := elffile.NewBudget(bin, 64<<20)
	made, closed := 0, 0
	spill := func(uint64) (Spill, error) {
		made++
		f, err := os.CreateTemp(t.TempDir(), "spill")
		return closedSpill{f, func() { closed++ }}, err
	}
	f := openDebug(t, bin)
	d, err := Open(f.Within(budget), Options{Spill: spill, SpillSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantMain(t, d, bin)
	spilled := 0
	for _, s := range d.main.secs {
		if s != nil && s.mem != nil {
			t.Errorf("%s is in memory", s.name)
		}
		if s != nil && s.spill != nil {
			spilled++
		}
	}
	for _, id := range []sectionID{secInfo, secAbbrev, secLine, secStr} {
		if s := d.main.secs[id]; s == nil || s.size < 1 {
			t.Errorf("no .debug_%s was read", sectionNames[id])
		}
	}
	d.Close()
	if made == 0 || made != spilled || closed != made || budget.Used() != 0 {
		t.Errorf("%d made, %d closed, %d bytes of the budget used", made, closed, budget.Used())
	}
	full := errors.New("no room")
	d, err = Open(f.Within(budget), Options{Spill: func(uint64) (Spill, error) { return nil, full }, SpillSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if s := d.main.secs[secInfo]; s == nil || s.mem == nil || !errors.Is(d.Problems(), full) {
		t.Errorf("without room: %+v, %v", s, d.Problems())
	}
}

// TestSpillFull: where the disk gets full, the section comes into memory.
func TestSpillFull(t *testing.T) {
	bin := compressedProgram(t)
	budget := elffile.NewBudget(bin, 64<<20)
	for room := range 3 {
		made, closed := 0, 0
		spill := func(uint64) (Spill, error) {
			made++
			f, err := os.CreateTemp(t.TempDir(), "spill")
			return &fullSpill{closedSpill{f, func() { closed++ }}, 40 * room}, err
		}
		d, err := Open(openDebug(t, bin).Within(budget), Options{Spill: spill, SpillSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		wantMain(t, d, bin)
		if s := d.main.secs[secInfo]; s == nil || s.mem == nil || s.spill != nil || !errors.Is(d.Problems(), unix.ENOSPC) {
			t.Errorf("%+v, %v", s, d.Problems())
		}
		if d.Close(); made == 0 || closed != made || budget.Used() != 0 {
			t.Errorf("%d made, %d closed, %d bytes of the budget used", made, closed, budget.Used())
		}
	}
}

// TestStop ends what was begun, and leaves nothing behind.
func TestStop(t *testing.T) {
	bin := compressedProgram(t)
	stop := errors.New("stop")
	budget := elffile.NewBudget(bin, 64<<20)
	f := openDebug(t, bin)
	var after int
	o := Options{
		Stop:      func() error { after--; return map[bool]error{true: stop}[after < 0] },
		Spill:     func(uint64) (Spill, error) { return os.CreateTemp(t.TempDir(), "spill") },
		SpillSize: 1,
	}
	stopped := 0
	for n := range 1000 {
		after = n
		d, err := Open(f.Within(budget), o)
		if err == nil {
			_, err = d.Lookup(nil, f.Entry)
			d.Close()
		}
		if budget.Used() != 0 {
			t.Fatalf("%d bytes of the budget used", budget.Used())
		}
		if !errors.Is(err, stop) {
			if after < 0 {
				t.Errorf("asked to stop, and it ended with %v", err)
			}
			break
		}
		stopped++
	}
	if stopped == 0 {
		t.Error("never stopped")
	}
}

// TestTrim gives back what can be made again.
func TestTrim(t *testing.T) {
	bin := compressedProgram(t)
	f := openDebug(t, bin)
	d, err := Open(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := map[uint64]int{}
	for _, s := range unwindtest.Symbols(t, bin) {
		if s.Name == "f" || s.Name == "main" {
			lines, err := d.Lookup(nil, unwind.FileAddr(s.Value))
			if err != nil || len(lines) == 0 {
				t.Fatal(lines, err)
			}
			want[s.Value] = lines[0].Line
		}
	}
	before := d.Kept()
	cached := d.cache.bytes
	d.Trim(uint64(before))
	if d.cache.bytes != cached || d.Kept() >= before {
		t.Errorf("%d bytes and %d cached, before that %d and %d", d.Kept(), d.cache.bytes, before, cached)
	}
	d.Trim(0)
	if d.cache.bytes != 0 || d.Kept() >= before-int(cached) {
		t.Errorf("%d bytes, %d cached, %d before", d.Kept(), d.cache.bytes, before)
	}
	for a, line := range want {
		if lines, err := d.Lookup(nil, unwind.FileAddr(a)); err != nil || len(lines) == 0 || lines[0].Line != line {
			t.Errorf("%#x: %v, %v", a, lines, err)
		}
	}
}
