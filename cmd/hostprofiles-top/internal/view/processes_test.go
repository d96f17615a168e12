package view

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
)

// TestProcessesOneByOne shows the pids of one executable, each with its name, and that one can be chosen by either.
func TestProcessesOneByOne(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("2")
	require.Contains(t, s.screen(), "+ web ")
	require.Contains(t, s.screen(), "P by pid")
	s.keys("P")
	require.Contains(t, s.screen(), "PROCESSES by total, one by one")
	require.Regexp(t, `0\.73 +52\.4% +31\.8% \+ 101     web +parse_request <<<\n`, s.screen())
	require.Regexp(t, `0\.10 +7\.1% +0\.0% \+ 102     web +tolower\n`, s.screen())
	require.Contains(t, s.screen(), "P by name")
	s.keys("<enter>", "<down>", "<enter>")
	require.Contains(t, s.screen(), "AROUND parse_request  pid 101 web")
	require.Contains(t, s.screen(), "[web]", "around a function there are names as ever")
	s.keys("<esc>", "/", "102 w", "<enter>")
	require.Contains(t, s.screen(), "1/1\n")
	s.keys("<esc>", "/", "WEB", "<enter>", "<esc>", "ss")
	require.Contains(t, s.screen(), "by total, one by one")
	s.keys("P")
	require.NotContains(t, s.screen(), "101")
	s.keys("1P")
	require.Contains(t, s.screen(), "one by one", "from the functions, too")
	s.keys("1")
	require.Regexp(t, `parse_request +native +web`, s.screen())
	s.keys("p", "102 we", "<enter>")
	require.Contains(t, s.screen(), "pid 102 web")
	s.keys("2")
	require.Contains(t, s.screen(), "1/1\n")
	require.Regexp(t, `102     web +tolower`, s.screen())
}

// TestEnterBeforeTheList shows that a row of the list from before is not taken for one of the list that is asked for.
func TestEnterBeforeTheList(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("2")
	e := s.m.Update(s.now, Key{Rune, 'P'})
	require.True(t, e.Fetch.ByPID)
	s.m.Update(s.now, Key{Code: Enter})
	require.Nil(t, s.m.request.Expanded)
	require.Contains(t, s.screen(), "the list is on its way")
}

// TestPidsWithoutNames shows what servers that do not tell names get: numbers.
func TestPidsWithoutNames(t *testing.T) {
	server := fakeserver.Normal()
	for i := range server.Samples {
		server.Samples[i].Process = ""
	}
	s := start(t, server, 80, 24)
	s.keys("P")
	require.Regexp(t, `52\.4% +31\.8% \+ 101 +parse_request`, s.screen())
	s.keys("p", "10")
	require.Contains(t, s.screen(), "pid 101 <<<\n")
}

// TestNamesOfThreads shows that who looks for a script among processes is shown the thread of that name.
func TestNamesOfThreads(t *testing.T) {
	server := fakeserver.Normal()
	server.Samples[0].Thread = "shloop.sh"
	s := start(t, server, 80, 24)
	s.keys("p", "SHLOOP")
	require.Contains(t, s.screen(), "  35.7%    0.50  thread shloop.sh <<<")
	s.keys("<enter>")
	require.Equal(t, []api.Filter{{Key: live.KeyThread, Value: "shloop.sh"}}, s.m.request.Filters)
	require.Contains(t, s.screen(), "parse_request")
	s.keys("<esc>", "p", "db", "<enter>", "p", "shloop.sh")
	require.Contains(t, s.screen(), "     not listed  thread shloop.sh <<<", "it is none of the process that is filtered by")
	s.keys("<enter>")
	require.Equal(t, []api.Filter{{Key: live.KeyThread, Value: "shloop.sh"}}, s.m.request.Filters)
	require.Contains(t, s.screen(), "parse_request")
	s.keys("<esc>", "p", "web")
	require.NotContains(t, s.screen(), "thread web", "a process comes first")
	s.keys("<enter>", "p", "200")
	require.Contains(t, s.screen(), "     not listed  pid 200 <<<", "numbers are pids, and those of others are not known")
	s.keys("<enter>", "p", "nginx")
	require.Contains(t, s.screen(), "     not listed  nginx <<<\n     not listed  thread nginx\n", "names of others are not known")
	s.keys("<esc>", "<esc>", "2", "/", "shloop", "<enter>")
	require.Contains(t, s.screen(), "A thread has: t chooses it.")
	s.keys("<esc>", "/", "nonsense", "<enter>")
	require.NotContains(t, s.screen(), "A thread has")
	s.safe()
}

// TestIncompleteStacks shows that the share of incomplete stacks is that of the selection, and that the list of them has heads and
// tells how much of it is out of sight, or not told by the server.
func TestIncompleteStacks(t *testing.T) {
	server := fakeserver.Normal()
	s := start(t, server, 80, 24)
	require.Contains(t, s.screen(), "incomplete 3.6%")
	s.keys("p", "web", "<enter>")
	require.Contains(t, s.screen(), "incomplete 0.0%")
	s.keys("p", "333", "<enter>")
	require.Contains(t, s.screen(), "incomplete 100.0%")
	s.keys("<enter>")
	require.Contains(t, s.screen(), "incomplete 100.0%", "around a function, too")
	s.keys("<esc>", "i")
	require.Contains(t, s.screen(), "  OF ITS   SAMPLES  REASON               PID     PROCESS\n")
	require.NotContains(t, s.screen(), "more below")
	server.Change(func() {
		for i := range 99 {
			server.Incomplete = append(server.Incomplete, map[string]any{"process": "p", "pid": strconv.Itoa(i), "reason": "no_rule", "samples": 3, "of": 4})
		}
		server.More = 1234
		server.To++
	})
	s.later(3 * time.Second)
	require.Contains(t, s.screen(), "+93 more below: arrows  19/112\n")
	s.keys("G")
	require.Contains(t, s.screen(), "  +1,234 more, with fewer samples\n")
	require.NotContains(t, s.screen(), "more below")
	require.Contains(t, s.screen(), "112/112\n")
}
