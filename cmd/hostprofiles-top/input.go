package main

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
)

// input is a terminal that is read as the library can take it. Reading can be ended before the library is asked to end: it would
// wait for ever for a reader that has read more than is taken from it.
type input struct {
	tcell.Tty

	mu      sync.Mutex
	ending  bool
	reading bool // waiting for what is typed
	ended   bool

	rest []byte // was read but not passed on; the reader's alone
}

// errQuiet ends reading; it is not the terminal's.
var errQuiet = errors.New("nothing more is read")

// Start takes the terminal over, or takes it over again.
func (i *input) Start() error {
	i.mu.Lock()
	i.ending, i.ended = false, false
	i.mu.Unlock()
	return i.Tty.Start()
}

func (i *input) Read(b []byte) (int, error) {
	if !i.enter(true) {
		return 0, errQuiet
	}
	n, err := i.read(b)
	if !i.enter(false) {
		return 0, errQuiet
	}
	return n, err
}

// escapeTime is longer than the library waits for what may follow an escape character.
const escapeTime = 80 * time.Millisecond

// read ends what it returns between two escape characters. The library takes two at once, as they come over a slow line when
// Escape is pressed twice, for the beginning of something and swallows the next key.
func (i *input) read(b []byte) (n int, err error) {
	if len(i.rest) > 0 {
		time.Sleep(escapeTime)
		n = copy(b, i.rest)
		i.rest = i.rest[n:]
	} else if n, err = i.Tty.Read(b); err != nil {
		return n, err
	}
	if at := bytes.Index(b[:n], []byte("\x1b\x1b")); at >= 0 {
		i.rest = append(bytes.Clone(b[at+1:n]), i.rest...)
		n = at + 1
	}
	return n, nil
}

func (i *input) enter(reading bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = i.ending
	i.reading = reading && !i.ending
	return !i.ending
}

// longest is how long to wait for a reader.
const longest = 2 * time.Second

// quiet lets nothing more in. When it returns, the reader waits for what is typed, or has ended.
func (i *input) quiet() {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
		i.mu.Lock()
		i.ending = true
		done := i.reading || i.ended
		i.mu.Unlock()
		if done {
			return
		}
	}
}
