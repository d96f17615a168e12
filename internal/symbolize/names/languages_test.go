package names

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// TestLanguages has names that compilers made: LDC 1.30, GDC 12, OCaml 4.13 and 5.3, GHC 9.0, GNAT 12, GNU Fortran 12, Flang 16,
// Free Pascal 3.2, Nim 1.6, Crystal 1.6; and names of others that look like them.
func TestLanguages(t *testing.T) {
	for _, c := range []struct {
		by   Compilers
		in   string
		want string
	}{
		{0, "_Dmain", "D main"},
		{0, "_D8threeway8hotSixtyFmZm", "threeway.hotSixty(ulong)"},
		{0, "_D8threeway6roundsFCQs6BurnermZm", "threeway.rounds(threeway.Burner, ulong)"},
		{0, "_D8threeway__T5LevelTdVii2ZQn3runMFmZm", "threeway.Level!(double, 2).Level.run(ulong)"},
		{0, "_DThn16_8threeway6Thirty4burnMFAxamZm", "thunk to threeway.Thirty.burn(const(char)[], ulong)"},
		{0, "_DTi16_D8threeway6Thirty4burnMFAxamZm", "thunk to threeway.Thirty.burn(const(char)[], ulong)"},
		{0, "_D8threeway3tenFmZ9__lambda3MFmZm", "threeway.ten(ulong).__lambda3(ulong)"},
		{0, "_D8threeway7throughFMDFmZmmZm", "threeway.through(scope ulong delegate(ulong), ulong)"},
		{0, "_D3std5stdio4File6__ctorMFNcNfAyaMAxaZSQBlQBkQBh", "std.stdio.File.this(immutable(char)[], scope const(char)[])"},
		{0, "_Document", "_Document"},
		{0, "_D8threeway", "_D8threeway"},

		{0, "$s3out8hotSixtyys6UInt64VADF", "out.hotSixty"},
		{0, "$s3out6ThirtyC4burnys6UInt64VAFF", "out.Thirty.burn"},
		{0, "$s3out6ThirtyC4burnys6UInt64VAFFA2FXEfU_", "closure #1 in out.Thirty.burn"},
		{0, "$s3out7NothingV4burnys6UInt64VAFFTf4nd_n", "out.Nothing.burn [specialized]"},
		{0, "$s3out7throughyxx_xxXEts17FixedWidthIntegerRzlFs6UInt64V_Tg5022$s3out6ThirtyC4burnys6F12VAFFA2FXEfU_AA0H0CTf1nc_nTf4ng_n",
			"out.through [specialized]"},
		{0, "$s3out3OddV3whyACs6UInt64V_tcfC", "out.Odd.init"},
		{0, "$s3out3OddV3whys6UInt64VvM.resume.0", "out.Odd.why.modify [resumed]"},
		{0, "$s3out3OddV3whys6UInt64Vvg", "out.Odd.why.getter"},
		{0, "$s3out3OddVMa", "type metadata accessor for out.Odd"},
		{0, "$s3out8ThreewayV4mainyyFZ", "out.Threeway.main"},
		{0, "$sSTsE7flatMapySayqd__Gqd__Sg7ElementQzKXEKlF", "Swift.Sequence.flatMap"},
		{0, "$sSFsE1goiySbx_xtFZ", "Swift.FloatingPoint.>"},
		{0, "$sSM6swapAtyy5IndexQz_ACtFTj", "dispatch thunk of Swift.MutableCollection.swapAt"},
		{0, "$s10Foundation10FileHandleC17_immediatelyClose33_2DF8E09821905D55FA342549A73ACFB7LL7closeFdySb_tKF",
			"Foundation.FileHandle._immediatelyClose"},
		{0, "$s20FoundationEssentials11FileManagerC0A0E19DirectoryEnumeratorCMa",
			"type metadata accessor for FoundationEssentials.FileManager.DirectoryEnumerator"},
		{0, "$s3out6ThirtyCAA6BurnerA2aDP4burnys6UInt64VAHFTW", "$s3out6ThirtyCAA6BurnerA2aDP4burnys6UInt64VAHFTW"},
		{0, "$something", "$something"},
		{0, "$sizeof", "$sizeof"},

		{0, "camlThreeway__hot_sixty_81", "Threeway.hot_sixty"},
		{0, "camlThreeway__fun_649", "Threeway.fun_649"},
		{0, "camlThreeway__entry", "Threeway.entry"},
		{0, "camlStdlib__List__length_aux_84", "Stdlib.List.length_aux"},
		{0, "camlStdlib__$40_187", "Stdlib.@"},
		{0, "camlStdlib__Array.fold_left_478", "Stdlib.Array.fold_left"},
		{0, "camlFibers.fun_537", "Fibers.fun_537"},
		{0, "caml_alloc_shr", "caml_alloc_shr"},
		{0, "camlcase", "camlcase"},

		{0, "__burning_MOD_hot_sixty", "burning::hot_sixty"},
		{0, "__burning_MOD_hot_sixty.constprop.0", "burning::hot_sixty [clone .constprop.0]"},
		{0, "__MOD_x", "__MOD_x"},
		{0, "_QMburningPhot_sixty", "burning::hot_sixty"},
		{0, "_QMburningFthirty_1Pinner", "burning::thirty_1::inner"},
		{0, "_QQmain", "main program"},
		{0, "_QMessage", "_QMessage"},

		{0, "P$THREEWAY_$$_HOTSIXTY$QWORD$$QWORD", "THREEWAY.HOTSIXTY(QWORD): QWORD"},
		{0, "P$THREEWAY$_$TTHIRTY_$__$$_BURN$QWORD$$QWORD", "THREEWAY.TTHIRTY.BURN(QWORD): QWORD"},
		{0, "P$THREEWAY$_$TTHIRTY_$_BURN$QWORD$$QWORD_$$_INNER$QWORD$$QWORD", "THREEWAY.TTHIRTY.BURN.INNER(QWORD): QWORD"},
		{0, "P$THREEWAY$_$TLEVEL$1$CRC063876AD_$__$$_RUN$QWORD$$QWORD", "THREEWAY.TLEVEL.RUN(QWORD): QWORD"},
		{0, "P$THREEWAY_$$_ROUNDS$TLEVEL$1$CRC063876AD$TBURNER$QWORD$$QWORD", "THREEWAY.ROUNDS(TLEVEL, TBURNER, QWORD): QWORD"},
		{0, "SYSUTILS$_$EXCEPTION_$__$$_CREATE$ANSISTRING$$EXCEPTION", "SYSUTILS.EXCEPTION.CREATE(ANSISTRING): EXCEPTION"},

		{0, "*Thirty#burn<UInt64>:UInt64", "Thirty#burn<UInt64>:UInt64"},
		{0, "*Fiber@Object::current:Fiber", "Fiber@Object::current:Fiber"},
		{0, "~procProc(Nil)@src/kernel.cr:562", "~procProc(Nil)@src/kernel.cr:562"},

		{GHC, "Burning_zdwhotSixty_info", "Burning.$whotSixty"},
		{GHC, "base_GHCziBase_zpzp_info", "GHC.Base.++"},
		{GHC, "ghczmprim_GHCziTupleziPrim_Z3T_con_info", "GHC.Tuple.Prim.(,,)"},
		{GHC, "ghczmprim_GHCziTypes_ZC_con_info", "GHC.Types.:"},
		{GHC, "ZCMain_main_info", ":Main.main"},
		{GHC, "stg_upd_frame_info", "stg_upd_frame_info"},
		{GHC, "get_user_info", "get_user_info"},
		{0, "XML_get_info", "XML_get_info"},

		{GNAT, "_ada_threeway", "threeway"},
		{GNAT, "burning__levels__run", "burning.levels.run"},
		{GNAT, "burning__twice__OaddX.constprop.0", `burning.twice."+" [clone .constprop.0]`},
		{GNAT, "ada__text_io__put_line__2", "ada.text_io.put_line"},
		{GNAT, "burning___elabb", "burning'Elab_Body"},
		{GNAT, "system__tasking__stages__task_wrapper", "system.tasking.stages.task_wrapper"},
		{GNAT, "__gnat_rcheck_CE_Overflow_Check", "__gnat_rcheck_CE_Overflow_Check"},
		{0, "google__protobuf__message__init", "google__protobuf__message__init"},

		{Nim, "hotSixty__threeway_4", "threeway.hotSixty"},
		{Nim, "hotSixty__threeway_u4", "threeway.hotSixty"},
		{Nim, "pluspercentpercent___threeway_78", "threeway.`+%%`"},
		{Nim, "eqdestroy___system_2910", "system.=destroy"},
		{Nim, "X5BX5D___system_3", "system.`[]`"},
		{Nim, "colonanonymous___threeway_38", "threeway.:anonymous"},
		{Nim, "sixtyOne__threeway_19.constprop.0", "threeway.sixtyOne [clone .constprop.0]"},
		{Nim, "burn58objecttype__m0evqhu0BVofTb9cvJDz9aXg", "burn58objecttype"},
		{0, "hotSixty__threeway_4", "hotSixty__threeway_4"},
	} {
		want := unwind.Function{Name: c.want}
		if c.want != c.in {
			want.SystemName = c.in
		}
		if got := FunctionBy(c.in, c.by); got != want {
			t.Errorf("%q: %+v, want %+v", c.in, got, want)
		}
		if c.by != 0 && c.want != c.in && Suspects(c.in)&c.by == 0 {
			t.Errorf("%q is not looked at", c.in)
		}
	}
}

