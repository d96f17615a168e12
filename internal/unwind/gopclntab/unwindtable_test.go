package gopclntab

import (
	"encoding/binary"
	"os/exec"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// rowsOf prints the rows of a function as "+offset rule".
func rowsOf(t *testing.T, tab *Table, u *unwind.Table, name string) (rows []unwind.Rule) {
	t.Helper()
	fn, ok := entryOf(t, tab, name)
	if !ok {
		t.Fatalf("no function %s", name)
	}
	start := tab.text + unwind.FileAddr(fn.entry)
	rows = append(rows, u.Lookup(start))
	for _, r := range u.Rows {
		if r.Start > start && r.Start < tab.text+unwind.FileAddr(fn.end) {
			rows = append(rows, u.Rules[r.Rule])
		}
	}
	return rows
}

func kinds(rules []unwind.Rule) (k []unwind.CFAKind) {
	for _, r := range rules {
		if len(k) == 0 || k[len(k)-1] != r.CFA {
			k = append(k, r.CFA)
		}
	}
	return k
}

// TestSwitches says what the functions that change stacks look like in both architectures' programs.
func TestSwitches(t *testing.T) {
	const (
		reg, root, goSwitch = unwind.CFAReg, unwind.CFARoot, unwind.CFAGoSwitch
	)
	for arch, want := range map[string]map[string][]unwind.CFAKind{
		"amd64": {
			"runtime.goexit": {root}, "runtime.mstart": {root}, "runtime.rt0_go": {root}, "_rt0_amd64_linux": {root},
			"gogo": {reg, root}, "runtime.mcall": {reg, root}, "runtime.morestack": {reg, goSwitch},
			"runtime.sigreturn__sigaction": {unwind.CFASignal}, "runtime.sigtramp": {reg},
		},
		"arm64": {
			"runtime.goexit": {root}, "runtime.mstart": {root}, "runtime.rt0_go": {root}, "_rt0_arm64_linux": {root},
			"gogo": {reg, root}, "runtime.mcall": {reg, root}, "runtime.morestack": {reg, goSwitch},
			"runtime.sigtramp": {reg},
		},
	} {
		t.Run(arch, func(t *testing.T) {
			tab := open(t, build{name: "plain", dir: "prog", arch: arch}.run(t))
			u, err := tab.UnwindTable()
			if err != nil {
				t.Fatal(err)
			}
			for name, kind := range want {
				if got := kinds(rowsOf(t, tab, u, name)); !slices.Equal(got, kind) {
					t.Errorf("%s: %v, want %v", name, rowsOf(t, tab, u, name), kind)
				}
			}
			for _, name := range []string{"runtime.systemstack", "runtime.nanotime1"} {
				n := 0
				for _, r := range rowsOf(t, tab, u, name) {
					if r.CFA == reg && r.Offset2 == int16(unwind.CFANoteOtherStack) {
						n++
					}
				}
				if n == 0 {
					t.Errorf("%s: %v never looks on the other stack", name, rowsOf(t, tab, u, name))
				}
			}
			for _, r := range rowsOf(t, tab, u, "runtime.asyncPreempt") {
				if r.CFA == reg && r.Offset2 != int16(unwind.CFANoteInterrupted) {
					t.Errorf("runtime.asyncPreempt: %v is a plain call", r)
				}
			}
			if last := u.Rules[u.Rows[len(u.Rows)-1].Rule]; last.CFA != unwind.CFANone {
				t.Errorf("last rule %v", last)
			}
			checkTable(t, u)
		})
	}
}

// checkTable checks what unwind.Table promises.
func checkTable(t *testing.T, u *unwind.Table) {
	t.Helper()
	for i := 1; i < len(u.Rows); i++ {
		if u.Rows[i-1].Start >= u.Rows[i].Start {
			t.Fatalf("row %d at %#x is behind %#x", i, uint64(u.Rows[i].Start), uint64(u.Rows[i-1].Start))
		}
		if u.Rows[i-1].Rule == u.Rows[i].Rule {
			t.Fatalf("rows %d and %d have the same rule", i-1, i)
		}
	}
}

// TestSignalTrampoline: the kernel's return address is the trampoline's first byte.
func TestSignalTrampoline(t *testing.T) {
	tab := open(t, build{name: "plain", dir: "prog"}.run(t))
	u, err := tab.UnwindTable()
	if err != nil {
		t.Fatal(err)
	}
	fn, ok := entryOf(t, tab, "runtime.sigreturn__sigaction")
	if !ok {
		t.Fatal("no trampoline")
	}
	at := tab.text + unwind.FileAddr(fn.entry)
	for pc, want := range map[unwind.FileAddr]bool{at - 2: false, at - 1: true, at: true, at + 8: true} {
		if got := u.Lookup(pc).CFA == unwind.CFASignal; got != want {
			t.Errorf("%#x: %v", uint64(pc), u.Lookup(pc))
		}
	}
}

func code32(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// TestARM64Prologues reads the beginnings of functions as Go's assembler writes them (the words are from go tool
// objdump).
func TestARM64Prologues(t *testing.T) {
	for _, tt := range []struct {
		name  string
		code  []byte
		spans []span
		at    uint64
		delta int32
		want  string
	}{
		{"small", code32(0xf81e0ffe, 0xf81f83fd, 0xd10023fd, 0x94000000), []span{{0, 0}, {4, 32}}, 8, 32,
			"cfa=r31+32 ra=c-32 fp=c-40"},
		{"calls through a register", code32(0xf81e0ffe, 0xf81f83fd, 0xd10023fd, 0xd63f0100), []span{{0, 0}, {4, 32}}, 8, 32,
			"cfa=r31+32 ra=c-32 fp=c-40"},
		// internal/chacha8rand.block: ...; str w2, [sp]; that is where the prologue saved the link register
		{"calls nothing", code32(0xf81e0ffe, 0xf81f83fd, 0xd10023fd, 0xb90003e2), []span{{0, 0}, {4, 32}}, 16, 32,
			"cfa=r31+32 ra=r30 fp=c-40"},
		{"before", code32(0xf81e0ffe, 0xf81f83fd, 0xd10023fd), []span{{0, 0}, {4, 32}}, 0, 0, "cfa=r31+0 ra=r30"},
		// sub x20, sp, #0x150; stp x29, x30, [x20, #-8]; mov sp, x20
		{"large", code32(0xd10543f4, 0xa93ffa9d, 0x9100029f, 0xd10023fd, 0x94000000), []span{{0, 0}, {12, 336}}, 16, 336,
			"cfa=r31+336 ra=c-336 fp=c-344"},
		// str x30, [sp, #-16]!; ...; sub sp, sp, #16 as in asmcgocall_no_g
		{"lowered", code32(0xf81f0ffe, 0xf81f83fd, 0xd10023fd, 0xd10043ff, 0xd63f0100), []span{{0, 0}, {4, 16}, {16, 32}}, 20, 32,
			"cfa=r31+32 ra=c-16 fp=c-24"},
		// crosscall2: sub sp, sp, #192; stp x0, x1, [sp, #8]; stp x29, x30, [sp, #176]
		{"crosscall2", code32(0xd10303ff, 0xa90087e0, 0xa90b7bfd, 0x94000000), []span{{0, 0}, {4, 192}}, 12, 192,
			"cfa=r31+192 ra=c-8 fp=c-16"},
		{"crosscall2 early", code32(0xd10303ff, 0xa90087e0, 0xa90b7bfd, 0x94000000), []span{{0, 0}, {4, 192}}, 8, 192,
			"cfa=r31+192 ra=r30"},
		// a leaf that lowers the stack pointer and saves nothing
		{"leaf", code32(0xd10043ff, 0xd503201f), []span{{0, 0}, {4, 16}}, 4, 16, "cfa=r31+16 ra=r30"},
	} {
		a := arm64Func(tt.code, tt.spans)
		if got := a.rule(tt.at, tt.delta).String(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAMD64Prologues(t *testing.T) {
	for _, tt := range []struct {
		name  string
		code  []byte
		spans []span
		at    uint64
		delta int32
		want  string
	}{
		// push rbp; mov rbp, rsp; sub rsp, 16
		{"push", []byte{0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x90}, []span{{0, 0}, {1, 8}, {8, 24}}, 8, 24,
			"cfa=r7+32 ra=c-8 fp=c-16 bx=u"},
		// sub rsp, 24; mov [rsp+16], rbp; lea rbp, [rsp+16]
		{"sub", []byte{0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x48, 0x8d, 0x6c, 0x24, 0x10, 0x90},
			[]span{{0, 0}, {4, 24}}, 14, 24, "cfa=r7+32 ra=c-8 fp=c-16 bx=u"},
		// push rax: no frame pointer
		{"bare", []byte{0x50, 0x90, 0x90, 0x90, 0x90, 0x90}, []span{{0, 0}, {1, 8}}, 2, 8, "cfa=r7+16 ra=c-8 bx=u"},
		// sub rsp, 24; mov [rsp+8], rbp
		{"own save", []byte{0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x08, 0x90}, []span{{0, 0}, {4, 24}}, 9, 24,
			"cfa=r7+32 ra=c-8 fp=c-24 bx=u"},
	} {
		a := amd64Func(tt.code, tt.spans)
		if got := a.rule(tt.at, tt.delta).String(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestLargeFrame: what a rule cannot say is left out.
func TestLargeFrame(t *testing.T) {
	tab := &Table{arch: unwind.ArchARM64}
	for delta, want := range map[int32]string{
		262128: "cfa=r31+262128 ra=c-262128 fp=c-262136", 262136: "cfa=r31+262136 ra=c-262136 fp=c-262144", 262144: "none",
		0: "cfa=r31+0 ra=r30", noDelta: "none",
	} {
		if got := tab.frameRule(delta).String(); got != want {
			t.Errorf("%d: got %s, want %s", delta, got, want)
		}
	}
	tab.arch = unwind.ArchAMD64
	if got := tab.frameRule(1 << 20).String(); got != "cfa=r7+1048584 ra=c-8 fp=c-16 bx=u" {
		t.Error(got)
	}
}

func TestOverride(t *testing.T) {
	r := func(n int32) unwind.Rule { return unwind.Rule{CFA: unwind.CFAReg, Offset: n} }
	rows := []row{{0, r(1)}, {10, r(2)}, {20, r(3)}}
	got := override(rows, 30, 5, 15, r(9))
	if want := []row{{0, r(1)}, {5, r(9)}, {15, r(2)}, {20, r(3)}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = override(rows, 30, 10, 30, r(9))
	if want := []row{{0, r(1)}, {10, r(9)}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkUnwindTable(b *testing.B) {
	path, err := exec.LookPath("go")
	if err != nil {
		b.Fatal(err)
	}
	f := unwindtest.Open(b, path)
	b.ReportAllocs()
	for b.Loop() {
		u, err := find(b, f).UnwindTable()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(u.Rows)), "rows")
		b.ReportMetric(float64(len(u.Rules)), "rules")
	}
}
