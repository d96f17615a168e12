package console

import (
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	var b strings.Builder
	want := Check{Name: "x", OK: true, Detail: "two\nlines and \"quotes\""}
	Print(&b, want)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	if got, ok := Parse(lines[0] + "\r"); !ok || got != want {
		t.Errorf("got %v, %v", got, ok)
	}
	for _, line := range []string{"", "[ 1.0] kernel", prefix + "{", "x" + prefix[1:]} {
		if _, ok := Parse(line); ok {
			t.Errorf("%q was parsed", line)
		}
	}
}
