package tape

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// errFormat: the text is not a tape.
var errFormat = errors.New("not a tape")

// Write writes the tape as text, a fact a line, in an order that Read relies on: rules before rows, tables before mappings.
func (t *Tape) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "about %s\narch %v\nmax %d\n", t.About, t.Arch, t.MaxFrames)
	fmt.Fprintf(b, "tp %#x\npc %#x\n", uint64(t.ThreadPointer), uint64(t.Registers.PC))
	for n, v := range t.Registers.Reg {
		if t.Registers.Known&(1<<n) != 0 {
			fmt.Fprintf(b, "reg %d %#x\n", n, v)
		}
	}
	var tables []*unwind.Table
	for _, m := range t.Mappings {
		if err := writeMapping(b, m, &tables); err != nil {
			return err
		}
	}
	for _, r := range t.Memory.Ranges() {
		for i := 0; i < len(r.Bytes); i += 32 {
			fmt.Fprintf(b, "mem %#x %x\n", uint64(r.Addr)+uint64(i), r.Bytes[i:min(i+32, len(r.Bytes))])
		}
	}
	for _, f := range t.Frames {
		fmt.Fprintf(b, "frame %#x %d %d %s\n", f.A, f.Runtime, f.Flags, f.Name)
	}
	fmt.Fprintf(b, "stop %v\n", t.Stop)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing a tape: %w", err)
	}
	return nil
}

func writeMapping(b *bufio.Writer, m Mapping, tables *[]*unwind.Table) error {
	table := "missing"
	switch i := slices.Index(*tables, m.Table); {
	case m.Table == nil && m.NoTable:
		table = "none"
	case m.Table != nil && i >= 0:
		table = strconv.Itoa(i)
	case m.Table != nil:
		table = strconv.Itoa(len(*tables))
		*tables = append(*tables, m.Table)
		writeTable(b, m.Table)
	}
	fmt.Fprintf(b, "map %#x %#x %#x %s %s\n", uint64(m.Start), uint64(m.End), m.Bias, table, m.Name)
	if m.Go == nil {
		return nil
	}
	text, err := json.Marshal(m.Go)
	if err != nil {
		return fmt.Errorf("writing a tape: %w", err)
	}
	fmt.Fprintf(b, "go %s\n", text)
	return nil
}

func writeTable(b *bufio.Writer, t *unwind.Table) {
	fmt.Fprintf(b, "table\n")
	for _, r := range t.Rules {
		fmt.Fprintf(b, "rule %d %d %d %d %d %d %d %d %d %d # %v\n",
			r.CFA, r.Reg, r.RA, r.FP, r.BX, r.RAOffset, r.FPOffset, r.BXOffset, r.Offset, r.Offset2, r)
	}
	for _, r := range t.Rows {
		fmt.Fprintf(b, "row %#x %d\n", uint64(r.Start), r.Rule)
	}
}

// reader is what Read has so far.
type reader struct {
	t      *Tape
	tables []*unwind.Table
}

// Read reads what Write wrote.
func Read(r io.Reader) (*Tape, error) {
	in := reader{t: &Tape{Stop: unwind.StopReasons}}
	lines := 0
	for s := bufio.NewScanner(r); ; {
		if !s.Scan() {
			if err := s.Err(); err != nil {
				return nil, fmt.Errorf("reading a tape: %w", err)
			}
			break
		}
		lines++
		what, rest, _ := strings.Cut(s.Text(), " ")
		if err := in.line(what, rest); err != nil {
			return nil, fmt.Errorf("reading line %d of a tape: %w", lines, err)
		}
	}
	if in.t.Arch == unwind.ArchNone || in.t.Stop == unwind.StopReasons {
		return nil, fmt.Errorf("reading a tape: %w", errFormat)
	}
	return in.t, nil
}

// scan reads numbers and words; behind them there may be a comment.
func scan(text string, into ...any) error {
	if n, err := fmt.Sscan(text, into...); n < len(into) {
		return fmt.Errorf("%w: %q: %w", errFormat, text, err)
	}
	return nil
}

func (in *reader) line(what, rest string) error {
	t := in.t
	switch what {
	case "about":
		t.About = rest
	case "arch":
		for _, a := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
			if a.String() == rest {
				t.Arch = a
			}
		}
	case "max":
		return scan(rest, &t.MaxFrames)
	case "tp":
		return scan(rest, &t.ThreadPointer)
	case "pc":
		return scan(rest, &t.Registers.PC)
	case "reg":
		return in.register(rest)
	case "table":
		in.tables = append(in.tables, &unwind.Table{})
	case "rule", "row":
		return in.tableLine(what, rest)
	case "map":
		return in.mapping(rest)
	case "go":
		if len(t.Mappings) == 0 {
			return errFormat
		}
		if err := json.Unmarshal([]byte(rest), &t.Mappings[len(t.Mappings)-1].Go); err != nil {
			return fmt.Errorf("%w: %w", errFormat, err)
		}
	case "mem":
		return in.memory(rest)
	case "frame":
		var f Frame
		if err := scan(rest, &f.A, &f.Runtime, &f.Flags); err != nil {
			return err
		}
		if words := strings.SplitN(rest, " ", 4); len(words) == 4 {
			f.Name = words[3]
		}
		t.Frames = append(t.Frames, f)
	case "stop":
		for s := range unwind.StopReasons {
			if s.String() == rest {
				t.Stop = s
			}
		}
	default:
		return fmt.Errorf("%w: %q", errFormat, what)
	}
	return nil
}

func (in *reader) register(rest string) error {
	var n uint
	var v uint64
	if err := scan(rest, &n, &v); err != nil {
		return err
	}
	if n >= uint(len(in.t.Registers.Reg)) {
		return fmt.Errorf("%w: register %d", errFormat, n)
	}
	in.t.Registers.Reg[n] = v
	in.t.Registers.Known |= 1 << n
	return nil
}

func (in *reader) tableLine(what, rest string) error {
	if len(in.tables) == 0 {
		return fmt.Errorf("%w: %s outside a table", errFormat, what)
	}
	t := in.tables[len(in.tables)-1]
	if what == "rule" {
		var r unwind.Rule
		t.Rules = append(t.Rules, r)
		p := &t.Rules[len(t.Rules)-1]
		return scan(rest, &p.CFA, &p.Reg, &p.RA, &p.FP, &p.BX, &p.RAOffset, &p.FPOffset, &p.BXOffset, &p.Offset, &p.Offset2)
	}
	var r unwind.Row
	if err := scan(rest, &r.Start, &r.Rule); err != nil {
		return err
	}
	if int(r.Rule) >= len(t.Rules) {
		return fmt.Errorf("%w: rule %d", errFormat, r.Rule)
	}
	t.Rows = append(t.Rows, r)
	return nil
}

func (in *reader) mapping(rest string) error {
	var m Mapping
	var table string
	if err := scan(rest, &m.Start, &m.End, &m.Bias, &table); err != nil {
		return err
	}
	if words := strings.SplitN(rest, " ", 5); len(words) == 5 {
		m.Name = words[4]
	}
	switch table {
	case "none":
		m.NoTable = true
	case "missing":
	default:
		i, err := strconv.Atoi(table)
		if err != nil || i < 0 || i >= len(in.tables) {
			return fmt.Errorf("%w: table %q", errFormat, table)
		}
		m.Table = in.tables[i]
	}
	in.t.Mappings = append(in.t.Mappings, m)
	return nil
}

func (in *reader) memory(rest string) error {
	var a unwind.Addr
	var text string
	if err := scan(rest, &a, &text); err != nil {
		return err
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	in.t.Memory.Add(a, b)
	return nil
}
