package pprof

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// intern returns the id of v, its place in the table.
func intern[T comparable](table *[]T, ids map[T]int32, v T) int32 {
	id, known := ids[v]
	if !known {
		id = int32(len(*table))
		*table = append(*table, v)
		ids[v] = id
	}
	return id
}

// lists gives equal lists of numbers the same id; id 0 is the empty list.
type lists struct {
	all [][]int32
	ids map[string]int32
	key []byte
}

func newLists() lists { return lists{all: [][]int32{nil}, ids: map[string]int32{}} }

// id returns the list's id and whether it is new. The list is copied.
func (l *lists) id(list []int32) (id int32, isNew bool) {
	if len(list) == 0 {
		return 0, false
	}
	l.key = l.key[:0]
	for _, v := range list {
		l.key = binary.LittleEndian.AppendUint32(l.key, uint32(v))
	}
	id, known := l.ids[string(l.key)]
	if !known {
		id = int32(len(l.all))
		l.all = append(l.all, append([]int32(nil), list...))
		l.ids[string(l.key)] = id
	}
	return id, !known
}

// texts gives equal strings the same id; id 0 is the empty string. A string is looked at once for each array of bytes that
// it is in: payloads refer to one long string from many places, and comparing its bytes every time would take minutes.
type texts struct {
	all    []string
	ids    map[string]int32
	byData map[data]int32
}

type data struct {
	first *byte
	size  int
}

func newTexts() texts {
	return texts{all: []string{""}, ids: map[string]int32{"": 0}, byData: map[data]int32{}}
}

// id returns the string's id, after check has made of it what is kept.
func (t *texts) id(s string, check func(string) (string, error)) (int32, error) {
	if s == "" {
		return 0, nil
	}
	d := data{unsafe.StringData(s), len(s)}
	if id, known := t.byData[d]; known {
		return id, nil
	}
	kept, err := check(s)
	if err != nil {
		return 0, err
	}
	id := intern(&t.all, t.ids, kept)
	t.byData[d] = id
	return id, nil
}

// budget bounds what a translation makes.
type budget struct{ limit, left int64 }

// take takes n times size bytes.
func (b *budget) take(n int, size int64) error {
	if size > 0 && int64(n) > b.left/size {
		return fmt.Errorf("the result would take more than %d bytes", b.limit)
	}
	b.left -= int64(n) * size
	return nil
}
