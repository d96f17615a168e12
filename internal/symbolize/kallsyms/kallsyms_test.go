package kallsyms

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

const sample = `0000000000001000 A percpu_thing
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t local_function
ffffffff81000180 W weak_alias
ffffffff81000180 T __weak_alias
ffffffff810001f0 T __entry_text_end
ffffffff81104104 T after_gap
ffffffff81104200 T __kprobes_text_end
ffffffff81104200 T __kprobes_text_start
ffffffff81104200 T real_function
ffffffff81104300 T _etext
ffffffff81200000 D __start_rodata
ffffffff81200010 D other_data
ffffffff83000000 T _sinittext
ffffffff83000000 B __init_begin
ffffffff83000000 t first_init
ffffffff83000100 T _einittext
`

const tail = `ffffffffc0400080 t second_fn	[one]
ffffffffc0400000 t first_fn	[one]
ffffffffc0400040 t $x	[one]
ffffffffc0400048 t .L12	[one]
ffffffffc0400200 d some_data	[one]
ffffffffc0400100 T third_fn	[one]
ffffffffc0480000 t two_fn	[two]
ffffffffc0201000 t ftrace_trampoline	[__builtin__ftrace]
ffffffffc0300000 t bpf_prog_6deef7357e7b4530_sd_fw_egress	[bpf]
ffffffffc0300100 t bpf_prog_0123456789abcdef	[bpf]
`

const moduleList = `one 16384 1 two, Live 0xffffffffc0400000
two 8192 0 - Live 0xffffffffc0480000 (OE)
`

