package engine

import (
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	// maxSiblings bounds how many mappings of a file are asked: an image has a few, but a file may be mapped again and again.
	maxSiblings = 64
	// maxBiased and maxBiases bound of how many files of a process, and how many biases, are counted. Those beyond go by their
	// first segment that fits: few files have segments that share pages, and none so many.
	maxBiased, maxBiases = 64, 4096
	// biasBytes is about what a bias takes that is counted.
	biasBytes = 48
)

// biases is what the mappings of a process say of biases, for files whose segments share pages: it depends on nothing but the
// file and the list of mappings.
type biases struct {
	list  []process.MappedFile // for which it was counted; never changed
	of    map[uint64]*unwind.Biases
	count int
}

// sameList tells whether both are the same list, which Process.Mappings never changes.
func sameList(a, b []process.MappedFile) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// setBias derives the bias of a mapping of the executable's file, which is one of the list: the process's as it is, or as it was when
// a sample was taken. ok is false if m holds no code of the file.
func (x *executable) setBias(m *unwind.Mapping, st *processState, list []process.MappedFile, file *process.File) (ok bool) {
	if x.shared {
		if all := st.biasesOf(x, list, file); all != nil {
			return m.SetBiasAmong(all, x.segments, uint64(pageSize))
		}
	}
	return m.SetBias(x.segments, uint64(pageSize))
}

// biasesOf counts what the mappings of a file may have for biases, once for each list that is current; nil if that would be too much.
func (st *processState) biasesOf(x *executable, list []process.MappedFile, file *process.File) *unwind.Biases {
	b := &st.biases
	if !sameList(b.list, list) {
		if !sameList(st.p.Mappings(), list) {
			return x.countBiases(list, file) // of a sample that waited; others may have other lists
		}
		*b = biases{list: list, of: map[uint64]*unwind.Biases{}}
	}
	if known, ok := b.of[x.serial]; ok {
		return known
	}
	if len(b.of) >= maxBiased || b.count >= maxBiases {
		return nil
	}
	n := x.countBiases(list, file)
	b.of[x.serial] = n
	b.count += n.Len()
	return n
}

func (x *executable) countBiases(list []process.MappedFile, file *process.File) *unwind.Biases {
	var b unwind.Biases
	n := 0
	for i := range list {
		if list[i].File != file {
			continue
		}
		b.Add(list[i].Mapping, x.segments, uint64(pageSize))
		if n++; n >= maxSiblings {
			break
		}
	}
	return &b
}
