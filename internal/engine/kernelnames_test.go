package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLoadedModules tells of modules that came, went, or lie elsewhere; not of uses.
func TestLoadedModules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "modules")
	l := loadedModules{path: path}
	if l.changed() {
		t.Error("a kernel without modules has changed")
	}
	for i, c := range []struct {
		text string
		want bool
	}{
		{"nf_nat 57344 1 nft_chain_nat, Live 0xffffffffc0a00000\noverlay 151552 2 - Live 0xffffffffc0900000\n", true},
		{"nf_nat 57344 7 nft_chain_nat, Live 0xffffffffc0a00000\noverlay 151552 3 - Live 0xffffffffc0900000\n", false},
		{"nf_nat 57344 7 nft_chain_nat, Live 0xffffffffc0b00000\noverlay 151552 3 - Live 0xffffffffc0900000\n", true},
		{"overlay 151552 3 - Live 0xffffffffc0900000\n", true},
		{"overlay 151552 3 - Live 0xffffffffc0900000\n", false},
		{"damaged\n", true},
		{"", false},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := l.changed(); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}
