package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/gdamore/tcell/v2/terminfo"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
)

// screen is a terminal that was taken over.
type screen struct {
	tcell.Screen
	in *input
}

// openScreen takes the terminal over, if it is one that lets the cursor be moved.
func openScreen() (*screen, error) {
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII) // locales whose encoding is not known here
	info, err := tcell.LookupTerminfo(os.Getenv("TERM"))
	if err != nil {
		return nil, err
	}
	device, err := tcell.NewDevTty()
	if err != nil {
		return nil, err
	}
	in := &input{Tty: device}
	out, err := tcell.NewTerminfoScreenFromTtyTerminfo(in, withoutPadding(*info))
	if err != nil {
		return nil, err
	}
	if err := out.Init(); err != nil {
		out.Fini()
		return nil, err
	}
	return &screen{out, in}, nil
}

// withoutPadding takes the pauses out of what is sent to a terminal. They are for machines of paper and lead: waiting 5 ms
// after each movement of the cursor, a screen of a vt100 takes half a minute.
func withoutPadding(info terminfo.Terminfo) *terminfo.Terminfo {
	padding := regexp.MustCompile(`\$<[0-9.]+[*/]*>`)
	v := reflect.ValueOf(&info).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.CanSet() {
			f.SetString(padding.ReplaceAllString(f.String(), ""))
		}
	}
	return &info
}

// terminal is the edge between the model and a screen.
type terminal struct {
	screen  tcell.Screen
	in      *input
	events  chan tcell.Event
	model   *view.Model
	source  live.Source
	ctx     context.Context
	utf8    bool
	colours bool
	results chan view.Result
	cancel  context.CancelFunc // of the request that is under way
}

// pending is how many events wait while one is handled.
const pending = 256

// tick is how often time is looked at.
const tick = 250 * time.Millisecond

// show runs the live view until somebody ends it or the context does.
func show(ctx context.Context, source interface {
	live.Source
	Address() text.Safe
}, s settings, screen *screen, utf8 bool) (err error) {
	t := &terminal{
		screen: screen.Screen, in: screen.in, events: make(chan tcell.Event, pending), source: source, ctx: ctx, utf8: utf8, colours: os.Getenv("NO_COLOR") == "" && screen.Colors() >= 8,
		results: make(chan view.Result, 1),
		model:   view.New(view.Options{Address: source.Address(), Interval: s.interval, Request: s.request}),
	}
	defer t.restore() // runs on a panic too, before it is printed
	go screen.ChannelEvents(t.events, nil)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	width, height := screen.Size()
	t.update(view.Resize{Width: width, Height: height})
	for {
		if len(t.events) == 0 { // not between keys that were pasted, or pressed faster than a slow line shows them
			t.draw()
		}
		quit := false
		select {
		case <-ctx.Done():
			return nil
		case r := <-t.results:
			quit = t.update(r)
		case <-ticker.C:
			quit = t.update(view.Tick{})
		case e, ok := <-t.events:
			if !ok {
				return nil
			}
			if gone, isError := e.(*tcell.EventError); isError && gone.Error() != errQuiet.Error() {
				return fmt.Errorf("reading the terminal: %w", gone)
			}
			quit = t.event(e)
		}
		if quit {
			return nil
		}
	}
}

// restore gives the terminal back as it was.
func (t *terminal) restore() {
	if t.cancel != nil {
		t.cancel()
	}
	t.release(t.screen.Fini)
}

// settled is how long nothing may have come from the terminal until what was typed before is taken to be read.
const settled = 50 * time.Millisecond

// release has fn give the terminal back. The library waits then for its reader, which waits for whoever takes what it has read, and
// nobody does so any more: so what is still being typed is dropped before.
func (t *terminal) release(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.in.quiet()
	}()
	quiet := time.NewTimer(settled)
	defer quiet.Stop()
	for read := false; ; {
		select {
		case _, ok := <-t.events:
			if !ok { // the library has ended by itself
				if !read {
					<-done
				}
				fn()
				return
			}
			quiet.Reset(settled)
		case <-done:
			done, read = nil, true
			quiet.Reset(settled)
		case <-quiet.C:
			if read {
				fn()
				return
			}
		}
	}
}

