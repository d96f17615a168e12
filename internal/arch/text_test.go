package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxLines: beyond, a file has more than one subject.
const maxLines = 600

// forEachSource calls f with each file that people write.
func forEachSource(t *testing.T, f func(name string, text []byte)) {
	kinds := []string{".go", ".c", ".h", ".sh", ".yaml", ".yml", ".md", ".py", ""}
	forEachFile(t, func(name string) {
		if !slices.Contains(kinds, filepath.Ext(name)) || strings.HasPrefix(filepath.Base(name), "LICENSE") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		require.NoError(t, err)
		head := text[:min(len(text), 400)]
		if bytes.Contains(head, []byte("Code generated ")) || bytes.IndexByte(head, 0) >= 0 {
			return
		}
		f(name, text)
	})
}

func TestFilesAreOfAReadableSize(t *testing.T) {
	forEachSource(t, func(name string, text []byte) {
		if ext := filepath.Ext(name); ext == ".md" || ext == ".yaml" {
			return
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines: split it by meaning", name, lines)
		}
	})
}

// Two lists that people must keep equal will differ one day: one is generated from the other, or a test compares them.
func TestNothingIsKeptEqualByHand(t *testing.T) {
	phrases := regexp.MustCompile(`(?i)\b(keep|kept|must be) in sync\b|\bTO` + `DO\b|\bFIX` + `ME\b|\bXX` + `X\b`)
	forEachSource(t, func(name string, text []byte) {
		if name == filepath.Join("internal", "arch", "text_test.go") {
			return
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if phrases.Match(line) {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
		}
	})
}

func TestABIIsGenerated(t *testing.T) {
	dir := filepath.Join(root(t), "internal", "ebpf", "abi")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".go":
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments)
			require.NoError(t, err)
			assert.True(t, ast.IsGenerated(f), "%s is not generated", e.Name())
		case ".o":
		default:
			assert.Failf(t, "a file that no generator wrote", "%s", e.Name())
		}
	}
}
