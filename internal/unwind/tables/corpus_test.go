package tables_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/ehframe"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// fullTest is the environment variable that asks for tests which take minutes, or download much.
const fullTest = "HOSTPROFILES_TEST_FULL"

// What there is at least of each architecture, of a machine that scripts/setup.sh has set up and of the packages for arm64.
const (
	leastFiles = 100
	leastRows  = 100_000
)

var corpusFlag = flag.String("corpus", "", "compare the ELF files below this folder only")

// TestEveryExecutable has the tables of all executables and libraries of this machine's /usr, and of Debian packages for arm64,
// agree with readelf's interpretation of their call frame information at each of its rows. And the table that is made in the
// end, of all sources, has the rule of .eh_frame wherever there is one.
func TestEveryExecutable(t *testing.T) {
	roots := []string{"/usr"}
	switch {
	case *corpusFlag != "":
		roots = []string{*corpusFlag}
	case os.Getenv(fullTest) == "":
		t.Skip("set " + fullTest + "=1, or name a folder with -corpus: thousands of files take minutes; TestAgainstReadelf has a dozen")
	default:
		roots = append(roots, unwindtest.Corpus(t, "../../.."))
	}
	unwindtest.Need(t, "readelf")
	var files []string
	for _, root := range roots {
		files = append(files, executables(t, root)...)
	}
	if *corpusFlag == "" && len(files) < 2000 {
		t.Fatalf("%d files", len(files))
	}
	all := corpus{t: t, byArch: map[unwind.Arch]*totals{}}
	paths := make(chan string)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for path := range paths {
				all.file(path)
			}
		})
	}
	for _, path := range files {
		paths <- path
	}
	close(paths)
	wg.Wait()
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		n := all.byArch[arch]
		if *corpusFlag == "" && (n == nil || n.Files < leastFiles || n.Rows < leastRows) {
			t.Errorf("%v: only %+v", arch, n)
		}
		if n != nil {
			t.Logf("%v: %+v", arch, *n)
			if n.Differed > 0 || n.Replaced > 0 || n.Malformed > 0 {
				t.Errorf("%v: %d rows differ, %d were replaced, %d entries malformed", arch, n.Differed, n.Replaced, n.Malformed)
			}
			if (n.Outside+n.Overlaps)*1000 > n.Rows {
				t.Errorf("%v: of %d rows %d are in no segment with code, %d in several functions", arch, n.Rows, n.Outside, n.Overlaps)
			}
		}
	}
}

// totals are what was compared of one architecture.
type totals struct {
	Files     int // with either section
	Bytes     uint64
	FDEs      int
	Rows      int // of readelf's
	None      int // without a rule, since there can be none
	Exprs     int // whose CFA is an expression
	Overlaps  int
	Outside   int
	Differed  int
	Replaced  int // rows of .eh_frame that the table of all sources has another rule for
	Malformed int
}

// corpus collects what is found in files.
type corpus struct {
	t      *testing.T
	mu     sync.Mutex
	byArch map[unwind.Arch]*totals
}

// file compares one file.
func (c *corpus) file(path string) {
	r, err := os.Open(path)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		c.t.Error(err)
		return
	}
	f, err := elffile.New(r, st.Size())
	if err != nil { // executables() has read it
		c.t.Errorf("%s: %v", path, err)
		return
	}
	var n totals
	for section, read := range map[string]func(*elffile.File) (*unwind.Table, ehframe.Stats, error){
		".eh_frame": ehframe.EHFrame, ".debug_frame": ehframe.DebugFrame,
	} {
		if f.Section(section) == nil && f.Section(".z"+section[1:]) == nil {
			continue
		}
		tab, stats, err := read(f)
		if err != nil {
			c.t.Errorf("%s: %s: %v", path, section, err)
			continue
		}
		cmp, err := unwindtest.Readelf(path, section, f.Arch, f.Executable(), tab)
		if err != nil {
			c.t.Errorf("%s: %v", path, err)
			continue
		}
		for _, d := range cmp.Differ {
			c.t.Errorf("%s %s: %s", path, section, d)
		}
		n.Files = 1
		n.Bytes += uint64(st.Size())
		n.FDEs += stats.FDEs
		n.Rows += cmp.Rows
		n.None += cmp.None
		n.Exprs += cmp.Exprs
		n.Overlaps += cmp.Overlaps
		n.Outside += cmp.Outside
		n.Differed += cmp.Differed
		n.Malformed += stats.Malformed
		if stats.Malformed > 0 {
			c.t.Errorf("%s: %s has %d malformed entries", path, section, stats.Malformed)
		}
		if section == ".eh_frame" {
			n.Replaced += c.replaced(path, f, tab)
		}
	}
	if n.Files == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.byArch[f.Arch]
	if sum == nil {
		sum = &totals{}
		c.byArch[f.Arch] = sum
	}
	*sum = totals{
		sum.Files + n.Files, sum.Bytes + n.Bytes, sum.FDEs + n.FDEs, sum.Rows + n.Rows, sum.None + n.None, sum.Exprs + n.Exprs,
		sum.Overlaps + n.Overlaps, sum.Outside + n.Outside, sum.Differed + n.Differed, sum.Replaced + n.Replaced,
		sum.Malformed + n.Malformed,
	}
}

// replaced counts the rows of .eh_frame's table that the whole table says something else of. Go's own table comes first.
func (c *corpus) replaced(path string, f *elffile.File, frames *unwind.Table) (n int) {
	whole, info, err := tables.Build(f)
	if err != nil {
		c.t.Errorf("%s: %v", path, err)
		return 0
	}
	for _, r := range frames.Rows {
		rule := frames.Rules[r.Rule]
		if rule.CFA == unwind.CFANone || info.Go != nil && r.Start >= info.Go.TextStart && r.Start < info.Go.TextEnd {
			continue
		}
		if got := whole.Lookup(r.Start); got != rule {
			if n++; n < 5 {
				c.t.Errorf("%s: %#x has the rule %v, .eh_frame %v", path, uint64(r.Start), got, rule)
			}
		}
	}
	return n
}

// executables are the executables and libraries below a folder that are of a known architecture, each once, the largest first.
func executables(t *testing.T, root string) []string {
	type inode struct{ dev, ino uint64 }
	type sized struct {
		path string
		size int64
	}
	seen := map[inode]bool{}
	var found []sized
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != root:
			return nil // packages come and go
		case err != nil:
			return err
		case !d.Type().IsRegular():
			return nil
		}
		r, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer r.Close()
		st, err := r.Stat()
		if err != nil {
			return nil
		}
		switch _, err := elffile.New(r, st.Size()); {
		case errors.Is(err, elffile.ErrNotELF), errors.Is(err, elffile.ErrUnsupported):
			return nil // another kind of file, or of another machine
		case err != nil:
			t.Errorf("%s: %v", path, err)
			return nil
		}
		sys := st.Sys().(*syscall.Stat_t)
		if id := (inode{uint64(sys.Dev), sys.Ino}); !seen[id] {
			seen[id] = true
			found = append(found, sized{path, st.Size()})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(found, func(a, b sized) int { return int(b.size>>10 - a.size>>10) })
	files := make([]string, len(found))
	for i, f := range found {
		files[i] = f.path
	}
	return files
}