// event turns what the terminal says into a message.
func (t *terminal) event(e tcell.Event) (quit bool) {
	switch e := e.(type) {
	case *tcell.EventResize:
		w, h := e.Size()
		t.screen.Sync()
		return t.update(view.Resize{Width: w, Height: h})
	case *tcell.EventKey:
		for _, k := range keysOf(e) {
			if t.update(k) {
				return true
			}
		}
	}
	return false
}

// update gives the model a message and does what it wants.
func (t *terminal) update(m view.Message) (quit bool) {
	e := t.model.Update(time.Now(), m)
	if e.Cancel && t.cancel != nil {
		t.cancel()
	}
	if e.Fetch != nil {
		t.fetch(*e.Fetch, e.Seq)
	}
	if e.Suspend {
		t.suspend()
	}
	if e.Redraw {
		t.screen.Sync()
	}
	return e.Quit
}

// fetch asks in the background; there is one request at a time.
func (t *terminal) fetch(r live.Request, seq int) {
	ctx, cancel := context.WithCancel(t.ctx)
	t.cancel = cancel
	go func() {
		defer cancel()
		d, err := fetchSafely(ctx, t.source, r)
		t.results <- view.Result{Seq: seq, Data: d, Err: err}
	}()
}

// fetchSafely makes a defect in reading an answer an error of this one request: a panic in the background would leave the
// terminal as it is now.
func fetchSafely(ctx context.Context, source live.Source, r live.Request) (d *live.Data, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading an answer failed: %v", p)
		}
	}()
	return live.Fetch(ctx, source, r)
}

// suspend stops this process as ^Z does, and goes on when the shell says so.
func (t *terminal) suspend() {
	t.release(func() { _ = t.screen.Suspend() }) // it has no way to fail
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if err := syscall.Kill(0, syscall.SIGTSTP); err == nil { // with who started this, as sudo
		select {
		case <-resumed:
		case <-time.After(time.Second): // nobody may stop here: a session without a shell
		}
	}
	if err := t.screen.Resume(); err == nil {
		t.screen.Sync()
	}
}

func (t *terminal) draw() {
	t.screen.HideCursor()
	width, height := t.screen.Size()
	for y, line := range t.model.View() {
		if y < height {
			t.line(y, width, line)
		}
	}
	t.screen.Show()
}

// line draws one, character by character: a character takes the cells that belong to it, whatever it is.
func (t *terminal) line(y, width int, l view.Line) {
	x := 0
	for _, s := range l.Spans {
		style := t.style(s.Style)
		if l.Fill != view.Normal {
			style = t.style(l.Fill)
		}
		shown := s.Text
		if !t.utf8 {
			shown = text.ASCII(shown)
		}
		for _, r := range shown {
			w := text.Width(text.Safe(string(r)))
			if x+w > width {
				return
			}
			t.screen.SetContent(x, y, r, nil, style)
			x += w
		}
	}
	rest := tcell.StyleDefault
	if l.Fill != view.Normal {
		rest = t.style(l.Fill)
	}
	for ; x < width; x++ {
		t.screen.SetContent(x, y, ' ', nil, rest)
	}
}

// style is how a meaning looks. Only the sixteen colours of the terminal's own theme are used, and nothing is told by colour
// alone.
func (t *terminal) style(s view.Style) tcell.Style {
	d := tcell.StyleDefault
	switch s {
	case view.Dim:
		return d.Dim(true)
	case view.Strong:
		return d.Bold(true)
	case view.Heading:
		return d.Reverse(true)
	case view.Selected:
		return d.Reverse(true).Bold(true)
	case view.Warn:
		d = d.Bold(true)
	}
	if !t.colours {
		return d
	}
	switch s {
	case view.Warn, view.Up:
		return d.Foreground(tcell.ColorMaroon)
	case view.Down, view.JavaScript:
		return d.Foreground(tcell.ColorGreen)
	case view.Kernel:
		return d.Foreground(tcell.ColorOlive)
	case view.Go:
		return d.Foreground(tcell.ColorTeal)
	case view.Python, view.JVM, view.OtherRuntime:
		return d.Foreground(tcell.ColorPurple)
	}
	return d
}