// TestDlang compares with binutils' demangler. It writes types of functions in another way, and is older.
func TestDlang(t *testing.T) {
	names := []string{
		"_D8demangle4testFaZv", "_D8demangle4testFAyaZv", "_D8demangle4testFG42iZv", "_D8demangle4testFHikZv", "_D8demangle4testFPlZv",
		"_D8demangle4testFxiZv", "_D8demangle4testFOaZv", "_D8demangle4testFyaZv", "_D8demangle4testFNgaZv", "_D8demangle4testFaaYi",
		"_D8demangle4testFaaXi", "_D8demangle4testFJiZv", "_D8demangle4testFKiZv", "_D8demangle4testFLiZv", "_D8demangle4testFMiZv",
		"_D8demangle4test6__ctorMFZv", "_D8demangle4test6__dtorMFZv", "_D8demangle4test3fooMxFZv", "_D8demangle4test3fooMOxFZv",
		"_D8demangle9__T4testZv", "_D8demangle11__T4testTaZv", "_D8demangle13__T4testTaTbZv", "_D8demangle13__T4testVii1Zv",
		"_D8demangle16__T4testVmi1000Zv", "_D8demangle14__T4testVbi0Zv", "_D8demangle15__T4testVai97Zv", "_D8demangle__T4testVde0A8P6ZQtFZv",
		"_D8demangle22__T4testVAyaa3_616263Zv", "_D8demangle__T4testVAiA4i1i2i3i4ZQzFZv", "_D8demangle22__T4testTS8demangle1STaZv",
		"_D8demangle4testFS8demangle1SQmZv", "_D8demangle3fooFNaNbNiZ3barMFNfiZv",
	}
	cmd := exec.Command("c++filt", "--format=dlang")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(want) != len(names) {
		t.Fatalf("%d names became %d", len(names), len(want))
	}
	for i, name := range names {
		if got := Function(name).Name; got != want[i] {
			t.Errorf("%s: %q, c++filt says %q", name, got, want[i])
		}
	}
}

