package unwindtest

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Comparison is what readelf's reading of a section, row by row, and a table say.
type Comparison struct {
	Rows     int // of readelf, with a length
	None     int // of them, those that the table has no rule for, since there can be none
	Exprs    int // of them, those whose CFA is an expression, which readelf does not print
	Overlaps int // rows of functions that others overlap with: only one of them can be in the table
	Outside  int // rows of functions in no executable segment
	Differ   []string
	Differed int // how many differ, of which Differ has the first
}

// maxDiffer bounds what is said of one file.
const maxDiffer = 20

// Readelf compares a table with what readelf prints of a section of the file, ".eh_frame" or ".debug_frame", at both ends of
// every row. executable are the file's segments that hold code. An error is that readelf failed, or said what is not
// understood.
func Readelf(path, section string, arch unwind.Arch, executable []unwind.Segment, tab *unwind.Table) (*Comparison, error) {
	cmd := exec.Command("readelf", "-W", "-wNF", path)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := interpParser{section: section, arch: arch, tab: tab, known: map[string]*interpCells{}, ras: map[string]string{}}
	for _, s := range executable {
		p.segments = append(p.segments, [2]uint64{uint64(s.VAddr), uint64(s.VAddr) + s.MemSize})
	}
	sc := bufio.NewScanner(out)
	sc.Buffer(make([]byte, 1<<20), 1<<20)
	for sc.Scan() {
		p.line(bytes.TrimRight(sc.Bytes(), " "))
	}
	p.flush()
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading readelf's output on %s: %w", path, err)
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("readelf %s: %w: %s", path, err, stderr.Bytes())
	}
	if len(p.strange) > 0 {
		return nil, fmt.Errorf("readelf %s says what is not understood: %q", path, p.strange)
	}
	p.settle()
	return &p.Comparison, nil
}

// interpCells are the cells of rows that are the same but for their place, and how they compare with rules.
type interpCells struct {
	cells map[string]string
	rules map[unwind.Rule]error
}

type interpRow struct {
	loc   uint64
	cells *interpCells
}

// difference is a place where a row and the table do not agree; it counts only if one FDE alone is for it.
type difference struct {
	at   uint64
	text string
}

type interpParser struct {
	Comparison
	section  string
	arch     unwind.Arch
	tab      *unwind.Table
	segments [][2]uint64

	known   map[string]*interpCells // by column names, return address column and cells as they are printed
	ras     map[string]string       // of CIEs, by their offset
	key     []byte
	head    []byte // the part of the key that is the FDE's
	columns []string
	rows    []interpRow
	start   uint64
	end     uint64
	ra      string
	inFDE   bool
	wanted  bool
	extents [][2]uint64
	differ  []difference
	strange []string
}

// inRegister: readelf writes "r1 (rdx)" if the value is in that register.
var inRegister = regexp.MustCompile(`[rx][0-9]+ \(([a-z0-9]+)\)`)

// line takes a line of readelf's: the header of a section, a CIE or FDE, the names of columns, a row.
func (p *interpParser) line(line []byte) {
	switch {
	case len(line) == 0:
	case bytes.HasPrefix(line, []byte("Contents of the ")):
		p.flush()
		p.wanted = bytes.Contains(line, []byte(" "+p.section+" section")) || bytes.Contains(line, []byte(" .z"+p.section[1:]+" section"))
	case line[0] == ' ':
		p.columns = strings.Fields(string(line))
		if len(p.columns) < 2 || p.columns[0] != "LOC" {
			p.say(line)
		}
		p.head = append(append(append(p.head[:0], line...), '\n'), p.ra...)
	case bytes.HasSuffix(line, []byte(" ZERO terminator")):
	case bytes.HasSuffix(line, []byte("' has no debugging data.")):
		if bytes.Contains(line, []byte(p.section)) && len(p.tab.Rows) > 0 {
			p.say(line) // there is a table of nothing
		}
	case bytes.Contains(line, []byte(" CIE ")):
		p.flush()
		_, ra, ok := strings.Cut(string(line), " ra=")
		if p.ras[string(line[:bytes.IndexByte(line, ' ')])] = ra; !ok {
			p.say(line)
		}
		p.ra = ra
	case bytes.Contains(line, []byte(" FDE ")):
		p.flush()
		p.fde(line)
	default:
		p.row(line)
	}
}

