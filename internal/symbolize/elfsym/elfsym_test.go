package elfsym

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

func load(t testing.TB, path string) *Table {
	t.Helper()
	tab, err := Load(unwindtest.Open(t, path), Options{})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tab
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	unwindtest.Need(t, name)
	cmd := exec.Command(name, args...)
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &msg)
	}
	return string(out)
}

// readelfSymbol is a function as readelf -sW shows it.
type readelfSymbol struct {
	addr, size   uint64
	global, weak bool
	name         string
}

// readelfFunctions lists the functions of all symbol tables.
func readelfFunctions(t testing.TB, path string, code []unwind.Extent) []readelfSymbol {
	t.Helper()
	arm := strings.Contains(run(t, "readelf", "-h", path), "AArch64")
	var out []readelfSymbol
	sc := bufio.NewScanner(strings.NewReader(run(t, "readelf", "-sW", path)))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		// Num: Value Size Type Bind Vis Ndx Name
		if len(f) < 8 || !strings.HasSuffix(f[0], ":") || f[0] == "Num:" {
			continue
		}
		if f[3] != "FUNC" && f[3] != "IFUNC" && f[3] != "NOTYPE" {
			continue
		}
		ndx, name := f[6], f[7]
		if strings.HasPrefix(ndx, "[") { // <other>: [VARIANT_PCS]
			ndx, name = f[len(f)-2], f[len(f)-1]
		}
		if ndx == "UND" || ndx == "ABS" || ndx == "COM" {
			continue
		}
		addr, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil {
			continue
		}
		size, err := strconv.ParseUint(f[2], 0, 64)
		if err != nil {
			t.Fatal(sc.Text())
		}
		if !slices.ContainsFunc(code, func(e unwind.Extent) bool { return uint64(e.Start) <= addr && addr < uint64(e.End) }) {
			continue
		}
		if arm && size == 0 && (name == "$x" || name == "$d") {
			continue
		}
		out = append(out, readelfSymbol{addr, size, f[4] == "GLOBAL", f[4] == "WEAK", name})
	}
	slices.SortFunc(out, func(a, b readelfSymbol) int { return int(int64(a.addr) - int64(b.addr)) })
	return out
}

// checkAgainstReadelf looks up the first and last address of every function, and the ones around it.
func checkAgainstReadelf(t *testing.T, tab *Table, syms []readelfSymbol) (named, unnamed int) {
	t.Helper()
	var addrs []uint64
	for _, s := range syms {
		addrs = append(addrs, s.addr-1, s.addr, s.addr+1, s.addr+s.size-1, s.addr+s.size, s.addr+s.size/2)
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	for _, a := range addrs {
		want := expected(syms, a)
		got, ok, err := tab.Symbol(unwind.FileAddr(a))
		if err != nil {
			t.Fatal(err)
		}
		if got.PLT {
			continue
		}
		switch base, _, _ := strings.Cut(got.Name, "@"); {
		case !ok && len(want) > 0:
			t.Errorf("%#x: no name, want one of %v", a, want)
		case !ok:
			unnamed++
		case len(want) > 0 && !slices.Contains(want, base):
			t.Errorf("%#x: %s, want one of %v", a, got.Name, want)
		case len(want) == 0 && !unsizedBefore(syms, a):
			t.Errorf("%#x: %s, but nothing covers it", a, got.Name)
		default:
			named++
		}
		if t.Failed() {
			return
		}
	}
	return
}

// expected returns the names of those symbols with a size that cover a and start nearest to it.
func expected(syms []readelfSymbol, a uint64) []string {
	var out []string
	at := uint64(0)
	i, _ := slices.BinarySearchFunc(syms, a, func(s readelfSymbol, a uint64) int {
		if s.addr <= a {
			return -1
		}
		return 1
	})
	// No function is longer than this many others are away.
	for i--; i >= 0; i-- {
		s := syms[i]
		if s.addr < at || at == 0 && a-s.addr > 1<<22 {
			break
		}
		if a-s.addr < s.size {
			name, _, _ := strings.Cut(s.name, "@")
			out = append(out, name)
			at = s.addr
		}
	}
	return out
}

// unsizedBefore tells whether the nearest symbol before a has no size, so that it may go on up to a.
func unsizedBefore(syms []readelfSymbol, a uint64) bool {
	i, _ := slices.BinarySearchFunc(syms, a, func(s readelfSymbol, a uint64) int {
		if s.addr <= a {
			return -1
		}
		return 1
	})
	for at := i - 1; i > 0 && syms[i-1].addr == syms[at].addr; i-- {
		if syms[i-1].size == 0 {
			return true
		}
	}
	return false
}

func TestSystemFiles(t *testing.T) {
	unwindtest.Need(t, "readelf")
	var files []string
	for _, dir := range []string{"/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/aarch64-linux-gnu/lib"} {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Dir(path) == dir {
				files = append(files, path)
			}
			return nil
		})
	}
	checked, named, unnamed := 0, 0, 0
	limit := 60
	if testing.Short() {
		limit = 10
	}
	slices.Sort(files)
	for i := 0; i < len(files); i += max(1, len(files)/(2*limit)) {
		path := files[i]
		data, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := data.Stat()
		f, err := elffile.New(data, st.Size())
		if err == nil && st.Size() < 16<<20 {
			tab, err := Load(f, Options{})
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			n, u := checkAgainstReadelf(t, tab, readelfFunctions(t, path, tab.code))
			named, unnamed, checked = named+n, unnamed+u, checked+1
			if t.Failed() {
				t.Fatal(path)
			}
		}
		data.Close()
	}
	t.Logf("%d files, %d addresses named, %d without a name", checked, named, unnamed)
	if checked == 0 {
		t.Fatal("no ELF files on this machine")
	}
}
