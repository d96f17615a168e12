package elfsym

import (
	"bytes"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
)

const (
	maxEvidence   = 16 << 20 // bytes of one string table that are searched for what tells of compilers
	evidenceChunk = 64 << 10
	maxCompared   = 512 // bytes of one name: longer ones tell nothing
)

// by returns which of the compilers the symbol is of whose names look like anyone's. The file's names are gone through once, when
// a name that may be of one is asked for. What cannot be read tells nothing: then names stay as they are.
func (t *Table) by(symbol string) names.Compilers {
	if names.Suspects(symbol) == 0 {
		return 0
	}
	if !t.searched {
		t.searched = true
		for i := range t.tabs {
			t.search(&t.tabs[i])
		}
		t.evidence.Complete()
	}
	return t.evidence.Of(symbol)
}

// search goes through a string table.
func (t *Table) search(tab *stringTable) {
	if tab.r == nil {
		return
	}
	chunk := make([]byte, maxCompared+evidenceChunk)
	kept, size := 0, min(tab.size, maxEvidence)
	for off := int64(0); off < size; {
		n := int(min(evidenceChunk, size-off))
		if readFull(tab.r, chunk[kept:kept+n], tab.off+off) != nil {
			return
		}
		off += int64(n)
		rest := chunk[:kept+n]
		for {
			end := bytes.IndexByte(rest, 0)
			if end < 0 {
				break
			}
			t.evidence.Add(rest[:end])
			rest = rest[end+1:]
		}
		if len(rest) > maxCompared {
			rest = rest[len(rest)-maxCompared:] // the end of a name that is too long
		}
		kept = copy(chunk, rest)
	}
}
