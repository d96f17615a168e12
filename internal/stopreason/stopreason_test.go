package stopreason_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// TestDocument compares docs/unwinding.md with the list: the same rows, in the same order, with the same words.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/unwinding.md")
	require.NoError(t, err)
	const head = "| reason | the walk ended because | when | what to do |\n|---|---|---|---|\n"
	_, table, found := strings.Cut(string(text), head)
	require.True(t, found, "docs/unwinding.md has no table of reasons")
	table, _, _ = strings.Cut(table, "\n\n")
	var want strings.Builder
	for _, r := range stopreason.All() {
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", r.Name, r.Means, r.When, r.Do)
	}
	require.Equal(t, strings.TrimSpace(want.String()), strings.TrimSpace(table))
	require.Contains(t, strings.ReplaceAll(string(text), "\n", " "), stopreason.Guessed)
}

func TestReasonsAreExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range stopreason.All() {
		require.Regexp(t, regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`), r.Name)
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		for _, words := range []string{r.Means, r.When, r.Do} {
			require.NotEmpty(t, words, r.Name)
			require.NotContains(t, words, "|", "a cell of a table")
		}
		require.Equal(t, r.Complete, stopreason.IsComplete(r.Name))
		require.Equal(t, r.Complete, strings.HasPrefix(r.Means, "complete: "), r.Name)
		got, ok := stopreason.Of(r.Name)
		require.True(t, ok)
		require.Equal(t, r, got)
	}
	_, ok := stopreason.Of("<script>")
	require.False(t, ok)
	require.False(t, stopreason.IsComplete(""))
}
