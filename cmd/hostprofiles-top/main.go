// hostprofiles-top shows the hottest functions of a host in a terminal, live, as the flamegraph exporter of a collector knows
// them. docs/terminal-view.md tells how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/view"
)

// settings are what the command line says.
type settings struct {
	url      string
	interval time.Duration
	timeout  time.Duration
	once     bool
	plain    bool
	rows     int
	request  live.Request
}

func main() {
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	// Whatever ends this ends the context, so that there is one way out, on which the terminal becomes what it was.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	err = run(ctx, s)
	stop()
	if err != nil {
		if !errors.As(err, &said{}) {
			fmt.Fprintln(os.Stderr, "hostprofiles-top: "+text.Clean(err.Error()))
		}
		os.Exit(1)
	}
}

// parse reads the command line, and says on out what is wrong with it.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	var process, pid, thread string
	fs := flag.NewFlagSet("hostprofiles-top", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&s.url, "url", "http://127.0.0.1:4041", "`address` of the flamegraph exporter")
	fs.DurationVar(&s.interval, "interval", 2*time.Second, "time between refreshes")
	fs.DurationVar(&s.timeout, "timeout", 5*time.Second, "how long an answer may take")
	fs.DurationVar(&s.request.Window, "window", time.Minute, "length of time that is looked at: 10s, 1m, 5m or 15m")
	fs.StringVar(&s.request.Order, "sort", "self", "`order` of functions: "+strings.Join(view.Orders(), ", "))
	fs.StringVar(&s.request.Search, "search", "", "functions: part of a name, file or library, or /re/")
	fs.StringVar(&process, "process", "", "only the process of this executable's `name`")
	fs.Func("pid", "only the process of this `number`", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return errors.New("it must be a number from 1")
		}
		pid = strconv.FormatUint(n, 10)
		return nil
	})
	fs.StringVar(&thread, "thread", "", "only threads of this `name`")
	fs.BoolVar(&s.request.Compare, "compare", false, "compare with the window before")
	fs.BoolVar(&s.once, "once", false, "print one table and end")
	fs.BoolVar(&s.plain, "plain", false, "print a table every interval, as on a terminal that can only print")
	fs.IntVar(&s.rows, "rows", 20, "rows of a printed table")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	for _, f := range []api.Filter{{Key: live.KeyProcess, Value: process}, {Key: live.KeyPID, Value: pid}, {Key: live.KeyThread, Value: thread}} {
		if f.Value != "" {
			s.request.Filters = append(s.request.Filters, f)
		}
	}
	if err := s.validate(fs.Args()); err != nil {
		fmt.Fprintln(out, "hostprofiles-top: "+text.Clean(err.Error()))
		return s, err
	}
	if s.request.Order == "diff" {
		s.request.Compare = true
	}
	return s, nil
}

func (s *settings) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is not understood; -help lists what is", rest[0])
	case s.interval < 100*time.Millisecond || s.interval > time.Hour:
		return fmt.Errorf("-interval is %s; it must be from 100ms to 1h", s.interval)
	case s.timeout < 100*time.Millisecond || s.timeout > time.Hour:
		return fmt.Errorf("-timeout is %s; it must be from 100ms to 1h", s.timeout)
	case !slices.Contains(view.Windows(), s.request.Window):
		return fmt.Errorf("-window is %s; it must be 10s, 1m, 5m or 15m", s.request.Window)
	case !slices.Contains(view.Orders(), s.request.Order):
		return fmt.Errorf("-sort is %q; it must be one of %s", s.request.Order, strings.Join(view.Orders(), ", "))
	case s.rows < 1 || s.rows > 500:
		return fmt.Errorf("-rows is %d; it must be from 1 to 500", s.rows)
	}
	return nil
}

// run shows what there is on the terminal, or prints it.
func run(ctx context.Context, s settings) error {
	client, err := api.New(s.url, s.timeout)
	if err != nil {
		return err
	}
	p := printer{client: client, settings: s, out: os.Stdout, say: os.Stderr, utf8: true}
	if width, ok := terminalWidth(os.Stdout); ok {
		p.width, p.utf8 = width, localeIsUTF8(os.Getenv)
		if !s.once && !s.plain && canMoveCursor(os.Getenv("TERM")) {
			screen, err := openScreen()
			if err == nil {
				return show(ctx, client, s, screen, p.utf8)
			}
			fmt.Fprintf(os.Stderr, "hostprofiles-top: this terminal can only print: %s\n", text.Clean(err.Error()))
		}
	}
	return p.run(ctx)
}

// canMoveCursor tells of what TERM says whether it is worth a try.
func canMoveCursor(term string) bool { return term != "" && term != "dumb" && term != "unknown" }

// localeIsUTF8 tells whether the terminal takes UTF-8. Others would take some of its bytes for control characters.
func localeIsUTF8(getenv func(string) string) bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(key)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
