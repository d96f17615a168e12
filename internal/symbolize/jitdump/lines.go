package jitdump

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
)

// lineTable is the lines of a function, encoded: by ascending offset in the code, for each entry the difference of offset
// to the one before, that of the line, the column, and the number of the file, as varints; a number that was not there
// before is followed by the length and the bytes of the name. Line 0 says that from there on it is not known.
type lineTable struct {
	start       uint64 // of the function's code
	first, last uint64 // offsets
	encoded     []byte
}

const (
	entryBytes = 16 // and the name
	maxFile    = 1024
	// maxBefore is how far an entry may be before the code: Erlang/OTP 25 begins with a function's prologue, which it tells
	// of as another function.
	maxBefore = 4096
	// maxEncoded leaves room for the rest of a record.
	maxEncoded = jitcode.MaxRecord - codeBytes - names.MaxName
	// maxEntry is what an entry takes encoded at most.
	maxEntry = 10 + 5 + 5 + 5 + 5 + maxFile
)

type lineEntry struct {
	offset       uint64
	line, column int
	file         string
}

// again stands in place of the name of the file before.
const again = "\xff"

// parseLines parses a JIT_CODE_DEBUG_INFO record, or what there is of it. Only what is finished counts.
func parseLines(o binary.ByteOrder, b []byte) (lineTable, bool) {
	if len(b) < debugBytes {
		return lineTable{}, false
	}
	start, n := o.Uint64(b[16:]), o.Uint64(b[24:])
	b = b[debugBytes:]
	entries := make([]lineEntry, 0, min(n, uint64(len(b)/entryBytes)))
	file := ""
	for ; n > 0 && len(b) > entryBytes; n-- {
		end := bytes.IndexByte(b[entryBytes:], 0)
		if end < 0 {
			break
		}
		if name := b[entryBytes : entryBytes+end]; string(name) != again && string(name) != file {
			file = strings.ToValidUTF8(string(name[:min(len(name), maxFile)]), "\uFFFD")
			file = strings.ToValidUTF8(file[:min(len(file), maxFile)], "")
		}
		offset := o.Uint64(b) - start
		switch before := -offset; {
		case before == 0:
		case before <= maxBefore:
			offset = 0
		case o.Uint64(b) < start:
			offset = math.MaxUint64 // such a table is not understood
		}
		line, column := o.Uint32(b[8:]), o.Uint32(b[12:])
		entries = append(entries, lineEntry{offset, int(line & math.MaxInt32), int(column & math.MaxInt32), file})
		b = b[entryBytes+end+1:]
	}
	if len(entries) == 0 {
		return lineTable{}, false
	}
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].offset < entries[j].offset })
	return lineTable{start, entries[0].offset, entries[len(entries)-1].offset, encodeLines(entries)}, true
}

// encodeLines encodes entries in ascending order. Of those for one offset the last counts.
func encodeLines(entries []lineEntry) []byte {
	var e lineEncoder
	for i, entry := range entries {
		if i+1 < len(entries) && entries[i+1].offset == entry.offset {
			continue
		}
		if len(e.b)+2*maxEntry > maxEncoded {
			entry.line = 0
			e.add(entry)
			break
		}
		e.add(entry)
	}
	return bytes.Clone(e.b)
}

type lineEncoder struct {
	b      []byte
	last   lineEntry
	files  map[string]uint64
	filled bool
}

func (e *lineEncoder) add(entry lineEntry) {
	if e.filled && entry.line == e.last.line && entry.column == e.last.column && entry.file == e.last.file {
		return
	}
	e.b = binary.AppendUvarint(e.b, entry.offset-e.last.offset)
	e.b = binary.AppendVarint(e.b, int64(entry.line)-int64(e.last.line))
	e.b = binary.AppendUvarint(e.b, uint64(entry.column))
	n, known := e.files[entry.file]
	if !known {
		if e.files == nil {
			e.files = map[string]uint64{}
		}
		n = uint64(len(e.files))
		e.files[entry.file] = n
	}
	e.b = binary.AppendUvarint(e.b, n)
	if !known {
		e.b = binary.AppendUvarint(e.b, uint64(len(entry.file)))
		e.b = append(e.b, entry.file...)
	}
	e.last, e.filled = entry, true
}

// findLine returns the last entry at offset or before, if its line is known. The bytes are what encodeLines made.
func findLine(b []byte, offset uint64) (lineEntry, bool) {
	var at, found lineEntry
	var foundFile []byte
	var files [][]byte
	for len(b) > 0 {
		delta, n := binary.Uvarint(b)
		at.offset += delta
		if b = b[n:]; at.offset > offset {
			break
		}
		line, n := binary.Varint(b)
		b = b[n:]
		column, n := binary.Uvarint(b)
		b = b[n:]
		file, n := binary.Uvarint(b)
		b = b[n:]
		if file == uint64(len(files)) {
			length, n := binary.Uvarint(b)
			files = append(files, b[n:n+int(length)])
			b = b[n+int(length):]
		}
		at.line, at.column = at.line+int(line), int(column)
		found, foundFile = at, files[file]
	}
	found.file = string(foundFile)
	return found, found.line > 0
}
