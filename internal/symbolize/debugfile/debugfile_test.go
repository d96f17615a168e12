package debugfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func TestInTheFile(t *testing.T) {
	for _, args := range [][]string{{}, {"-gz=zlib"}, {"-gz=zlib-gnu"}} {
		r := newTree(t).build(args...)
		at := r.mainAt("/src/prog")
		fetch := &fetcher{}
		found, err := find(t, r.open("/src/prog"), Options{Fetcher: fetch}, r)
		if err != nil || found.Source != SourceFile || found.String() != "file" || len(r.seen) > 0 || len(fetch.asked) > 0 {
			t.Errorf("%v: %v, %v; opened %q, asked for %q", args, found, err, r.seen, fetch.asked)
		}
		checkMain(t, found, at)
	}
}

// TestByBuildID has the debug file below the process's root, below the host's, and below both.
func TestByBuildID(t *testing.T) {
	for _, where := range []string{"process", "host", "both"} {
		process, host := newTree(t).build().strip(), newTree(t)
		debug := process.read("/src/prog.debug")
		place := process.debugPath("/src/prog")
		at := process.mainAt("/src/prog")
		if err := os.Remove(process.dir + "/src/prog.debug"); err != nil {
			t.Fatal(err)
		}
		want := process.dir + place
		if where != "host" {
			process.write(place, debug)
		} else {
			want = host.dir + place
		}
		if where != "process" {
			host.write(place, debug)
		}
		found, err := find(t, process.open("/src/prog"), Options{}, process, host)
		if err != nil || found.Source != SourceBuildID || found.Path != want || found.String() != fmt.Sprintf("build_id %q", want) {
			t.Errorf("%s: %v, %v", where, found, err)
		}
		checkMain(t, found, at)
	}
}

// TestByDebugLink has the debug file in each of the places where a debug link is followed to, with and without build ids.
func TestByDebugLink(t *testing.T) {
	for _, place := range []string{"/src/prog.debug", "/src/.debug/prog.debug", debugDir + "/src/prog.debug"} {
		for _, id := range []string{"-Wl,--build-id=sha1", "-Wl,--build-id=none"} {
			r := newTree(t).build(id).strip()
			at := r.mainAt("/src/prog")
			r.write(place, r.read("/src/prog.debug"))
			if place != "/src/prog.debug" {
				r.write("/src/prog.debug", []byte("not an ELF file"))
			}
			found, err := find(t, r.open("/src/prog"), Options{}, newTree(t), r)
			if found.Source != SourceDebugLink || found.Path != r.dir+place {
				t.Errorf("%s %s: %v, %v", place, id, found, err)
			}
			checkMain(t, found, at)
		}
	}
}

// TestOtherFiles finds files that are not the right ones, and says so.
func TestOtherFiles(t *testing.T) {
	r, other := newTree(t).build().strip(), newTree(t).build("-O1", "-DX").strip()
	place, otherID := r.debugPath("/src/prog"), other.id("/src/prog.debug")
	r.write(place, other.read("/src/prog.debug"))
	r.write("/src/prog.debug", other.read("/src/prog.debug"))
	r.write("/src/.debug/prog.debug", r.read("/src/prog")) // the right build id, and nothing else
	r.write(debugDir+"/src/prog.debug", []byte("text"))
	found, err := find(t, r.open("/src/prog"), Options{}, r, r)
	if !errors.Is(err, ErrNotFound) || !errors.Is(err, elffile.ErrNotELF) || found.Debug != nil || found.String() != "none" {
		t.Fatalf("%v, %v", found, err)
	}
	for _, want := range []string{
		fmt.Sprintf("found %q, but its build id is %s, not %s", r.dir+place, otherID, r.id("/src/prog")),
		fmt.Sprintf("found %q, but its build id is", r.dir+"/src/prog.debug"),
		fmt.Sprintf("found %q, but it has no .debug_info", r.dir+"/src/.debug/prog.debug"),
	} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if want := []string{r.id("/src/prog")}; !slices.Equal(found.Wanted, want) {
		t.Errorf("wants %q", found.Wanted)
	}
}

