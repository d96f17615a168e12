package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
)

// patience is how long to wait for what comes at once on a machine that has nothing else to do.
const patience = 2 * time.Minute

// panicURL in the environment has this test's binary show the live view of that server and panic.
const panicURL = "HOSTPROFILES_TOP_PANIC_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(panicURL); url != "" {
		panicOnTerminal(url)
	}
	os.Exit(m.Run())
}

// clumsy is a screen on which drawing fails after a while.
type clumsy struct {
	tcell.Screen
	left int
}

func (c *clumsy) Show() {
	if c.left--; c.left < 0 {
		panic("a defect of the view")
	}
	c.Screen.Show()
}

func panicOnTerminal(url string) {
	client, err := api.New(url, patience)
	if err != nil {
		panic(err)
	}
	screen, err := openScreen()
	if err != nil {
		panic(err)
	}
	screen.Screen = &clumsy{screen.Screen, 3}
	err = show(context.Background(), client, settings{interval: time.Second, request: live.Request{Window: time.Minute}}, screen, true)
	panic(fmt.Sprintf("it went on: %v", err))
}

// command is one that runs on a terminal of its own.
type command struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	before unix.Termios
	done   chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func onTerminal(t *testing.T, width, height uint16, env []string, name string, args ...string) *command {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close() })
	c := &command{t: t, master: master, slave: slave, done: make(chan error, 1)}
	c.resize(width, height)
	c.before = c.state()

	c.cmd = exec.Command(name, args...)
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	go func() { c.done <- c.cmd.Wait() }()
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			c.mu.Lock()
			c.out.Write(b[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *command) resize(width, height uint16) {
	require.NoError(c.t, unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}))
}

func (c *command) state() unix.Termios {
	s, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	require.NoError(c.t, err)
	return *s
}

func (c *command) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

func (c *command) press(keys string) {
	_, err := c.master.WriteString(keys)
	require.NoError(c.t, err)
}