func (p *interpParser) say(line []byte) {
	if len(p.strange) < maxDiffer {
		p.strange = append(p.strange, string(line))
	}
}

// fde: "00000018 0000000000000014 0000001c FDE cie=00000000 pc=0000000000001060..0000000000001086".
func (p *interpParser) fde(line []byte) {
	var cie string
	_, rest, _ := bytes.Cut(line, []byte(" FDE "))
	if _, err := fmt.Sscanf(string(rest), "cie=%s pc=%x..%x", &cie, &p.start, &p.end); err != nil {
		p.say(line)
		return
	}
	p.inFDE, p.ra = true, p.ras[cie]
	if p.wanted && p.end > p.start {
		p.extents = append(p.extents, [2]uint64{p.start, p.end})
	}
}

func (p *interpParser) row(line []byte) {
	n := bytes.IndexByte(line, ' ')
	if n < 0 {
		p.say(line)
		return
	}
	loc, err := strconv.ParseUint(string(line[:n]), 16, 64)
	if err != nil {
		p.say(line)
		return
	}
	if !p.wanted || !p.inFDE {
		return
	}
	p.key = append(append(append(p.key[:0], p.head...), '\n'), line[n:]...)
	c := p.known[string(p.key)]
	if c == nil {
		fields := strings.Fields(inRegister.ReplaceAllString(string(line), "$1"))
		if len(fields) != len(p.columns) {
			p.say(line)
			return
		}
		c = &interpCells{cells: map[string]string{"column": p.ra}, rules: map[unwind.Rule]error{}}
		for i, f := range fields[1:] {
			c.cells[p.columns[i+1]] = f
		}
		if len(p.known) > 1<<16 {
			clear(p.known)
		}
		p.known[string(p.key)] = c
	}
	p.rows = append(p.rows, interpRow{loc, c})
}

// flush compares the rows of an FDE.
func (p *interpParser) flush() {
	if p.inFDE && p.wanted {
		p.compare()
	}
	p.rows, p.inFDE = p.rows[:0], false
}

func (p *interpParser) compare() {
	outside := !slices.ContainsFunc(p.segments, func(s [2]uint64) bool { return p.start >= s[0] && p.start < s[1] })
	for i, r := range p.rows {
		next := p.end
		if i+1 < len(p.rows) {
			next = min(p.rows[i+1].loc, p.end)
		}
		if next <= r.loc {
			continue
		}
		if outside {
			p.Outside++
			continue
		}
		p.Rows++
		if r.cells.cells["CFA"] == "exp" {
			p.Exprs++
		}
		for _, at := range [2]uint64{r.loc, next - 1} {
			rule := p.tab.Lookup(unwind.FileAddr(at))
			if rule.CFA == unwind.CFANone && at == r.loc {
				p.None++
			}
			err, known := r.cells.rules[rule]
			if !known {
				err = compareRow(p.arch, r.cells.cells, rule)
				r.cells.rules[rule] = err
			}
			if err != nil {
				p.differ = append(p.differ, difference{at, fmt.Sprintf("%#x: %v: readelf %v, rule %v", at, err, r.cells.cells, rule)})
				break
			}
		}
		if len(p.differ) > 1<<20 {
			p.say([]byte("too many differences"))
			return
		}
	}
}

// settle sorts out what differs only because several FDEs are for the same address.
func (p *interpParser) settle() {
	if len(p.differ) == 0 {
		return
	}
	slices.SortFunc(p.extents, func(a, b [2]uint64) int {
		if a[0] < b[0] {
			return -1
		}
		if a[0] > b[0] {
			return 1
		}
		return 0
	})
	longest := make([]uint64, len(p.extents)) // the farthest end of those up to here
	for i, x := range p.extents {
		longest[i] = x[1]
		if i > 0 {
			longest[i] = max(longest[i], longest[i-1])
		}
	}
	for _, d := range p.differ {
		covering := 0
		i, _ := slices.BinarySearchFunc(p.extents, d.at, func(x [2]uint64, at uint64) int {
			if x[0] <= at {
				return -1
			}
			return 1
		})
		for i--; i >= 0 && covering < 2 && longest[i] > d.at; i-- {
			if p.extents[i][1] > d.at {
				covering++
			}
		}
		if covering > 1 {
			p.Overlaps++
			continue
		}
		if p.Differed++; p.Differed <= maxDiffer {
			p.Differ = append(p.Differ, d.text)
		}
	}
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
