package view

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

var update = flag.Bool("update", false, "write the golden files anew")

// session is somebody in front of a model that is fed by a server.
type session struct {
	t      *testing.T
	m      *Model
	server *fakeserver.Server
	client *api.Client
	now    time.Time
	last   Effect
	fetch  int // how many requests there were
}

func start(t *testing.T, server *fakeserver.Server, width, height int) *session {
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	client, err := api.New(h.URL, time.Minute)
	require.NoError(t, err)
	s := &session{t: t, server: server, client: client, now: time.UnixMilli(fakeserver.Epoch),
		m: New(Options{Address: "127.0.0.1:4041", Interval: 2 * time.Second})}
	s.send(Resize{width, height})
	return s
}

// send gives the model a message and answers what it asks.
func (s *session) send(msg Message) {
	s.last = s.m.Update(s.now, msg)
	for e := s.last; e.Fetch != nil; {
		s.fetch++
		d, err := live.Fetch(s.t.Context(), s.client, *e.Fetch)
		e = s.m.Update(s.now, Result{e.Seq, d, err})
	}
}

// keys presses one after the other; names in angle brackets are those of keys.
func (s *session) keys(list ...string) {
	named := map[string]Code{"<enter>": Enter, "<esc>": Escape, "<down>": ArrowDown, "<up>": ArrowUp, "<tab>": Tab, "<bs>": Backspace,
		"<pgdn>": PageDown, "<end>": End, "<home>": Home, "<left>": ArrowLeft}
	for _, k := range list {
		if code, ok := named[k]; ok {
			s.send(Key{Code: code})
			continue
		}
		for _, r := range k {
			s.send(Key{Rune, r})
		}
	}
}

// later lets time go by.
func (s *session) later(d time.Duration) {
	s.now = s.now.Add(d)
	s.send(Tick{})
}