// TestChecksum changes a debug file: without build ids its checksum tells.
func TestChecksum(t *testing.T) {
	r := newTree(t).build("-Wl,--build-id=none").strip()
	debug := r.read("/src/prog.debug")
	r.write("/src/prog.debug", append(debug, 0))
	_, err := find(t, r.open("/src/prog"), Options{}, r)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "but its checksum is") {
		t.Error(err)
	}
	r.write("/src/prog.debug", debug)
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("no more time")
	cancel(gone)
	found, err := Find(ctx, r.open("/src/prog"), "/src/prog", Options{Roots: []Root{r}, Fetcher: &fetcher{}})
	if !errors.Is(err, ErrNotFound) || !errors.Is(err, gone) || found.Debug != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// endless is a file of any size that takes its time.
type endless struct{ reads int }

func (e *endless) ReadAt(b []byte, _ int64) (int, error) {
	e.reads++
	time.Sleep(time.Millisecond)
	return len(b), nil
}

func TestChecksumIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var e endless
	if _, err := checksum(ctx, &e, maxCRC); !errors.Is(err, context.DeadlineExceeded) || e.reads > 100 {
		t.Errorf("%v after %d reads", err, e.reads)
	}
	if _, err := checksum(context.Background(), &e, maxCRC+1); !errors.Is(err, elffile.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := checksum(context.Background(), strings.NewReader("short"), 6); err == nil {
		t.Error("a file that ends early has a checksum")
	}
	if sum, err := checksum(context.Background(), strings.NewReader("123456789"), 9); err != nil || sum != 0xcbf43926 {
		t.Errorf("%#x, %v", sum, err)
	}
}

// TestDebugData has a file with its debug information in .gnu_debugdata, and one with symbols only.
func TestDebugData(t *testing.T) {
	for _, dwarf := range []bool{true, false} {
		r := newTree(t).build().strip()
		at := r.mainAt("/src/prog")
		inner := "prog.debug"
		if !dwarf {
			inner = "symbols"
			r.run("objcopy", "--strip-debug", "prog.debug", inner)
		}
		r.run("xz", "-k", inner)
		r.run("objcopy", "--remove-section=.gnu_debuglink", "--add-section=.gnu_debugdata="+inner+".xz", "prog")
		fetch := &fetcher{err: errors.New("not reachable")}
		found, err := find(t, r.open("/src/prog"), Options{Fetcher: fetch}, r)
		if !dwarf {
			if !errors.Is(err, ErrNotFound) || !errors.Is(err, fetch.err) || found.Debug != nil || !found.NoDebugData {
				t.Errorf("%v, %v, %v", found, err, found.NoDebugData)
			}
			// The next search does without it: the section is not even read.
			counted := &countedReads{ReaderAt: r.open("/src/prog").ReaderAt()}
			f, err := elffile.New(counted, r.open("/src/prog").Size())
			if err != nil {
				t.Fatal(err)
			}
			counted.section = f.Section(".gnu_debugdata")
			for _, known := range []bool{false, true} {
				counted.reads = 0
				again, err := find(t, f, Options{NoDebugData: known}, r)
				if !errors.Is(err, ErrNotFound) || !again.NoDebugData || (counted.reads == 0) != known {
					t.Errorf("known %v: %v, %v, %d reads", known, err, again.NoDebugData, counted.reads)
				}
			}
			continue
		}
		if err != nil || found.Source != SourceDebugData || found.String() != "debugdata" || found.NoDebugData {
			t.Errorf("%v, %v, %v", found, err, found.NoDebugData)
		}
		checkMain(t, found, at)
		if found, err := find(t, r.open("/src/prog"), Options{NoDebugData: true}, r); found.Debug != nil {
			t.Errorf("%v, %v", found, err)
		}
		f := r.open("/src/prog")
		if found, err := find(t, f.Within(elffile.NewBudget("small", 4096)), Options{}, r); !errors.Is(err, elffile.ErrTooLarge) || found.NoDebugData {
			t.Errorf("%v, %v, %v", found, err, found.NoDebugData)
		}
	}
}

