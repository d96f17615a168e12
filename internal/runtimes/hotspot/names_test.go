package hotspot

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
)

// TestDecode: class files have their own way of UTF-8.
func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		"java/lang/Object":           "java/lang/Object",
		"a\xc0\x80b":                 "a\x00b",
		"\xc3\xa9\xe2\x82\xac":       "é€",
		"x\xed\xa0\xbd\xed\xb8\x80y": "x😀y",
		"\xed\xa0\xbd":               "\ufffd", // half of it
		"\xed\xa0\xbdA":              "\ufffdA",
		"\xf0\x9f\x98\x80":           "\ufffd\ufffd\ufffd\ufffd", // not in class files
		"\xc3":                       "\ufffd",
		"\xe2\x82":                   "\ufffd\ufffd",
		"\x80\xff":                   "\ufffd\ufffd",
		"":                           "",
	} {
		if got := decode([]byte(in)); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
}

// TestDisplayClass: names as programs have them, without what differs from process to process.
func TestDisplayClass(t *testing.T) {
	for in, want := range map[string]string{
		"java/util/HashMap$Node":               "java.util.HashMap$Node",
		"Spin$$Lambda$1+0x00007fe0f8000a08":    "Spin$$Lambda$1",
		"a/Spin$$Lambda+0x00007fe0f8000a08":    "a.Spin$$Lambda",
		"Spin$$Lambda$25/0x00007fe0f8000a08":   "Spin$$Lambda$25",
		"java/lang/invoke/LambdaForm$MH+0x0ab": "java.lang.invoke.LambdaForm$MH",
		"a/0xyz":                               "a.0xyz",
		"+0x12":                                "+0x12",
		"jdk/proxy1/$Proxy0":                   "jdk.proxy1.$Proxy0",
	} {
		if got := displayClass(in); got != want {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
}

// TestReadName reads names of stubs, and nothing that is none.
func TestReadName(t *testing.T) {
	mem := newFake()
	mem.text(0x1010, "C2 Runtime new_array")
	mem.text(0x2000, "a\x01b")
	mem.text(0x3000, "")
	mem.text(0x4000, strings.Repeat("x", 1000))
	for at, want := range map[int]string{0x1010: "C2 Runtime new_array", 0x4000: strings.Repeat("x", maxName)} {
		if got, err := readName(mem, 0); err == nil {
			t.Errorf("at 0: %q", got)
		}
		if got, err := readName(mem, asAddr(at)); got != want || err != nil {
			t.Errorf("%#x: %q, %v", at, got, err)
		}
	}
	for _, at := range []int{0x2000, 0x3000} {
		if got, err := readName(mem, asAddr(at)); !errors.Is(err, runtimes.ErrStale) {
			t.Errorf("%#x: %q, %v", at, got, err)
		}
	}
}
