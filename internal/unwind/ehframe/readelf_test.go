package ehframe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// systemBinaries are what every machine with a compiler has, as far as they exist.
func systemBinaries(t testing.TB) []string {
	var out []string
	for _, pattern := range []string{"/bin/bash", "/usr/bin/readelf", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libm.so.6",
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/lib/*-linux-gnu/ld-linux*", "/usr/lib/*-linux-gnu/libcrypto.so.3",
		"/usr/*-linux-gnu/lib/libc.so.6", "/usr/*-linux-gnu/lib/libstdc++.so.6", "/usr/*-linux-gnu/lib/ld-linux*"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m...)
	}
	if len(out) < 4 {
		t.Fatalf("only %v found", out)
	}
	return out
}

func TestAgainstReadelf(t *testing.T) {
	for _, path := range append(systemBinaries(t), buildSample(t)...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := unwindtest.Open(t, path)
			tab, st, err := EHFrame(f)
			if err != nil {
				t.Fatal(err)
			}
			checkTable(t, tab)
			n := compareWithReadelf(t, path, ".eh_frame", f.Arch, tab)
			t.Logf("%s %s: %d rows of readelf, %+v, %d rules", path, f.Arch, n, st, len(tab.Rules))
			if n < 20 || st.Malformed != 0 {
				t.Errorf("%d rows compared, %d malformed", n, st.Malformed)
			}
		})
	}
}

func TestDebugFrameAgainstReadelf(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.go")
	if err := os.WriteFile(src, []byte("package main\nimport \"fmt\"\nfunc main() { fmt.Println() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		out := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-o", out, src)
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, b)
		}
		f := unwindtest.Open(t, out)
		tab, st, err := DebugFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, tab)
		if n := compareWithReadelf(t, out, ".debug_frame", f.Arch, tab); n < 1000 || st.Malformed != 0 {
			t.Errorf("%d rows compared, %+v", n, st)
		}
	}
	dwarf := filepath.Join(dir, "dwarf")
	for _, version := range []string{"-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"} {
		gcc(t, "-O2", version, "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-o", dwarf,
			"../../../testdata/elf/src/sample.c")
		f := unwindtest.Open(t, dwarf)
		tab, st, err := DebugFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, tab)
		if n := compareWithReadelf(t, dwarf, ".debug_frame", f.Arch, tab); n < 5 || st.Malformed != 0 {
			t.Errorf("%s: %d rows compared, %+v", version, n, st)
		}
	}
}

func gcc(t testing.TB, args ...string) {
	t.Helper()
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, b)
	}
}

// buildSample compiles a program that has every kind of frame.
func buildSample(t testing.TB) []string {
	out := filepath.Join(t.TempDir(), "sample")
	gcc(t, "-O2", "-o", out, "../../../testdata/elf/src/sample.c")
	return []string{out}
}

// checkTable checks what Table promises.
func checkTable(t testing.TB, tab *unwind.Table) {
	t.Helper()
	rules := map[unwind.Rule]bool{}
	for _, r := range tab.Rules {
		if rules[r] {
			t.Errorf("rule %v twice", r)
		}
		rules[r] = true
	}
	for i, r := range tab.Rows {
		if int(r.Rule) >= len(tab.Rules) {
			t.Fatalf("row %d: rule %d of %d", i, r.Rule, len(tab.Rules))
		}
		if i > 0 && (r.Start <= tab.Rows[i-1].Start || r.Rule == tab.Rows[i-1].Rule) {
			t.Fatalf("rows %d: %+v after %+v", i, r, tab.Rows[i-1])
		}
	}
	if n := len(tab.Rows); n > 0 && tab.Rules[tab.Rows[n-1].Rule] != (unwind.Rule{}) {
		t.Errorf("the last row is %v", tab.Rules[tab.Rows[n-1].Rule])
	}
}

var (
	cieLine = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ CIE .* ra=([0-9]+)$`)
	// "r1 (rdx)": the value is in that register.
	inRegister = regexp.MustCompile(`[rx][0-9]+ \(([a-z0-9]+)\)`)
	fdeLine    = regexp.MustCompile(`^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=([0-9a-f]+) pc=[0-9a-f]+\.\.([0-9a-f]+)$`)
)

// interpRow is a row of readelf's table: its cells by column.
type interpRow struct {
	loc   uint64
	cells map[string]string
}

// compareWithReadelf checks every row that readelf prints and returns how many there were.
func compareWithReadelf(t *testing.T, path, section string, arch unwind.Arch, tab *unwind.Table) (n int) {
	cmd := exec.Command("readelf", "-W", "-wNF", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	check := func(rows []interpRow, end uint64) {
		for i, r := range rows {
			next := end
			if i+1 < len(rows) {
				next = rows[i+1].loc
			}
			if next <= r.loc {
				continue
			}
			n++
			for _, at := range []uint64{r.loc, next - 1} {
				rule := tab.Lookup(unwind.FileAddr(at))
				if err := compareRow(arch, r.cells, rule); err != nil {
					t.Errorf("%#x: %v: readelf %v, rule %v", at, err, r.cells, rule)
				}
			}
		}
		if len(rows) > 0 {
			if before := tab.Lookup(unwind.FileAddr(end - 1)); before == (unwind.Rule{}) {
				t.Logf("%#x: not expressed: %v", end-1, rows[len(rows)-1].cells)
			}
		}
	}
	parseInterp(t, out, section, check)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return n
}

// parseInterp calls check with each FDE's rows and end.
func parseInterp(t *testing.T, out io.Reader, section string, check func([]interpRow, uint64)) {
	var p interpParser
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		line := strings.TrimRight(sc.Text(), " ")
		if strings.HasPrefix(line, "Contents of the ") {
			p.flush(check)
			p.wanted = strings.Contains(line, " "+section+" section") || strings.Contains(line, " .z"+section[1:]+" section")
			continue
		}
		if m := cieLine.FindStringSubmatch(line); m != nil {
			p.flush(check)
			p.raColumns = append(p.raColumns, [2]string{m[1], m[2]})
		} else if m := fdeLine.FindStringSubmatch(line); m != nil {
			p.flush(check)
			p.inFDE = true
			p.end, _ = strconv.ParseUint(m[2], 16, 64)
			for _, c := range p.raColumns {
				if c[0] == m[1] {
					p.ra = c[1]
				}
			}
		} else {
			p.line(strings.Fields(inRegister.ReplaceAllString(line, "$1")))
		}
	}
	p.flush(check)
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

type interpParser struct {
	rows          []interpRow
	columns       []string
	raColumns     [][2]string // CIE, its return address column
	ra            string
	end           uint64
	inFDE, wanted bool
}

func (p *interpParser) flush(check func([]interpRow, uint64)) {
	if p.inFDE && p.wanted {
		check(p.rows, p.end)
	}
	p.rows, p.columns, p.inFDE = nil, nil, false
}

func (p *interpParser) line(fields []string) {
	if len(fields) == 0 || len(fields) > 1 && fields[1] == "ZERO" { // terminator
		return
	}
	if fields[0] == "LOC" {
		p.columns = fields
		return
	}
	loc, err := strconv.ParseUint(fields[0], 16, 64)
	if err != nil || len(fields) != len(p.columns) {
		return
	}
	r := interpRow{loc, map[string]string{"column": p.ra}}
	for i, f := range fields[1:] {
		r.cells[p.columns[i+1]] = f
	}
	p.rows = append(p.rows, r)
}

var amd64Names = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"}

func regName(arch unwind.Arch, n int) string {
	switch {
	case arch == unwind.ArchAMD64 && n < len(amd64Names):
		return amd64Names[n]
	case arch == unwind.ArchAMD64:
		return fmt.Sprintf("r%d", n)
	case n == unwind.ARM64SP:
		return "sp"
	}
	return fmt.Sprintf("x%d", n)
}

// compareRow checks a rule against the cells of one row.
func compareRow(arch unwind.Arch, cells map[string]string, r unwind.Rule) error {
	ra := cells["ra"]
	switch r.CFA {
	case unwind.CFARoot:
		if ra != "u" {
			return fmt.Errorf("root")
		}
		return nil
	case unwind.CFASignal:
		if arch == unwind.ArchAMD64 && (ra != "exp" || cells["CFA"] != "exp") {
			return fmt.Errorf("signal")
		}
		return nil
	case unwind.CFANone:
		var off int64
		if _, err := fmt.Sscanf(ra, "c%d", &off); err == nil && off/8 != int64(int16(off/8)) {
			return nil // Go has some frames of 256 KiB and more
		}
		if cells["CFA"] != "exp" && cells["rsp"] == "" {
			return fmt.Errorf("none")
		}
		return nil
	case unwind.CFAMem, unwind.CFAPLT:
		if cells["CFA"] != "exp" {
			return fmt.Errorf("CFA")
		}
	case unwind.CFAReg:
		if want := fmt.Sprintf("%s%+d", regName(arch, int(r.Reg)), r.Offset); cells["CFA"] != want && cells["CFA"] != "exp" {
			return fmt.Errorf("CFA")
		}
	default:
		return fmt.Errorf("unexpected kind")
	}
	want := fmt.Sprintf("c%+d", 8*int(r.RAOffset))
	if r.RA == unwind.RAReg {
		want = regName(arch, int(r.RAOffset))
	}
	// readelf prints "u" also where nothing was said yet, which on arm64 means the link register.
	inLR := arch == unwind.ArchARM64 && want == "x"+cells["column"] && slices.Contains([]string{"u", "s", ""}, ra)
	if ra != want && !inLR {
		return fmt.Errorf("ra")
	}
	fp, bx := cells["rbp"], cells["rbx"]
	if arch == unwind.ArchARM64 {
		fp, bx = cells["x29"], ""
	}
	if err := compareSaved(fp, r.FP, r.FPOffset); err != nil {
		return fmt.Errorf("fp: %w", err)
	}
	if err := compareSaved(bx, r.BX, r.BXOffset); err != nil {
		return fmt.Errorf("bx: %w", err)
	}
	return nil
}

func compareSaved(cell string, k unwind.SaveKind, off int16) error {
	ok := false
	switch {
	case cell == "" || cell == "s":
		ok = k == unwind.SaveSame
	case cell == "u":
		ok = k == unwind.SaveSame || k == unwind.SaveUndefined
	case cell == "exp":
		ok = k == unwind.SaveAtFP || k == unwind.SaveUndefined
	case cell[0] == 'c':
		ok = k == unwind.SaveAtCFA && cell == fmt.Sprintf("c%+d", 8*int(off))
	default:
		ok = k == unwind.SaveUndefined
	}
	if !ok {
		return fmt.Errorf("%q is not %d%+d", cell, k, off)
	}
	return nil
}
