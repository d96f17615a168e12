package top

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func TestRender(t *testing.T) {
	for name, tt := range map[string]struct {
		rows  int
		style style
	}{
		"all":     {rows: 20},
		"cut":     {rows: 2, style: style{width: 60}},
		"colours": {rows: 1, style: style{width: 80, colours: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow(at(0))
			w.add(typical())
			got := render(w, at(5), tt.rows, tt.style)
			file := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestRenderNothing(t *testing.T) {
	first := newWindow(at(0))
	require.Equal(t, "00:00:05   waiting for the first profiles\n\n", render(first, at(5), 20, style{}))
	second := first.next(at(5))
	require.Equal(t, "00:00:10   waiting for the first profiles\n\n", render(second, at(10), 20, style{}))
	second.add(typical())
	require.Equal(t, "00:00:15   no profiles in 5.0s\n\n", render(second.next(at(10)).next(at(10)), at(15), 20, style{}))
}

func TestRenderFitsTerminal(t *testing.T) {
	w := newWindow(at(0))
	w.add(typical())
	for width := 1; width < 120; width++ {
		for line := range strings.Lines(render(w, at(5), 20, style{width: width})) {
			// The columns before the function are never cut: 30 characters and the process's name.
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), max(width, 30+24), "width %d", width)
		}
	}
}

func TestNamesCannotCommandTheTerminal(t *testing.T) {
	b := newPayload()
	p := b.onCPU(b.resource(map[string]any{attrPID: 1, attrExecutableName: "a\x1b]0;owned\a"}))
	b.events(p, b.stack(b.location("f\x1b[2J\r\n\u202e", "native", "", 1)), 1)
	w := newWindow(at(0))
	w.add(b.p)
	got := render(w, at(5), 20, style{})
	for _, r := range got {
		require.True(t, r == '\n' || r >= ' ' && r != 0x7f && r != 0x202e, "%q in %q", r, got)
	}
}

func TestClean(t *testing.T) {
	require.Equal(t, "naïve", clean("naïve"))
	require.Equal(t, "a?b", clean("a\tb"))
	long := clean(strings.Repeat("é", maxName))
	require.True(t, utf8.ValidString(long))
	require.LessOrEqual(t, len(long), maxName)
	require.Equal(t, maxName, len(long))
	require.Equal(t, maxName-1, len(clean("x"+strings.Repeat("é", maxName))))
}

func TestAmounts(t *testing.T) {
	require.Equal(t, "1.5KiB", bytes(1536))
	require.Equal(t, "1 sample", count(1, "sample"))
	require.Equal(t, "2 processes", count(2, "process"))
	require.Equal(t, "0.0%", percent(1, 0))
}
