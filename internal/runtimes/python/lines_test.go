package python

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLines compares what tables of lines say with what the interpreters themselves say of them: testdata/lines.py.
func TestLines(t *testing.T) {
	files, err := filepath.Glob("testdata/lines/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 7)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			var sample struct {
				Version [2]int
				Codes   []struct {
					Name, Table    string
					First          int
					Lines, Columns []*int
				}
			}
			require.NoError(t, json.Unmarshal(b, &sample))
			l, ok := layoutOf(version{sample.Version[0], sample.Version[1]}, false)
			require.True(t, ok)
			require.Greater(t, len(sample.Codes), 8)
			checked := 0
			for _, c := range sample.Codes {
				table, err := hex.DecodeString(c.Table)
				require.NoError(t, err)
				for i := range c.Lines {
					want, at := position{}, 2*i
					if c.Lines[i] != nil {
						want.Line = *c.Lines[i]
					}
					if c.Columns[i] != nil && want.Line != 0 {
						want.Column = *c.Columns[i] + 1
					}
					if l.lines == linesRange {
						at = i // it counts instructions
					}
					require.Equal(t, want, l.lines.find(table, c.First, at), "%s, at %d", c.Name, at)
					checked++
				}
			}
			t.Logf("%d instructions", checked)
		})
	}
}

// FuzzLines: damaged tables end somewhere, and no line is negative.
func FuzzLines(f *testing.F) {
	f.Add(uint8(linesByte), []byte{6, 1, 8, 0xff}, 3, 4)
	f.Add(uint8(linesRange), []byte{6, 1, 8, 0x80}, 3, 4)
	f.Add(uint8(linesLocation), []byte{0xf0, 3, 1, 1, 1, 0x80, 0x10, 0xf8, 0xea, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}, 3, 4)
	f.Fuzz(func(t *testing.T, kind uint8, table []byte, first, at int) {
		p := lineTable(kind%4).find(table, int(int32(first)), int(int32(at)))
		if p.Line < 0 || p.Column < 0 {
			t.Errorf("%+v", p)
		}
	})
}
