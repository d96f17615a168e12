package text

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForms: each case is a name with its forms. The tests of the live view's page read the same ones.
func TestForms(t *testing.T) {
	text, err := os.ReadFile("../../../../testdata/names/forms.json")
	require.NoError(t, err)
	var cases [][]Safe
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, want := range cases {
		require.Equal(t, want, Forms(want[0]))
	}
}
