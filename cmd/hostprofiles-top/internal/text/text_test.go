package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]Safe{
		"main":                                 "main",
		"":                                     "",
		"\x1b[2J\x1b]0;owned\x07":              "?[2J?]0;owned?",
		"a\tb\nc\r\u2028d":                     "a b c  d",
		"\u009b31mred":                         "?31mred",
		"a\xffb\xc3":                           "a?b?",
		"\u202eevil\u2066x\u200by\ufeff\u00ad": "?evil?x?y??",
		"e\u0301t\u00e9":                       "été",
		"x\u0336\u0489":                        "x??",
		"関数名":                                  "関数名",
		"👍👍\U0001f3fd":                         "👍👍?",
		"👩\u200d👩":                             "👩?👩",
		"\U0001f1e9\U0001f1ea":                 "??",
		"\u1100\u1161\u11a8":                   "각",
		"\u1161\u11a8":                         "??",
		"\ue000\U000e0041":                     "??",
		"a\u00a0b\u3000c":                      "a b c",
	} {
		require.Equal(t, want, Clean(in), "%q", in)
	}
	require.Len(t, Clean(strings.Repeat("x", 20<<20)), maxBytes)
	require.Equal(t, Safe("a??b"), ASCII("a関b"))
}

func TestWidths(t *testing.T) {
	require.Equal(t, 6, Width("関数名"))
	require.Equal(t, Safe("関~"), Cut("関数名", 4))
	require.Equal(t, Safe("関数名"), Cut("関数名", 6))
	require.Equal(t, Safe("~名"), CutHead("関数名", 4))
	require.Equal(t, Safe("関~  "), Left("関数名", 4)+" ")
	require.Equal(t, Safe("  関"), Right("関", 4))
	require.Equal(t, Safe(""), Cut("abc", 0))
	require.Equal(t, Safe("~"), Cut("abc", 1))
	require.Equal(t, Safe(""), Cut("abc", -3))
}

func TestName(t *testing.T) {
	for _, c := range []struct {
		in    Safe
		width int
		want  Safe
	}{
		{"main", 10, "main"},
		{"std::vector<std::string, std::allocator<std::string>>::push_back(std::string const&)", 50,
			"std::vector<>::push_back(std::string const&)"},
		{"std::vector<std::string, std::allocator<std::string>>::push_back(std::string const&) const", 30,
			"std::vector<>::push_back"},
		{"github.com/a/very/long/path/pkg.(*Server).handle", 20, "~kg.(*Server).handle"},
		{"a::operator<(very long parameters)", 12, "a::operator<"},
		{"java.util.concurrent.ThreadPoolExecutor.runWorker", 20, "~lExecutor.runWorker"},
		{"<closure>", 5, "~ure>"},
	} {
		require.Equal(t, c.want, Name(c.in, c.width), "%s in %d", c.in, c.width)
	}
}

// FuzzClean shows that nothing but characters of one or two columns comes through, and that what is cut fits.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"main", "\x1b[31m", "\u009b1m", "👩‍👩‍👧", "a\u0301\u0301", "\u1100\u1161", "<<>>()", "\xf0\x9f", "a<b<c>>(d)", "\u0e33"} {
		f.Add(seed, 7)
	}
	f.Fuzz(func(t *testing.T, in string, width int) {
		width %= 200
		s := Clean(in)
		require.True(t, utf8.ValidString(string(s)))
		sum := 0
		for _, r := range s {
			require.False(t, r < ' ' || 0x7e < r && r < 0xa0, "%q has the control character %q", s, r)
			w := runeWidth(r)
			require.True(t, w == 1 || w == 2, "%q takes %d columns", r, w)
			sum += w
		}
		require.Equal(t, sum, uniseg.StringWidth(string(s)), "the runes of %q do not take their columns alone", s)
		if len(s) <= maxBytes {
			require.Equal(t, s, Clean(string(s)), "cleaning %q again changes it", s)
		}
		for _, got := range []Safe{Cut(s, width), CutHead(s, width), Name(s, width)} {
			require.LessOrEqual(t, Width(got), max(width, 0), "%q cut to %d", got, width)
			require.True(t, utf8.ValidString(string(got)))
		}
		require.Equal(t, max(width, 0), Width(Left(s, width)))
		require.Equal(t, max(width, 0), Width(Right(s, width)))
		require.True(t, plain(string(ASCII(s))))
		require.Equal(t, Width(s), Width(ASCII(s)))
	})
}
