package process

import "testing"

func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "//anon": "", "/dev/zero (deleted)": "", "/anon_hugepage (deleted)": "",
		"[anon:v8]": "[anon:v8]", "[heap]": "[heap]", "/SYSV0000abcd (deleted)": "/SYSV0000abcd",
	} {
		if got := nameOf(path); got != want {
			t.Errorf("%q is called %q, want %q", path, got, want)
		}
	}
}
