package elfsym

import (
	"bytes"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
)

// TestCompilers puts what tells of a compiler at every place around the border of two reads.
func TestCompilers(t *testing.T) {
	const size = 3 * evidenceChunk
	for at := evidenceChunk - 30; at < evidenceChunk+5; at++ {
		text := bytes.Repeat([]byte("name\x00"), size/5)
		copy(text[at:], "\x00NimMain\x00")
		copy(text[at+2*evidenceChunk-100:], "\x00@mlib@sthree.nim.c\x00")
		table := &Table{}
		table.tabs[1] = stringTable{r: bytes.NewReader(text), size: int64(len(text))}
		if got := table.by("hot__three_2"); got != names.Nim {
			t.Errorf("evidence at %d: %v", at, got)
		}
		if got := table.by("hot__four_2"); got != 0 {
			t.Errorf("evidence at %d: %v for another module", at, got)
		}
		if table.evidence.Bytes() == 0 {
			t.Error("evidence takes nothing")
		}
	}
	short := &Table{}
	short.tabs[0] = stringTable{r: bytes.NewReader([]byte("\x00stg_upd_frame_info\x00")), size: 1 << 40} // the file says more than it has
	if got := short.by("Main_main_info"); got != 0 {
		t.Errorf("a table that cannot be read: %v", got)
	}
	long := &Table{}
	text := append(append([]byte{0}, bytes.Repeat([]byte("x"), 2*evidenceChunk)...), "\x00stg_upd_frame_info\x00"...)
	long.tabs[0] = stringTable{r: bytes.NewReader(text), size: int64(len(text))}
	if got := long.by("Main_main_info"); got != names.GHC {
		t.Errorf("behind a long name: %v", got)
	}
}
