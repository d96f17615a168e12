package names

import (
	"fmt"
	"testing"
)

// TestEvidence has symbols of files with code of several compilers, and C's beside them.
func TestEvidence(t *testing.T) {
	ada := []string{"__gnat_rcheck_CE_Overflow_Check", "_ada_threeway", "burning_E", "ada__text_io_E", "system__soft_links___elabb",
		"uv__io_poll", "Burning_E", "_E"}
	nimNames := []string{"NimMain", "@mthree.nim.c", "@m..@s..@susr@slib@snim@slib@ssystem.nim.c", "@msrc@smy_mod.nim.c", "uv__io_poll"}
	for _, c := range []struct {
		in     []string
		symbol string
		want   string
	}{
		{ada, "uv__io_poll", "uv__io_poll"},
		{ada, "burning__levels__run", "burning.levels.run"},
		{ada, "threeway__inner.3", "threeway.inner"},
		{ada, "_ada_threeway", "threeway"},
		{ada, "ada__text_io__put_line__2", "ada.text_io.put_line"},
		{ada, "system__tasking__stages__task_wrapper", "system.tasking.stages.task_wrapper"},
		{ada, "hot__three_2", "hot__three_2"},
		{ada[1:], "burning__levels__run", "burning__levels__run"}, // without the runtime library
		{nimNames, "hot__three_2", "three.hot"},
		{nimNames, "hot__three_u2.constprop.0", "three.hot [clone .constprop.0]"},
		{nimNames, "add__mymod_7", "mymod.add"},
		{nimNames, "raise2__libZsystem_7", "libZsystem.raise2"},
		{nimNames, "eqdestroy___system_2910", "system.=destroy"},
		{nimNames, "lua__newstate_2", "lua__newstate_2"},
		{nimNames, "Marker_tyRef__RJnHOb9cQV3neNC9cDkRgMyw", "Marker_tyRef"},
		{nimNames, "uv__a_long_name_of_64_bits", "uv__a_long_name_of_64_bits"},
		{nimNames[1:], "hot__three_2", "hot__three_2"},
		{append([]string{"stg_upd_frame_info"}, ada...), "burning__get_info", "burning.get_info"}, // not Haskell's, though it ends so
		{append([]string{"stg_upd_frame_info"}, ada...), "base_GHCziBase_zpzp_info", "GHC.Base.++"},
	} {
		var e Evidence
		for _, name := range c.in {
			e.Add([]byte(name))
		}
		e.Complete()
		if got := FunctionBy(c.symbol, e.Of(c.symbol)).Name; got != c.want {
			t.Errorf("%s: %s, want %s", c.symbol, got, c.want)
		}
	}
}

// TestEvidenceIsBounded: neither units that are many nor such that are of no use take memory.
func TestEvidenceIsBounded(t *testing.T) {
	var e Evidence
	for i := range 10 * maxUnits {
		e.Add(fmt.Appendf(nil, "unit%d_E", i))
	}
	if e.Bytes() > 1<<20 || len(e.units) != maxUnits {
		t.Errorf("%d units, %d bytes", len(e.units), e.Bytes())
	}
	if e.Complete(); e.Bytes() != 0 || e.units != nil {
		t.Errorf("without a runtime library: %d units, %d bytes", len(e.units), e.Bytes())
	}
}