func parse(t testing.TB, text, modules string) *Table {
	t.Helper()
	var m io.Reader
	if modules != "" {
		m = strings.NewReader(modules)
	}
	tab, err := Parse(strings.NewReader(text), m)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

type lookup struct {
	addr uint64
	want Symbol // no name: none
}

func check(t *testing.T, tab *Table, lookups []lookup) {
	t.Helper()
	for _, l := range lookups {
		got, ok := tab.Lookup(l.addr)
		if got != l.want || ok != (l.want.Name != "") {
			t.Errorf("%#x: %+v, %v, want %+v", l.addr, got, ok, l.want)
		}
	}
}

func TestCore(t *testing.T) {
	check(t, parse(t, sample, ""), []lookup{
		{0x1000, Symbol{}},
		{0xffffffff80ffffff, Symbol{}},
		{0xffffffff81000000, Symbol{Name: "srso_alias_untrain_ret"}},
		{0xffffffff810000ff, Symbol{Name: "srso_alias_untrain_ret", Offset: 0xff}},
		{0xffffffff81000100, Symbol{Name: "local_function"}},
		{0xffffffff81000180, Symbol{Name: "weak_alias"}},
		{0xffffffff810001ef, Symbol{Name: "weak_alias", Offset: 0x6f}},
		{0xffffffff810001f0, Symbol{}},
		{0xffffffff81104103, Symbol{}},
		{0xffffffff81104200, Symbol{Name: "real_function"}},
		{0xffffffff81104300, Symbol{}},
		{0xffffffff81200000, Symbol{}},
		{0xffffffff83000000, Symbol{Name: "first_init"}},
		{0xffffffff83000100, Symbol{}},
		{0xffffffffffffffff, Symbol{}},
	})
}

func TestModules(t *testing.T) {
	for _, modules := range []string{"", moduleList} {
		last, two := uint64(maxGap), uint64(maxGap)
		if modules != "" {
			two = uint64(os.Getpagesize())
		}
		check(t, parse(t, sample+tail, modules), []lookup{
			{0xffffffff81000100, Symbol{Name: "local_function"}},
			{0xffffffffc0400000, Symbol{Name: "first_fn", Module: "one"}},
			{0xffffffffc040004c, Symbol{Name: "first_fn", Module: "one", Offset: 0x4c}},
			{0xffffffffc04000ff, Symbol{Name: "second_fn", Module: "one", Offset: 0x7f}},
			{0xffffffffc04001ff, Symbol{Name: "third_fn", Module: "one", Offset: 0xff}},
			{0xffffffffc0400200, Symbol{}},
			{0xffffffffc0480000 + two - 1, Symbol{Name: "two_fn", Module: "two", Offset: two - 1}},
			{0xffffffffc0480000 + two, Symbol{}},
			{0xffffffffc0201000, Symbol{Name: "ftrace_trampoline", Module: "__builtin__ftrace"}},
			{0xffffffffc0201000 + last, Symbol{}},
			{0xffffffffc0300010, Symbol{Name: "bpf_prog_6deef7357e7b4530_sd_fw_egress", Module: "bpf", Offset: 0x10}},
			{0xffffffffc0300100, Symbol{Name: "bpf_prog_0123456789abcdef", Module: "bpf"}},
			{0xffffffffc0300100 + last, Symbol{}},
		})
	}
}

// TestNextModule: a table from before a module was loaded knows nothing of what lies behind the page of the last function, though the size
// that the kernel tells of the other module (that of its data, too) reaches there.
func TestNextModule(t *testing.T) {
	page := uint64(os.Getpagesize())
	at := func(pages uint64) uint64 { return 0xffffffffc0400000 + pages*page }
	for _, data := range []uint64{1, 8} { // where the module has its data
		text := sample + fmt.Sprintf("%x t one_exit\t[one]\n%x d one_data\t[one]\n", at(0)+0x20, at(data))
		modules := fmt.Sprintf("one %d 1 - Live %#x\n", 20*page, at(0))
		check(t, parse(t, text, modules), []lookup{
			{at(1) - 1, Symbol{Name: "one_exit", Module: "one", Offset: page - 0x21}},
			{at(1), Symbol{}},
			{at(2) + 0x90, Symbol{}},
		})
	}
}

func TestReload(t *testing.T) {
	tab := parse(t, sample+tail, moduleList)
	const newTail = "ffffffffc0500000 t new_fn\t[new]\n"
	n, err := tab.Reload(iotest.HalfReader(strings.NewReader(sample+newTail)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n.core != tab.core {
		t.Error("the kernel's own symbols were parsed again")
	}
	check(t, n, []lookup{
		{0xffffffff81000100, Symbol{Name: "local_function"}},
		{0xffffffffc0400000, Symbol{}},
		{0xffffffffc0500000, Symbol{Name: "new_fn", Module: "new"}},
	})
	check(t, tab, []lookup{{0xffffffffc0400000, Symbol{Name: "first_fn", Module: "one"}}})
	other := strings.Replace(sample, "local", "lokal", 1)
	for _, text := range []string{other, sample[:100], ""} {
		if _, err := tab.Reload(strings.NewReader(text), nil); !errors.Is(err, ErrChanged) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestErrors(t *testing.T) {
	hidden := "0000000000000000 T _text\n0000000000000000 t f\t[m]\n"
	failing := errors.New("broken")
	for _, c := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"hidden", strings.NewReader(hidden), ErrHidden},
		{"empty", strings.NewReader(""), ErrMalformed},
		{"no name", strings.NewReader("ffffffff81000000 T \n"), ErrMalformed},
		{"no address", strings.NewReader(" T f\n"), ErrMalformed},
		{"long address", strings.NewReader("fffffffff81000000 T f\n"), ErrMalformed},
		{"binary", strings.NewReader("\x7fELF\x00\x00\x00\x00\x00\x00\n"), ErrMalformed},
		{"bad module", strings.NewReader("ffffffff81000000 T f\tmod\n"), ErrMalformed},
		{"long line", strings.NewReader("ffffffff81000000 T " + strings.Repeat("f", bufferSize)), ErrMalformed},
		{"reader", io.MultiReader(strings.NewReader(sample), iotest.ErrReader(failing)), failing},
		{"stuck", stuck{}, io.ErrNoProgress},
	} {
		if _, err := Parse(c.r, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Parse(strings.NewReader(sample), strings.NewReader("what is this\n")); !errors.Is(err, ErrMalformed) {
		t.Errorf("modules: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestLive compares with the kernel's own text, read in the plainest way.
func TestLive(t *testing.T) {
	text, err := os.ReadFile("/proc/kallsyms")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skipf("not supported: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	tab, err := Parse(bytes.NewReader(text), nil)
	if errors.Is(err, ErrHidden) {
		t.Skipf("not supported: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := map[uint64][]string{}
	sc := bufio.NewScanner(bytes.NewReader(text))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("tTwW", f[1]) {
			at[addr] = append(at[addr], f[2])
		}
	}
	named := 0
	for addr, names := range at {
		got, ok := tab.Lookup(addr)
		if !ok {
			for _, n := range names {
				if kindOf([]byte(n)) == function && !local([]byte(n)) {
					t.Errorf("%#x: no name, want one of %v", addr, names)
				}
			}
			continue
		}
		named++
		if got.Offset != 0 || !strings.Contains(" "+strings.Join(names, " ")+" ", " "+got.Name+" ") {
			t.Errorf("%#x: %+v, want one of %v", addr, got, names)
		}
	}
	t.Logf("%d of %d addresses named, %d bytes", named, len(at), tab.Bytes())
	if tab.Bytes() > 12<<20 {
		t.Errorf("%d bytes", tab.Bytes())
	}
}

func TestBuildID(t *testing.T) {
	note := "\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\xde\xad\xbe\xef"
	other := "\x06\x00\x00\x00\x01\x00\x00\x00\x01\x01\x00\x00Linux\x00\x00\x00\x00\x00\x00\x00"
	for in, want := range map[string]string{
		note: "deadbeef", other + note: "deadbeef", other: "", "": "", note[:18]: "",
		"\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00": "",
	} {
		if got := BuildID([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if live, err := os.ReadFile("/sys/kernel/notes"); err == nil && len(BuildID(live)) < 16 {
		t.Errorf("no build id in /sys/kernel/notes: %q", BuildID(live))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample+tail), []byte(moduleList))
	f.Add([]byte("0 T a\n"), []byte(""))
	f.Add([]byte("ffffffffffffffff T a\n1 T b"), []byte("m 1 0 - Live 0x1\n"))
	f.Fuzz(func(t *testing.T, text, modules []byte) {
		tab, err := Parse(bytes.NewReader(text), bytes.NewReader(modules))
		if err != nil {
			return
		}
		for _, p := range []*part{tab.core, tab.tail} {
			for i, e := range p.entries {
				s, ok := tab.Lookup(e.addr)
				if i > 0 && p.entries[i-1].addr >= e.addr {
					t.Fatalf("%#x behind %#x", e.addr, p.entries[i-1].addr)
				}
				if e.size == 0 || !ok || s.Name == "" {
					t.Fatalf("%#x: %+v, %v", e.addr, s, ok)
				}
			}
		}
		if _, err := tab.Reload(bytes.NewReader(text), bytes.NewReader(modules)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzBuildID(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\xde\xad\xbe\xef"))
	f.Fuzz(func(t *testing.T, b []byte) { BuildID(b) })
}

// large is as many symbols as a distribution's kernel has.
func large() []byte {
	var b bytes.Buffer
	addr := uint64(0xffffffff81000000)
	for i := 0; i < 200_000; i++ {
		if i == 170_000 {
			addr = 0xffffffffc0000000
		}
		owner := ""
		if i >= 170_000 {
			owner = fmt.Sprintf("\t[module_%d]", i/500)
		}
		fmt.Fprintf(&b, "%016x t some_subsystem_function_%d%s\n", addr, i, owner)
		addr += 64
	}
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	text := large()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tab, err := Parse(bytes.NewReader(text), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(tab.Bytes()), "held-B")
	}
}

func BenchmarkReload(b *testing.B) {
	text := large()
	tab := parse(b, string(text), "")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tab.Reload(bytes.NewReader(text), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLive(b *testing.B) {
	for b.Loop() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			b.Fatal(err)
		}
		_, err = Parse(f, nil)
		f.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	tab := parse(b, string(large()), "")
	b.ReportAllocs()
	for b.Loop() {
		tab.Lookup(0xffffffff81345678)
	}
}

// TestModulesOfTable tells modules apart by what they are made of.
func TestModulesOfTable(t *testing.T) {
	tab := parse(t, sample+tail, moduleList)
	if begin, end := tab.Text(); begin != 0xffffffff81000000 || end != 0xffffffff81104300 {
		t.Errorf("the kernel's code is at %#x to %#x", begin, end)
	}
	var got []string
	for name, addr := range tab.Symbols("one") {
		got = append(got, fmt.Sprintf("%x %s", addr, name))
	}
	if want := "ffffffffc0400000 first_fn,ffffffffc0400080 second_fn,ffffffffc0400100 third_fn"; strings.Join(got, ",") != want {
		t.Errorf("one has %q", got)
	}
	n := 0
	for name, addr := range tab.Symbols("") {
		if s, ok := tab.Lookup(addr); !ok || s.Name != name || s.Module != "" {
			t.Errorf("%#x: %+v, want %s", addr, s, name)
		}
		n++
		break
	}
	if n != 1 {
		t.Error("the kernel has no symbols")
	}
	sums := func(tab *Table) (all []uint64) {
		for _, m := range []string{"", "one", "two", "bpf", "three"} {
			all = append(all, tab.Sum(m))
		}
		return all
	}
	first := sums(tab)
	for _, c := range []struct {
		from, to string
		differ   int
	}{
		{"", "", -1},
		{"ffffffffc0480000 t two_fn", "ffffffffc0480040 t two_fn", 2},
		{"first_fn", "other_fn", 1},
		{"ffffffffc0300100 t bpf_prog_0123456789abcdef\t[bpf]\n", "", 3},
		{"_einittext", "_einittexu", 0},
	} {
		second := sums(parse(t, strings.ReplaceAll(sample+tail, c.from, c.to), moduleList))
		for i := range first {
			if (first[i] != second[i]) != (i == c.differ) {
				t.Errorf("%q for %q: sum %d is %x, was %x", c.to, c.from, i, second[i], first[i])
			}
		}
	}
	if first[4] != 0 || first[0] == 0 || first[1] == first[2] {
		t.Errorf("sums %x", first)
	}
}

// TestSizes knows where BPF programs end, and nothing of what was behind them.
func TestSizes(t *testing.T) {
	tab := parse(t, sample+tail, moduleList)
	sized := tab.WithSizes(map[uint64]uint32{0xffffffffc0300000: 0x80, 0xffffffffc0300100: 0x10000000, 0xffffffff81000100: 1})
	for _, c := range []struct {
		addr uint64
		want bool
	}{
		{0xffffffffc0300000, true}, {0xffffffffc030007f, true}, {0xffffffffc0300080, false}, {0xffffffffc03000ff, false},
		{0xffffffffc0300100, true}, {0xffffffffc0301000, true}, {0xffffffff81000101, true},
	} {
		if _, ok := sized.Lookup(c.addr); ok != c.want {
			t.Errorf("%#x: %v", c.addr, ok)
		}
		if _, ok := tab.Lookup(c.addr); !ok {
			t.Errorf("%#x: the table before has changed", c.addr)
		}
	}
	if tab.WithSizes(nil) != tab || sized.Sum("bpf") != tab.Sum("bpf") {
		t.Error("sizes make another table of it")
	}
}
