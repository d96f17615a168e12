package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
)

// printer prints tables one below the other.
type printer struct {
	client live.Source
	settings
	out   io.Writer
	say   io.Writer // for what is wrong
	width int       // 0: nothing is cut
	utf8  bool
}

// said is an error that somebody has been told of already.
type said struct{ error }

// Ends of -once without a table.
var (
	errNothingYet      = errors.New("there are no profiles yet")
	errNothingSelected = errors.New("nothing is selected")
)

func (p *printer) run(ctx context.Context) error {
	var known live.Generation
	last := ""
	answered := false
	for {
		started := time.Now()
		r := p.request
		r.Known = known
		d, err := live.Fetch(ctx, p.client, r)
		if ctx.Err() != nil {
			return nil
		}
		var why []text.Safe
		gone := false
		switch {
		case err != nil:
			why = problem(err)
			known = live.Generation{}
			// Who reads a pipe does not see that this waits. Later there was something, and it may come back.
			gone = !answered && p.width == 0
		case d.Status.Window.To == 0 || len(*d.Status.Types) == 0:
			why, err = view.Waiting(d.Status), errNothingYet
		default:
			why = view.Troubles(d.Status)
			if d.Unchanged {
				break
			}
			known = d.Generation
			if p.once && d.Nothing(p.request) {
				why, err = append(why, p.nothing(ctx, d)...), errNothingSelected
				break
			}
			if err := p.print(d); err != nil {
				return err
			}
		}
		answered = answered || d != nil
		now := withoutCounts(why)
		if now != last { // what stays wrong is said once
			p.tell(why)
		}
		if last = now; p.once || gone {
			if err != nil {
				err = said{err}
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(p.interval, view.Slowdown*time.Since(started))):
		}
	}
}

// withoutCounts is what lines say beside numbers, which change while it stays the same.
func withoutCounts(lines []text.Safe) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' || r == ',' {
				return -1
			}
			return r
		}, string(l)+"\n"))
	}
	return b.String()
}

// problem says what is wrong and what to do about it.
func problem(err error) []text.Safe {
	var p *api.Problem
	if !errors.As(err, &p) {
		return []text.Safe{text.Clean(err.Error())}
	}
	return append([]text.Safe{p.Sentence}, view.Advice(p.Kind)...)
}

// nothing says which of the filters is to blame that nothing is selected.
func (p *printer) nothing(ctx context.Context, d *live.Data) []text.Safe {
	misses, err := live.FindMisses(ctx, p.client, d, p.request)
	if err != nil {
		return problem(err)
	}
	return view.Missing(p.request, misses)
}

func (p *printer) tell(lines []text.Safe) {
	for _, l := range lines {
		fmt.Fprintln(p.say, "hostprofiles-top: "+p.encode(l))
	}
}

func (p *printer) print(d *live.Data) error {
	w := bufio.NewWriter(p.out)
	for _, l := range view.Plain(d, p.request, p.rows, p.width) {
		fmt.Fprintln(w, p.encode(l))
	}
	if !p.once {
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}

func (p *printer) encode(t text.Safe) string {
	if !p.utf8 {
		t = text.ASCII(t)
	}
	return string(t)
}

// terminalWidth tells whether f is a terminal, and how wide.
func terminalWidth(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Col == 0 { // a serial line does not know
		return 80, true
	}
	return int(size.Col), true
}