// screen is what is shown, with the chosen row marked.
func (s *session) screen() string {
	var b strings.Builder
	lines := s.m.View()
	require.Len(s.t, lines, s.m.height)
	for _, l := range lines {
		require.LessOrEqual(s.t, l.width(), s.m.width, "%s", l.Text())
		line := strings.TrimRight(string(l.Text()), " ")
		if l.Fill == Selected {
			line += " <<<"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (s *session) golden(name string) {
	s.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := s.screen()
	if *update {
		require.NoError(s.t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.t, err)
	require.Equal(s.t, string(want), got)
}

func TestViews(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []string
	}{
		{"functions", nil},
		{"moved", []string{"jj", "<down>"}},
		{"total", []string{"s"}},
		{"compared", []string{"c"}},
		{"diff", []string{"c", "ss"}},
		{"search", []string{"/", "write", "<enter>"}},
		{"searching", []string{"/", "wri"}},
		{"badsearch", []string{"/", "/(/"}},
		{"notfound", []string{"/", "zzz", "<enter>"}},
		{"processes", []string{"2"}},
		{"bypid", []string{"2P", "<down>", "<enter>"}},
		{"expanded", []string{"2", "<enter>", "jj"}},
		{"processsearch", []string{"2", "/", "処理", "<enter>"}},
		{"comparedprocesses", []string{"2c"}},
		{"around", []string{"<down>", "<enter>"}},
		{"aroundcompared", []string{"c", "<enter>"}},
		{"pickprocess", []string{"p"}},
		{"picktyped", []string{"p", "20"}},
		{"picked", []string{"p", "<down>", "<enter>", "t", "<down>", "<enter>"}},
		{"help", []string{"?"}},
		{"health", []string{"i"}},
		{"paused", []string{" "}},
		{"zoomed", []string{"+++"}},
	} {
		for _, size := range []struct {
			name          string
			width, height int
		}{{"80x24", 80, 24}, {"120x40", 120, 40}} {
			t.Run(c.name+"-"+size.name, func(t *testing.T) {
				s := start(t, fakeserver.Normal(), size.width, size.height)
				s.keys(c.keys...)
				s.golden(c.name + "-" + size.name)
			})
		}
	}
}

func TestMovingAround(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("<enter>")
	require.Contains(t, s.screen(), "AROUND parse_request")
	require.Contains(t, s.screen(), "parse_request (self)")
	s.keys("<up>", "<enter>")
	require.Contains(t, s.screen(), "AROUND event_loop")
	s.keys("<up>", "<enter>", "<up>", "<enter>")
	require.Contains(t, s.screen(), "AROUND _start")
	s.keys("<up>", "<enter>")
	require.Contains(t, s.screen(), "nothing above")
	s.keys("<esc>", "<esc>", "<esc>")
	require.Contains(t, s.screen(), "AROUND parse_request")
	s.keys("<esc>")
	require.Contains(t, s.screen(), "FUNCTIONS by self")
	s.keys("<esc>")
	require.Contains(t, s.screen(), "no filter to drop")

	s.keys("2", "<enter>", "<down>", "<enter>")
	require.Contains(t, s.screen(), "process web", "from a process only what is in it")
	s.keys("<esc>")
	require.NotContains(t, s.screen(), "process web")
	require.Contains(t, s.screen(), "- web", "it is still open")
	s.keys("<left>")
	require.NotContains(t, s.screen(), "- web")

	s.keys("q")
	require.True(t, s.last.Quit)
}

func TestFiltersAreDroppedOneByOne(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("p", "web", "<enter>", "t", "worker", "<enter>", "/", "to", "<enter>")
	require.Contains(t, s.screen(), "process web")
	require.Contains(t, s.screen(), "thread worker-1")
	require.Contains(t, s.screen(), "search to")
	require.Contains(t, s.screen(), "tolower")
	require.NotContains(t, s.screen(), "ksys_write")
	s.keys("<esc>")
	require.NotContains(t, s.screen(), "search to")
	s.keys("<esc>")
	require.NotContains(t, s.screen(), "worker-1")
	require.Contains(t, s.screen(), "process web")
	s.keys("<esc>")
	require.NotContains(t, s.screen(), "process web")
	s.keys("p", "web", "<enter>", "p", "<enter>")
	require.NotContains(t, s.screen(), "process web", "all are chosen again")
	s.keys("p", "200", "<enter>")
	require.Contains(t, s.screen(), "pid 200")
	require.NotContains(t, s.screen(), "parse_request")
}

// TestTheCursorFollows shows that the row that was chosen stays so when another one overtakes it.
func TestTheCursorFollows(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("<down>")
	i, _ := s.m.chosen()
	require.Contains(t, i.function.Name, "push_back")
	s.server.Change(func() { s.server.Samples[3].Value, s.server.To = 9000, fakeserver.Epoch+2000 })
	s.later(3 * time.Second)
	i, _ = s.m.chosen()
	require.Contains(t, i.function.Name, "push_back")
	require.Zero(t, s.m.functions.cursor)
	s.keys("<home>")
	s.server.Change(func() { s.server.Samples[3].Value, s.server.To = 1, fakeserver.Epoch+4000 })
	s.later(3 * time.Second)
	i, _ = s.m.chosen()
	require.Equal(t, text.Safe("parse_request"), i.function.Name, "who looks at the top goes on to look at the top")
}

func TestAskingOnlyForWhatIsNew(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	first := len(s.server.Asked())
	require.Equal(t, 4, first, "%q", s.server.Asked())
	s.later(time.Second)
	require.Len(t, s.server.Asked(), first, "the interval is longer")
	s.later(time.Second)
	require.Equal(t, "/api/status", s.server.Asked()[first])
	require.Len(t, s.server.Asked(), first+1, "nothing has arrived, so only the status is asked for")
	require.Contains(t, s.screen(), "parse_request")
	s.server.Change(func() { s.server.To += 5000; s.server.Now += 5000 })
	s.later(2 * time.Second)
	require.Len(t, s.server.Asked(), first+5)

	s.keys(" ")
	require.Contains(t, s.screen(), "PAUSED")
	asked := len(s.server.Asked())
	s.server.Change(func() { s.server.To += 5000; s.server.Now += 5000 })
	s.later(time.Minute)
	require.Len(t, s.server.Asked(), asked, "time stands still")
	s.keys("+")
	require.Contains(t, s.server.Asked()[len(s.server.Asked())-1], "to=1700000005000", "other questions are about the same moment")
	s.keys(" ")
	require.Contains(t, s.server.Asked()[len(s.server.Asked())-1], "to=1700000010000")
}

// TestOneRequestAtATime shows that what is asked meanwhile gives up the request that is under way, and is asked after it.
func TestOneRequestAtATime(t *testing.T) {
	m := New(Options{Interval: 2 * time.Second})
	now := time.UnixMilli(fakeserver.Epoch)
	first := m.Update(now, Resize{80, 24})
	require.NotNil(t, first.Fetch)
	require.Nil(t, m.Update(now.Add(time.Minute), Tick{}).Fetch)
	e := m.Update(now, Key{Rune, '+'})
	require.Nil(t, e.Fetch)
	require.True(t, e.Cancel)
	require.False(t, m.Update(now, Key{Rune, '+'}).Cancel, "once is enough")
	e = m.Update(now, Result{first.Seq, nil, http.ErrHandlerTimeout})
	require.NotNil(t, e.Fetch)
	require.Equal(t, 15*time.Minute, e.Fetch.Window)
	require.Nil(t, m.problem, "nobody wants to know what came of the first")
	require.Nil(t, m.Update(now, Result{first.Seq, nil, http.ErrHandlerTimeout}).Fetch, "an answer that nobody waits for")
}

// TestSlowServersAreAskedLess shows that looking does not become load.
func TestSlowServersAreAskedLess(t *testing.T) {
	m := New(Options{Interval: 2 * time.Second})
	now := time.UnixMilli(fakeserver.Epoch)
	e := m.Update(now, Resize{80, 24})
	m.Update(now.Add(3*time.Second), Result{e.Seq, nil, http.ErrHandlerTimeout})
	require.Nil(t, m.Update(now.Add(59*time.Second), Tick{}).Fetch)
	require.NotNil(t, m.Update(now.Add(60*time.Second), Tick{}).Fetch)
}

// TestMixedFrequencies shows values that are sums of periods: CPUs, and chance is no change.
func TestMixedFrequencies(t *testing.T) {
	name := func(s text.Safe) api.Name { return api.Name{Safe: s} }
	mixed := api.Type{SampleType: name("samples"), SampleUnit: name("nanoseconds"), PeriodType: name("cpu"), PeriodUnit: name("nanoseconds"), Period: 1}
	m := meter{mixed, 10, 10}
	require.Equal(t, text.Safe("CPUS"), m.unit())
	require.Equal(t, text.Safe("0.50"), m.rate(5e9))
	require.False(t, m.significant(5e9, 5.1e9))
	require.True(t, m.significant(5e9, 1e9))
	wait := mixed
	wait.SampleType, wait.PeriodType = name("wait"), name("wait")
	require.Equal(t, text.Safe("SEC/S"), meter{wait, 10, 10}.unit())
}

// TestPickingWhatIsNotListed shows that what is typed can be chosen although nothing of it has run.
func TestPickingWhatIsNotListed(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.keys("p", "4711")
	require.Contains(t, s.screen(), "     no samples  pid 4711 <<<")
	require.Contains(t, s.screen(), "     no samples  4711\n")
	s.keys("<enter>")
	require.Contains(t, s.screen(), "No samples pass the filters")
	require.Equal(t, []api.Filter{{Key: live.KeyPID, Value: "4711"}}, s.m.request.Filters)
	s.keys("<esc>", "p", "pid 20")
	require.Contains(t, s.screen(), "pid 200 db <<<", "what is there comes first")
	s.keys("<bs>", "<bs>", "<bs>", "<bs>", "<bs>", "<bs>", "web")
	require.NotContains(t, s.screen(), "no samples")
	s.keys("<enter>", "t", "\u202enone", "<enter>")
	require.Contains(t, s.screen(), "process web  thread none")
	s.safe()
}

func TestNobody(t *testing.T) {
	client, err := api.New("127.0.0.1:1", time.Minute)
	require.NoError(t, err)
	s := &session{t: t, client: client, now: time.UnixMilli(0), m: New(Options{Address: client.Address(), Interval: 2 * time.Second})}
	s.send(Resize{80, 24})
	s.golden("nobody-80x24")
	s.keys("p", "s", "c", " ", "<enter>", "i", "?", "T", "2", "/")
	s.screen()
}

// TestHostileNames walks through everything with names that terminals obey: nothing but single characters comes out.
func TestHostileNames(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {20, 6}} {
		s := start(t, fakeserver.Hostile(), size[0], size[1])
		for _, keys := range []string{"", "jjj", "c", "s", "2", "i", "?", "p", "t", "1"} {
			s.keys("<esc>", keys)
			s.safe()
			s.keys("<enter>", "<down>", "<enter>")
			s.safe()
		}
	}
}

// TestHugeAnswers shows that more and longer names than anybody has are still a list.
func TestHugeAnswers(t *testing.T) {
	s := start(t, fakeserver.Huge(), 80, 24)
	for _, keys := range [][]string{{"<end>"}, {"<enter>"}, {"<esc>", "2", "<end>", "<enter>"}, {"p", "<end>"}, {"<esc>", "1", "i"}} {
		s.keys(keys...)
		s.safe()
	}
	s.keys("<esc>", "<home>")
	require.Contains(t, s.screen(), "1/500")
	fastest := time.Hour // others are at work on this machine, too
	for range 100 {
		started := time.Now()
		s.m.View()
		fastest = min(fastest, time.Since(started))
	}
	require.Less(t, fastest, 20*time.Millisecond, "a screen takes no longer")
}

// safe checks the screen, and that its rows are as wide as the screen thinks.
func (s *session) safe() {
	for _, line := range strings.Split(s.screen(), "\n") {
		require.Equal(s.t, text.Clean(line), text.Safe(line))
	}
}

// TestAnyKeysAnySize presses keys at random on screens of any size: there is no panic, and every screen fits.
func TestAnyKeysAnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	codes := []Code{ArrowUp, ArrowDown, ArrowLeft, ArrowRight, PageUp, PageDown, Home, End, Enter, Enter, Enter, Escape, Tab, Backspace, CtrlL, CtrlU}
	const runes = "jkgG12/ptTsc +-i?h.w关e"
	for _, server := range []*fakeserver.Server{fakeserver.Normal(), fakeserver.Hostile()} {
		s := start(t, server, 80, 24)
		for range 1500 {
			switch n := r.IntN(10); {
			case n == 0:
				s.send(Resize{r.IntN(130), r.IntN(50)})
			case n < 5:
				s.send(Key{Code: codes[r.IntN(len(codes))]})
			case n == 5:
				server.Change(func() { server.To += int64(r.IntN(3)) * 1000 })
				s.later(time.Second)
			default:
				all := []rune(runes)
				s.send(Key{Rune, all[r.IntN(len(all))]})
			}
			s.screen()
		}
	}
}

func TestPlain(t *testing.T) {
	for name, width := range map[string]int{"plain-cut": 80, "plain-whole": 0} {
		s := start(t, fakeserver.Normal(), 80, 24)
		r := live.Request{Window: time.Minute, Order: "self", Compare: true}
		d, err := live.Fetch(t.Context(), s.client, r)
		require.NoError(t, err)
		var b strings.Builder
		for _, l := range Plain(d, r, 6, width) {
			if width > 0 {
				require.LessOrEqual(t, text.Width(l), width)
			}
			b.WriteString(string(l) + "\n")
		}
		// The time of day is that of the machine's zone.
		got := strings.Replace(b.String(), time.UnixMilli(fakeserver.Epoch).Format(time.TimeOnly), "HH:MM:SS", 1)
		path := filepath.Join("testdata", name+".txt")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
}
