package elfsym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// gnuDebugData reads the symbols of the ELF file that distributions put, compressed by xz, into .gnu_debugdata of
// stripped files ("MiniDebugInfo", GDB 16 manual, section 19.5). Of its decompressed bytes only the functions' names stay.
func (l *loader) gnuDebugData() error {
	budget := l.f.Budget()
	inner, data, err := openDebugData(l.f)
	if err != nil || data == nil {
		return err
	}
	defer data.release()
	tab, err := sectionTable(inner, elf.SHT_SYMTAB)
	if err != nil || tab == nil {
		return err
	}
	names, err := readNames(data, tab.strings, budget)
	if err != nil {
		return err
	}
	defer budget.Give(uint64(len(names)))
	have := len(l.rows)
	rows, err := l.read(tab, sourceDebugData, l.rows)
	if err != nil {
		return err
	}
	l.rows = rows
	l.t.debugData = keepNames(l.rows[have:], names)
	l.t.tabs[sourceDebugData] = stringTable{bytes.NewReader(l.t.debugData), 0, int64(len(l.t.debugData))}
	return nil
}

// DebugData decompresses .gnu_debugdata of f into memory and returns the ELF file in it, for those who look for more than
// symbols there. inner is nil if f has no such section. At most 16 MiB are decompressed, and they count in f's Budget, which
// inner has too, until release is called; inner is of no use then.
func DebugData(f *elffile.File) (inner *elffile.File, release func(), err error) {
	inner, data, err := openDebugData(f)
	if err != nil || data == nil {
		return nil, func() {}, err
	}
	return inner.Within(f.Budget()), data.release, nil
}

// maxDebugData bounds .gnu_debugdata, compressed and decompressed, in bytes.
const maxDebugData = 16 << 20

// openDebugData decompresses .gnu_debugdata of f; both results are nil if there is none.
func openDebugData(f *elffile.File) (*elffile.File, *pieces, error) {
	s := f.Section(".gnu_debugdata")
	if s == nil {
		return nil, nil, nil
	}
	compressed, err := f.SectionData(s, maxDebugData)
	if err != nil {
		return nil, nil, err
	}
	data, err := xzDecode(compressed, maxDebugData, f.Budget())
	f.Budget().Give(uint64(len(compressed)))
	if err != nil {
		return nil, nil, err
	}
	inner, err := elffile.New(data, data.size)
	if err != nil {
		data.release()
		return nil, nil, err
	}
	return inner, data, nil
}

// readNames reads a table of names.
func readNames(data *pieces, names stringTable, budget *elffile.Budget) ([]byte, error) {
	if err := budget.Take(uint64(names.size), "names in .gnu_debugdata"); err != nil {
		return nil, err
	}
	b := make([]byte, names.size)
	if err := readFull(data, b, names.off); err != nil {
		budget.Give(uint64(names.size))
		return nil, err
	}
	return b, nil
}

// keepNames copies the rows' names out of a string table and makes the rows refer to the copy.
func keepNames(rows []row, strings []byte) []byte {
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.ref, b.ref) })
	refs := make([]uint32, len(rows))
	var blob []byte
	for i, r := range rows {
		if i > 0 && r.ref == rows[i-1].ref {
			refs[i] = refs[i-1]
			continue
		}
		name := strings[min(uint64(r.ref), uint64(len(strings))):]
		if n := bytes.IndexByte(name, 0); n >= 0 {
			name = name[:n]
		}
		if len(blob)+len(name)+1 > len(strings) {
			// Names that share their ends would take more room apart than together.
			return strings
		}
		refs[i] = uint32(len(blob))
		blob = append(append(blob, name...), 0)
	}
	for i := range rows {
		rows[i].ref = refs[i]
	}
	return slices.Clip(blob)
}
