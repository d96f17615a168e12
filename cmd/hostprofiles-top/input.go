package main

import (
	"errors"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
)

// input is a terminal of which reading can be ended before the library is asked to: it would wait for ever for a reader that
// has read more than is taken from it.
type input struct {
	tcell.Tty

	mu      sync.Mutex
	ending  bool
	reading bool // waiting for what is typed
	ended   bool
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
	n, err := i.Tty.Read(b)
	if !i.enter(false) {
		return 0, errQuiet
	}
	return n, err
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