// sees waits for text, as it is without what moves the cursor and colours. Only what comes after this call is looked at, and
// everything is drawn anew for it.
func (c *command) sees(wanted string) {
	c.t.Helper()
	from := len(c.output())
	end := time.Now().Add(patience)
	for i := 0; ; i++ {
		if strings.Contains(shown(c.output()[from:]), wanted) {
			return
		}
		if time.Now().After(end) {
			out := c.output()[from:]
			require.Fail(c.t, "it does not come", "%q in %q", wanted, out[max(len(out)-4000, 0):])
		}
		if i%10 == 0 {
			c.press("\x0c")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// escape is what the library itself sends.
var escape = regexp.MustCompile(`\x1b\[[0-9;:?<>=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]`)

// shown is what is left of output without them. Before a wide character the library clears the place for it.
func shown(out string) string {
	return strings.ReplaceAll(escape.ReplaceAllString(out, ""), "  \b\b", "")
}

func (c *command) ends() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		// What it wrote last comes before this.
		const mark = "(this was all)"
		_, failed := c.slave.WriteString(mark)
		require.NoError(c.t, failed)
		require.Eventually(c.t, func() bool { return strings.HasSuffix(c.output(), mark) }, patience, 10*time.Millisecond)
		return err
	case <-time.After(patience):
		require.Fail(c.t, "it does not end")
		return nil
	}
}

// restored checks that the terminal is as it was: its modes, the screen that was there before, the cursor.
func (c *command) restored() {
	c.t.Helper()
	require.Equal(c.t, c.before, c.state())
	out := c.output()
	last := func(s string) int { return strings.LastIndex(out, s) }
	require.Positive(c.t, last("\x1b[?1049l"))
	require.Greater(c.t, last("\x1b[?1049l"), last("\x1b[?1049h"), "the screen from before")
	require.Greater(c.t, last("\x1b[?25h"), last("\x1b[?25l"), "the cursor")
	for _, mode := range []string{"1000", "1002", "1003", "1006", "2004", "1004", "9001"} {
		require.GreaterOrEqual(c.t, last("\x1b[?"+mode+"l"), last("\x1b[?"+mode+"h"), mode)
	}
}

func build(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "hostprofiles-top")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func serve(t *testing.T, s *fakeserver.Server) string {
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func TestTerminal(t *testing.T) {
	program := build(t)
	url := serve(t, fakeserver.Normal())
	xterm := []string{"TERM=xterm-256color", "LANG=C.UTF-8"}

	t.Run("session", func(t *testing.T) {
		c := onTerminal(t, 80, 24, xterm, program, "-url", url, "-interval", "200ms")
		c.sees("parse_request")
		require.NotEqual(t, c.before, c.state(), "keys come one by one")
		c.press("j\r")
		c.sees("AROUND std::vector<>::push_back")
		c.press("\x1b\x1b")
		c.sees("FUNCTIONS by self")
		c.press("\r")
		c.sees("AROUND")
		c.press("\x1bG") // at once, as over a slow line
		c.sees("FUNCTIONS by self")
		c.sees("15/15")
		c.press("2")
		c.sees("バッチ処理")
		c.press("1/write\r")
		c.sees("search write on 17.9% of stacks")
		c.resize(120, 40)
		c.sees("FILE:LINE")
		c.resize(3, 2)
		c.resize(80, 24)
		c.sees("FUNCTIONS by self")
		c.press("q")
		require.NoError(t, c.ends())
		c.restored()
	})
	for name, out := range map[string]func(c *command){
		"^C":                func(c *command) { c.press("\x03") },
		"^C in kitty's way": func(c *command) { c.press("\x1b[99;5u") },
		"SIGTERM":           func(c *command) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":            func(c *command) { _ = c.cmd.Process.Signal(syscall.SIGHUP) },
		"SIGINT":            func(c *command) { _ = c.cmd.Process.Signal(syscall.SIGINT) },
		"typing on":         func(c *command) { c.press(strings.Repeat("jk", 2000) + "q" + strings.Repeat("jk", 1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := onTerminal(t, 80, 24, xterm, program, "-url", url)
			c.sees("parse_request")
			out(c)
			require.NoError(t, c.ends())
			c.restored()
		})
	}
	t.Run("suspended", func(t *testing.T) {
		c := onTerminal(t, 80, 24, xterm, program, "-url", url)
		c.sees("parse_request")
		from := len(c.output())
		c.press("\x1a")
		require.Eventually(t, func() bool { return strings.Contains(c.output()[from:], "\x1b[?1049l") }, patience, 10*time.Millisecond)
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		c.sees("parse_request")
		c.press("q")
		require.NoError(t, c.ends())
		c.restored()
	})
	t.Run("nobody", func(t *testing.T) {
		c := onTerminal(t, 80, 24, xterm, program, "-url", "127.0.0.1:1")
		c.sees("nothing listens at 127.0.0.1:1")
		c.press("q")
		require.NoError(t, c.ends())
		c.restored()
	})
	for _, term := range []string{"dumb", "", "nonsense-terminal"} {
		t.Run("TERM="+term, func(t *testing.T) {
			c := onTerminal(t, 80, 24, []string{"TERM=" + term, "LANG=C.UTF-8"}, program, "-url", url)
			c.sees("parse_request")
			_ = c.cmd.Process.Signal(syscall.SIGINT)
			require.NoError(t, c.ends())
			require.NotContains(t, c.output(), "\x1b")
			require.Equal(t, c.before, c.state())
		})
	}
}

func TestPanicRestoresTheTerminal(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := onTerminal(t, 80, 24, []string{"TERM=xterm-256color", "LANG=C.UTF-8", panicURL + "=" + serve(t, fakeserver.Normal())}, self)
	require.Error(t, c.ends())
	c.restored()
	out := c.output()
	require.Greater(t, strings.Index(out, "a defect of the view"), strings.LastIndex(out, "\x1b[?1049l"), "the message stays to be read")
}

// TestNothingOfANameReachesTheTerminal shows the hostile names on a terminal: all that it gets are the library's own sequences.
// Without colours none of those sets one, as the names do.
func TestNothingOfANameReachesTheTerminal(t *testing.T) {
	program := build(t)
	url := serve(t, fakeserver.Hostile())
	for _, locale := range []string{"C.UTF-8", "C"} {
		for _, term := range []string{"xterm-256color", "tmux-256color", "vt100", "dumb"} {
			t.Run(term+" "+locale, func(t *testing.T) {
				c := onTerminal(t, 120, 40, []string{"TERM=" + term, "LC_ALL=" + locale, "NO_COLOR=1"}, program, "-url", url, "-interval", "200ms")
				c.sees("owned")
				if term != "dumb" {
					for _, step := range []struct{ key, sees string }{
						{"i", "HEALTH"}, {"x", "FUNCTIONS"}, {"p", "Choose a process"}, {"\x1b[B", "owned"}, {"\r", " 1,000 samples"},
						{"P", "KERNEL   PID"}, {"P", "KERNEL   PROCESS"}, {"\r", "1/2"}, {"j", "2/2"}, {"\r", "AROUND"}, {"\x1b[B", "AROUND"}, {"c", "vs the 1 min before"},
					} {
						c.press(step.key)
						c.sees(step.sees)
					}
					c.press("\x03")
				} else {
					_ = c.cmd.Process.Signal(syscall.SIGTERM)
				}
				require.NoError(t, c.ends())
				require.Equal(t, c.before, c.state())
				checkInert(t, c.output(), locale == "C.UTF-8")
			})
		}
	}
}

func checkInert(t *testing.T, out string, utf8 bool) {
	for _, s := range regexp.MustCompile(`\x1b\[[0-9;:]*m`).FindAllString(out, -1) {
		require.NotRegexp(t, `[\[;](3[0-8]|4[0-8]|9[0-7])[;m:]`, s, "a colour")
	}
	rest := strings.NewReplacer("\x1b]8;;\x1b\\", "", "\x0f", "", "\x0e", "").Replace(shown(out)) // links, character sets
	for _, r := range rest {
		require.False(t, r < ' ' && r != '\n' && r != '\r' || 0x7f <= r && r < 0xa0, "%q in %q", r, rest)
		require.True(t, utf8 || r < 0x80, "%q in %q", r, rest)
	}
	require.NotContains(t, out, "title\x07")
	require.NotContains(t, out, "\x1b[31mred")
}

func TestPrinted(t *testing.T) {
	program := build(t)
	url := serve(t, fakeserver.Normal())
	run := func(args ...string) (string, string, int) {
		cmd := exec.Command(program, append([]string{"-timeout", patience.String()}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	out, errs, code := run("-once", "-url", url, "-rows", "3")
	require.Zero(t, code)
	require.Empty(t, errs)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 5)
	require.Contains(t, out, "/src/web/parse.c:88")
	out, _, code = run("-once", "-url", url, "-process", "db", "-sort", "total", "-compare")
	require.Zero(t, code)
	require.NotContains(t, out, "parse_request")
	require.Contains(t, out, "DIFF")
	out, errs, code = run("-once", "-url", url, "-pid", "102")
	require.Zero(t, code, errs)
	require.Contains(t, out, "  300 samples")
	require.NotContains(t, out, "ksys_write", "of another process of the name")

	_, errs, code = run("-once", "-url", "127.0.0.1:1")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "nothing listens at 127.0.0.1:1\n")
	require.Contains(t, errs, "make run")
	_, errs, code = run("-once", "-url", serve(t, &fakeserver.Server{Now: 5}))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "No profiles yet.")
	out, errs, code = run("-url", "127.0.0.1:1")
	require.Equal(t, 1, code, "nobody sees that a pipe waits")
	require.Empty(t, out)
	require.Contains(t, errs, "nothing listens at 127.0.0.1:1\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-process", "typo"}, "nothing is selected: there are no samples of process typo in the last 1 min\n"},
		{[]string{"-process", "typo", "-thread", "x\x1b", "-search", "nonsense"}, "no samples of process typo in the last 1 min\n" +
			"hostprofiles-top: nothing is selected: there are no samples of thread x? in the last 1 min\n" +
			"hostprofiles-top: nothing is selected: no function in the last 1 min matches nonsense\n"},
		{[]string{"-process", "db", "-pid", "4"}, "nothing is selected: there are no samples of pid 4 in the last 1 min\n"},
		{[]string{"-process", "web", "-thread", "typo"}, "no samples of thread typo in the last 1 min\n"},
		{[]string{"-process", "web", "-search", "typo"}, "no function in the last 1 min matches typo\n"},
		{[]string{"-process", "web", "-thread", "db-io", "-search", "parse"}, "samples of each, but none of all at once: process web, thread db-io, function parse\n"},
		{[]string{"-process", "worker-1"}, "no samples of process worker-1 in the last 1 min, but there are of thread worker-1: -thread\n"},
	} {
		out, errs, code = run(append(c.args, "-once", "-url", url)...)
		require.Equal(t, 1, code, "%q", c.args)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
	for _, wrong := range [][]string{{"-window", "7s"}, {"-sort", "x"}, {"-interval", "1ns"}, {"-rows", "0"}, {"extra\x1b[2J"}, {"-nonsense"}, {"-timeout", "0s"}, {"-pid", "web"}} {
		_, errs, code = run(wrong...)
		require.Equal(t, 2, code, "%q", wrong)
		require.NotEmpty(t, errs)
		require.NotContains(t, errs, "\x1b")
	}
	_, errs, code = run("-url", "ftp://x")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "is no address of a server")
	_, errs, code = run("-help")
	require.Zero(t, code)
	require.Contains(t, errs, "-url")
}

// TestPrintedAgainAndAgain shows that a table comes with new data only, and that what is wrong is said once.
func TestPrintedAgainAndAgain(t *testing.T) {
	server := fakeserver.Normal()
	h := httptest.NewServer(server)
	client, err := api.New(h.URL, patience)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var out, said locked
	p := printer{client: client, out: &out, say: &said, utf8: true,
		settings: settings{interval: 5 * time.Millisecond, rows: 2, request: live.Request{Window: time.Minute, Order: "self"}}}
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	count := func(l *locked, s string) func() int { return func() int { return strings.Count(l.String(), s) } }
	tables, complaints := count(&out, "FUNCTION"), count(&said, "nothing listens")
	require.Eventually(t, func() bool { return tables() == 1 }, patience, time.Millisecond)
	again := func() { // it has asked, said and printed what there is
		asked := len(server.Asked())
		require.Eventually(t, func() bool { return len(server.Asked()) > asked+3 }, patience, time.Millisecond)
	}
	again()
	require.Equal(t, 1, tables())
	server.Change(func() { server.To++ })
	require.Eventually(t, func() bool { return tables() == 2 }, patience, time.Millisecond)
	for taken := range 5 { // counts that change do not make it another problem
		server.Change(func() {
			server.Receivers = []any{map[string]any{"name": "hostprofiles", "taken": taken, "problem": fmt.Sprintf("%d programs are\x1b[2J refused", taken)}}
		})
		require.Eventually(t, func() bool { return strings.Contains(said.String(), "programs are?[2J refused") }, patience, time.Millisecond)
		again()
	}
	require.Equal(t, 1, strings.Count(said.String(), "refused"))
	require.Equal(t, 2, tables())
	h.Close()
	require.Eventually(t, func() bool { return complaints() == 1 }, patience, time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, 1, complaints())
	cancel()
	require.NoError(t, <-ended)
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