// countedReads counts the reads of a section.
type countedReads struct {
	io.ReaderAt
	section *elffile.Section
	reads   int
}

func (c *countedReads) ReadAt(b []byte, off int64) (int, error) {
	if s := c.section; s != nil && off < int64(s.Offset)+int64(s.Size) && off+int64(len(b)) > int64(s.Offset) {
		c.reads++
	}
	return c.ReaderAt.ReadAt(b, off)
}

// TestFetched gets the debug file and the supplementary one from a Fetcher.
func TestFetched(t *testing.T) {
	r := newTree(t).build()
	at := r.mainAt("/src/prog")
	r.write("/src/twin", r.read("/src/prog"))
	r.run("dwz", "-m", "common.dwz", "prog", "twin")
	r.strip()
	r.move("/src/prog.debug", "/server/main")
	r.move("/src/common.dwz", "/server/common")
	id, common := r.id("/src/prog"), r.id("/server/common")
	fetch := &fetcher{files: map[string]string{id: r.dir + "/server/main", common: r.dir + "/server/common"}}
	found, err := find(t, r.open("/src/prog"), Options{Fetcher: fetch}, r)
	if err != nil || found.Source != SourceDebuginfod || found.Supplement != SourceDebuginfod || len(found.Wanted) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if want := []string{id, common}; !slices.Equal(fetch.asked, want) {
		t.Errorf("asked for %q, not %q", fetch.asked, want)
	}
	checkMain(t, found, at)

	wrong := &fetcher{files: map[string]string{id: r.dir + "/server/common"}}
	found, err = find(t, r.open("/src/prog"), Options{Fetcher: wrong}, r)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "but its build id is "+common) || found.Debug != nil {
		t.Errorf("%v, %v", found, err)
	}
	found, err = find(t, r.open("/src/prog"), Options{}, r)
	if !errors.Is(err, ErrNotFound) || !slices.Equal(found.Wanted, []string{id}) {
		t.Errorf("%v, %v, wants %q", found, err, found.Wanted)
	}
}

// TestOwnLink is linked to itself.
func TestOwnLink(t *testing.T) {
	r := newTree(t).build().strip()
	r.run("objcopy", "--remove-section=.gnu_debuglink", "prog")
	r.run("cp", "prog", "plain")
	r.run("objcopy", "--add-gnu-debuglink=prog", "plain", "prog")
	found, err := find(t, r.open("/src/prog"), Options{}, r)
	if !errors.Is(err, ErrNotFound) || found.Debug != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestArchitecture has the debug file of another architecture where the right one should be.
func TestArchitecture(t *testing.T) {
	r := newTree(t).build().strip()
	b := bytes.Clone(r.read("/src/prog.debug"))
	b[18], b[19] = 183, 0 // EM_AARCH64
	if r.read("/src/prog")[18] == 183 {
		b[18] = 62 // EM_X86_64
	}
	r.write("/src/prog.debug", b)
	if _, err := find(t, r.open("/src/prog"), Options{}, r); !strings.Contains(err.Error(), "another architecture") {
		t.Error(err)
	}
}

// TestNoPath has no place for what links name.
func TestNoPath(t *testing.T) {
	for _, path := range []string{"", "a\x00b", "/" + strings.Repeat("x", maxPath)} {
		r := newTree(t).build().strip()
		found, err := Find(context.Background(), r.open("/src/prog"), path, Options{Roots: []Root{r}})
		if want := []string{r.debugPath("/src/prog")}; !errors.Is(err, ErrNotFound) || found.Debug != nil || !slices.Equal(r.seen, want) {
			t.Errorf("%v, %v, opened %q", found, err, r.seen)
		}
	}
}