// hostileLanguages are names of other languages than C++ and Rust that cost a careless demangler exponential time, memory or depth.
func hostileLanguages() []string {
	double := "_D1a"
	for range 200 {
		double += "__T1aTBQbQb"
	}
	tuples := "_D1aFB2ii"
	for range 400 {
		tuples += "B2QdQf"
	}
	words := "$s1360" + strings.Repeat("b", 1360) + "0" + strings.Repeat("a", 2700)
	return []string{
		double, tuples, "_D1aF" + strings.Repeat("A", 4000), "_D" + strings.Repeat("__T", 1300), "_D1a" + strings.Repeat("M", 4000),
		"_D1aF" + strings.Repeat("DFZ", 1300), "_D1aFB999999999", "_D1a__T1aVAiA999999999Z", "_D999999999a", "_D1aFQa", "_D1aFQZZZZZZZZZZZZ",
		"_D__T1a" + strings.Repeat("S7_D__T1a", 40), "_D__T1a" + strings.Repeat("S300_D__T1a", 100), nestedD(), words,
		referredD("M" + strings.Repeat("y", 3500) + "!"), referredD("F" + strings.Repeat("M", 3500) + "!"), referredD(strings.Repeat("0", 3500)),
		referredD("F" + strings.Repeat("Na", 1700)), referredD("Q" + strings.Repeat("A", 3500) + "a"),
		"_D1a__T1aVAiA99" + strings.Repeat("i", 90) + strings.Repeat("7", 3800), referredD("__T1aVaa1700_" + strings.Repeat("41", 1700)),
		"_D" + strings.Repeat("1aF", 1300), "$s" + strings.Repeat("1aC", 1300), "$s99999a", "$s1a0aaaa", "$s1ab0zF",
		"$s2ab0" + strings.Repeat("a", 4000) + "F", "$sS", "$s", "_D1a__T1aV" + strings.Repeat("AiA1", 1000), "_DTi", "_DThn", "_D", "_Q", "_QM", "caml", "camlA", "camlA.",
		"camlA__$4", "camlA__$zz", "__a_MOD_", "_$$_", "A_$$_", "Main_z_info", "Main_zffffffffU_info", "Main_Z99999999T_info", "a__", "__", "a____b_1",
	}
}

// nestedD has names in templates' arguments whose lengths are right, of which the innermost is of none.
func nestedD() string {
	s := "_D1aFQ"
	for range 40 {
		s = "_D__T1aS" + strconv.Itoa(len(s)) + s + "ZZ"
	}
	return s
}

// referredD has a type of that name, and thousands of references to it, some of them to lists of others.
func referredD(name string) string {
	s := "xC1a" + name
	s = strconv.Itoa(len(s)) + s
	class := strings.Index(s, "C")
	s += "F"
	list := len(s)
	s += "B99"
	for range 99 {
		s += "Q" + backD(len(s)-class)
	}
	for range 50 {
		s += "Q" + backD(len(s)-list)
	}
	return "_D" + s + "Zv"
}

// backD is how far back a reference leads.
func backD(n int) string {
	s := string(rune('a' + n%26))
	for n /= 26; n > 0; n /= 26 {
		s = string(rune('A'+n%26)) + s
	}
	return s
}

// TestHostileLanguages bounds what a name can cost.
func TestHostileLanguages(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, in := range hostileLanguages() {
		start := threadTime(t)
		f := FunctionBy(in, GHC|GNAT|Nim)
		if d := threadTime(t) - start; d > time.Second {
			t.Errorf("%.40q took %v", in, d)
		}
		if f.Name == "" || len(f.Name) > MaxName {
			t.Errorf("%.40q became %d bytes", in, len(f.Name))
		}
	}
}
