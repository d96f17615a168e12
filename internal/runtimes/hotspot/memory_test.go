package hotspot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// fake is memory: pieces that do not overlap, by where they begin.
type fake struct {
	pieces map[uint64][]byte
	reads  int
}

func newFake() *fake { return &fake{pieces: map[uint64][]byte{}} }

var errNothingThere = errors.New("nothing there")

func (m *fake) Read(a unwind.Addr, b []byte) error {
	m.reads++
	for at, piece := range m.pieces {
		if o := uint64(a) - at; o < uint64(len(piece)) && uint64(len(b)) <= uint64(len(piece))-o {
			copy(b, piece[o:])
			return nil
		}
	}
	return errNothingThere
}

// put makes a piece of so many bytes.
func (m *fake) put(a uint64, size int) []byte {
	m.pieces[a] = make([]byte, size)
	return m.pieces[a]
}

func (m *fake) text(a uint64, s string) {
	copy(m.put(a, (len(s)+64)&^31), s)
}

func set8(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
func set4(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
func set2(b []byte, at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }

const (
	staticsAt = 0x10000
	kindsAt   = 0x20000
	releaseAt = 0x30000
)

// vmOf is what a live process of that version has said, as far as it is looked at. Static fields are at made-up addresses.
func vmOf(t *testing.T, mem *fake, version string) (v *vm, statics map[string]uint64) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "vmstructs", version+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v = &vm{text: &texts{mem, map[uint64][]byte{}}, fields: map[string]vmField{}, sizes: map[string]uint64{}, ints: map[string]int32{}}
	statics = map[string]uint64{}
	kinds := map[string]uint64{}
	kindText := mem.put(kindsAt, 0x4000)
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.SplitN(s.Text(), " ", 4)
		switch w[0] {
		case "T":
			v.sizes[w[1]] = number(w[2])
		case "I":
			v.ints[w[1]] = int32(number(w[2]))
		default:
			e := vmField{static: w[2] == "static"}
			if _, ok := kinds[w[3]]; !ok {
				at := uint64(64 * len(kinds))
				copy(kindText[at:], w[3])
				kinds[w[3]] = kindsAt + at
			}
			e.kind = kinds[w[3]]
			if e.static {
				e.at = staticsAt + 0x100*uint64(len(statics))
				statics[w[1]] = e.at
				mem.put(e.at, 8)
			} else {
				e.at = number(w[2])
			}
			v.fields[w[1]] = e
		}
	}
	set8(mem.pieces[statics["Abstract_VM_Version::_s_vm_release"]], 0, releaseAt)
	copy(mem.put(releaseAt, 0x1000), version+".0.1+2")
	major, err := strconv.Atoi(strings.TrimSuffix(version, "-temurin"))
	if err != nil {
		t.Fatal(err)
	}
	if major == 8 {
		major = 25 // as that one calls itself
	}
	set4(mem.pieces[statics["Abstract_VM_Version::_vm_major_version"]], 0, uint32(major))
	return v, statics
}

// layoutOf is the layout of a version.
func layoutOf(t *testing.T, version string) *layout {
	t.Helper()
	v, _ := vmOf(t, newFake(), version)
	l, err := v.layout()
	if err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	return l
}

func versions() []string { return []string{"8", "11", "17", "21", "25", "25-temurin", "26", "27"} }
