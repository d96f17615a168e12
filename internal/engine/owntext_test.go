package engine

import (
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

func TestAround(t *testing.T) {
	a, b, vdso := &process.File{Path: "/a"}, &process.File{Path: "/b"}, &process.File{Path: process.PathVDSO}
	at := func(start, end unwind.Addr, f *process.File, offset unwind.FileOffset) process.MappedFile {
		return process.MappedFile{Mapping: unwind.Mapping{Start: start, End: end, Offset: offset}, File: f}
	}
	memory := at(0x3000, 0x5000, nil, 0)
	for _, c := range []struct {
		what   string
		maps   []process.MappedFile
		of     *process.File
		offset unwind.FileOffset
	}{
		{"between two parts of a file", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, a, 0x5000)}, a, 0x3000},
		{"behind the first part", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x7000, 0x8000, b, 0)}, a, 0x3000},
		{"before the last part", []process.MappedFile{memory, at(0x5000, 0x6000, a, 0x7000)}, a, 0x5000},
		{"two parts that do not agree", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, a, 0x6000)}, nil, 0},
		{"two files", []process.MappedFile{at(0x1000, 0x3000, a, 0x1000), memory, at(0x5000, 0x6000, b, 0x5000)}, nil, 0},
		{"not side by side", []process.MappedFile{at(0x1000, 0x2000, a, 0x1000), memory, at(0x6000, 0x7000, a, 0x6000)}, nil, 0},
		{"before the file begins", []process.MappedFile{memory, at(0x5000, 0x6000, a, 0x1000)}, nil, 0},
		{"beside the vdso", []process.MappedFile{memory, at(0x5000, 0x6000, vdso, 0x2000)}, nil, 0},
		{"alone", []process.MappedFile{memory}, nil, 0},
	} {
		for i := range c.maps {
			file, offset, ok := around(c.maps, i)
			want := c.maps[i].File == nil && c.of != nil
			if ok != want || ok && (file != c.of || offset != c.offset) {
				t.Errorf("%s, mapping %d: %v, %v, %#x", c.what, i, ok, file, offset)
			}
		}
	}
}

// TestLook bounds how often memory is compared: code that is changed again and again is a JIT compiler's.
func TestLook(t *testing.T) {
	var st processState
	looks := 0
	for time := range uint64(100) {
		m := process.MappedFile{Mapping: unwind.Mapping{Start: 0x1000}, Time: time}
		for range 2 {
			if st.look(&m) {
				looks++
			}
		}
	}
	if looks != maxOwnTries {
		t.Errorf("one place was looked at %d times", looks)
	}
	for i := range unwind.Addr(100) {
		st.look(&process.MappedFile{Mapping: unwind.Mapping{Start: i << 12}})
	}
	if len(st.ownTexts) != maxOwnTexts {
		t.Errorf("%d places", len(st.ownTexts))
	}
}
