package elfsym

import (
	"bytes"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
)

// TestCompilers puts a marker at every place around the border of two reads.
func TestCompilers(t *testing.T) {
	const size = 3 * markerChunk
	for at := markerChunk - 30; at < markerChunk+5; at++ {
		text := bytes.Repeat([]byte("name\x00"), size/5)
		copy(text[at:], "\x00NimMain\x00")
		table := &Table{}
		table.tabs[1] = stringTable{r: bytes.NewReader(text), size: int64(len(text))}
		if got := table.by(names.GHC | names.Nim); got != names.Nim {
			t.Errorf("marker at %d: %v", at, got)
		}
		if got := table.by(names.GNAT); got != 0 {
			t.Errorf("marker at %d: %v for GNAT", at, got)
		}
	}
	short := &Table{}
	short.tabs[0] = stringTable{r: bytes.NewReader([]byte("\x00stg_upd_frame_info\x00")), size: 1 << 40} // the file says more than it has
	if got := short.by(names.GHC); got != 0 {
		t.Errorf("a table that cannot be read: %v", got)
	}
}
