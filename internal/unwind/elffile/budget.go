package elffile

import (
	"fmt"
	"runtime"
)

// Budget bounds the memory that the work on one file takes at a time: whatever reads a part of the file or grows with it
// asks first. What was given back counts until the garbage collector has run, which the Budget makes it do before it
// refuses. A nil *Budget refuses nothing. It is for one goroutine at a time.
type Budget struct {
	file    string
	limit   uint64
	used    uint64
	garbage uint64 // given back, and perhaps not collected yet
}

// NewBudget returns a budget of so many bytes; file is for errors.
func NewBudget(file string, bytes uint64) *Budget { return &Budget{file: file, limit: bytes} }

// TooLargeError says which part of a file would have passed a Budget. It is an ErrTooLarge.
type TooLargeError struct {
	File, Part   string
	Bytes        uint64 // that the part needs
	Used, Budget uint64 // bytes
}

// Error names file, part and sizes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %s of %d bytes, beside %d, does not fit the budget of %d: %v", e.File, e.Part, e.Bytes, e.Used,
		e.Budget, ErrTooLarge)
}

// Unwrap returns ErrTooLarge.
func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// Take asks for n bytes more for a part of the file. It returns a *TooLargeError, and takes nothing, if they do not fit.
func (b *Budget) Take(n uint64, part string) error {
	if b == nil {
		return nil
	}
	if n > b.limit-b.used {
		return b.refusal(n, part)
	}
	if b.garbage > 0 && n > b.limit-min(b.used+b.garbage, b.limit) {
		runtime.GC() // it is about to become as much as the budget, so that this is rare
		b.garbage = 0
	}
	b.used += n
	return nil
}

// refusal says that n bytes for a part do not fit.
func (b *Budget) refusal(n uint64, part string) *TooLargeError {
	return &TooLargeError{b.file, part, n, b.used, b.limit}
}

// Give gives n bytes back, which nothing refers to any more.
func (b *Budget) Give(n uint64) {
	if b != nil {
		n = min(n, b.used)
		b.used -= n
		b.garbage = min(b.garbage+n, b.limit)
	}
}

// Keep gives everything back but n bytes.
func (b *Budget) Keep(n uint64) {
	if b != nil && n < b.used {
		b.Give(b.used - n)
	}
}

// Left is how many bytes can be taken; as many as there may be if the Budget is nil.
func (b *Budget) Left() uint64 {
	if b == nil {
		return 1<<64 - 1
	}
	return b.limit - b.used
}

// Used is how many bytes were taken and not given back.
func (b *Budget) Used() uint64 {
	if b == nil {
		return 0
	}
	return b.used
}

// Within returns f with a budget, which bounds what SectionData returns and what builders of tables hold. They share
// their headers.
func (f *File) Within(b *Budget) *File {
	g := *f
	g.budget = b
	return &g
}

// Budget is what Within was given; nil without it.
func (f *File) Budget() *Budget { return f.budget }
