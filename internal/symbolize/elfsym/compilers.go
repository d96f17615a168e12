package elfsym

import (
	"bytes"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
)

const (
	maxMarkerScan = 16 << 20 // bytes of one string table that are searched for a compiler's marker
	markerChunk   = 64 << 10
)

// by returns which of the compilers the file has code of. Each is looked for once, when a name that may be its own is asked for. What
// cannot be read has no marker: then names stay as they are.
func (t *Table) by(suspects names.Compilers) names.Compilers {
	if suspects&^t.asked != 0 {
		for i := range t.tabs {
			t.search(&t.tabs[i], suspects&^t.asked)
		}
		t.asked |= suspects
	}
	return t.found & suspects
}

// search adds the compilers whose markers are in a string table.
func (t *Table) search(tab *stringTable, suspects names.Compilers) {
	if tab.r == nil {
		return
	}
	const overlap = 32 // more than any marker
	chunk := make([]byte, markerChunk+overlap)
	kept, size := 0, min(tab.size, maxMarkerScan)
	for off := int64(0); off < size; {
		n := int(min(markerChunk, size-off))
		if readFull(tab.r, chunk[kept:kept+n], tab.off+off) != nil {
			return
		}
		for c, marker := range names.Markers() {
			if suspects&c != 0 && bytes.Contains(chunk[:kept+n], []byte(marker)) {
				t.found |= c
			}
		}
		off += int64(n)
		end := kept + n
		kept = copy(chunk, chunk[max(end-overlap, 0):end])
	}
}
