package view

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
)

func TestTroubles(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for _, c := range []struct {
		name   string
		change func(*fakeserver.Server)
		want   []string
	}{
		{"empty", func(s *fakeserver.Server) { s.Samples, s.From, s.To, s.Receivers = nil, 0, 0, nil }, []string{"No profiles yet", "over the network"}},
		{"waiting", func(s *fakeserver.Server) { s.Samples, s.From, s.To = nil, 0, 0 }, []string{"hostprofiles has taken 123,456 samples", "next report"}},
		{"problem", func(s *fakeserver.Server) {
			s.Samples, s.From, s.To = nil, 0, 0
			s.Receivers = []any{map[string]any{"name": "hostprofiles", "problem": "this process lacks CAP_BPF"}}
		}, []string{"hostprofiles: this process lacks CAP_BPF"}},
		{"web server", func(s *fakeserver.Server) { s.Broken = status(200, "<html>It works!</html>") }, []string{"is no hostprofiles live view", "-url"}},
		{"other API", func(s *fakeserver.Server) { s.Broken = status(200, `{"status":"ok"}`) }, []string{"is no hostprofiles live view: its answer is no status"}},
		{"not found", func(s *fakeserver.Server) { s.Broken = status(404, "404") }, []string{"is no hostprofiles live view: it answers with status 404"}},
		{"auth", func(s *fakeserver.Server) { s.Broken = status(401, "") }, []string{"wants to know who asks"}},
		{"broken", func(s *fakeserver.Server) { s.Broken = status(500, `{"error":"out of\u001b[2J luck"}`) }, []string{"says: out of?[2J luck"}},
		{"columns", func(s *fakeserver.Server) {
			next := 0
			s.Broken = func(w http.ResponseWriter, r *http.Request) {
				if next++; strings.HasPrefix(r.URL.Path, "/api/table") {
					status(200, `{"functions":{"key":["a"],"name":[]}}`)(w, r)
					return
				}
				status(200, `{"window":{"from":1,"to":5},"types":[{"id":"x"}],"labels":[]}`)(w, r)
			}
		}, []string{"malformed: columns of functions differ in length"}},
		{"closed", func(s *fakeserver.Server) {
			s.Broken = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, []string{"cannot be asked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := fakeserver.Normal()
			c.change(server)
			s := start(t, server, 80, 24)
			for _, w := range c.want {
				require.Contains(t, strings.Join(strings.Fields(s.screen()), " "), w)
			}
		})
	}
}

// TestTheServerGoesAway shows that what was known stays, and that it comes back.
func TestTheServerGoesAway(t *testing.T) {
	s := start(t, fakeserver.Normal(), 80, 24)
	s.server.Change(func() {
		s.server.Broken = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
	})
	s.later(3 * time.Second)
	s.later(3 * time.Second)
	require.Contains(t, s.screen(), "NO ANSWER for 3 s")
	require.Contains(t, s.screen(), "status 503")
	require.Contains(t, s.screen(), "parse_request")
	s.server.Change(func() { s.server.Broken = nil })
	s.later(3 * time.Second)
	require.NotContains(t, s.screen(), "NO ANSWER")
	s.now = s.now.Add(5 * time.Minute)
	require.NotContains(t, s.screen(), "5 min old", "time is what messages say")
	s.send(Tick{})
	s.server.Change(func() { s.server.Now += 300_000 })
	s.later(3 * time.Second)
	require.Contains(t, s.screen(), "data 5 min old")
}

// TestReports shows that a receiver's report is told to be old if it is, for receivers that tell it often and for others.
func TestReports(t *testing.T) {
	receiver := map[string]any{"name": "hostprofiles", "taken": 5, "seen": fakeserver.Epoch}
	server := fakeserver.Normal()
	server.Receivers, server.Now = []any{receiver}, fakeserver.Epoch
	s := start(t, server, 80, 24)
	after := func(d time.Duration, seen bool) {
		server.Change(func() {
			if server.Now += d.Milliseconds(); seen {
				receiver["seen"] = server.Now
			}
		})
		s.later(d)
	}
	after(30*time.Second, false)
	require.NotContains(t, s.screen(), "told")
	after(5*time.Second, false)
	require.Contains(t, s.screen(), "lost 0 told 35 s ago")
	after(25*time.Second, true)
	require.NotContains(t, s.screen(), "told")
	after(2*time.Minute, false)
	require.NotContains(t, s.screen(), "told", "it tells every minute, so it may be late by one")
	after(2*time.Second, false)
	require.Contains(t, s.screen(), "lost 0 told 2 min ago")
	server.Change(func() { delete(receiver, "seen") })
	s.later(3 * time.Second)
	require.NotContains(t, s.screen(), "told", "older servers do not say")
}

// TestTroubleOfReceivers shows what they say is wrong on screens of any height, and all of it among the health.
func TestTroubleOfReceivers(t *testing.T) {
	problem := strings.Repeat("the kernel refuses programs ", 10) + "END"
	for height := range 30 {
		server := fakeserver.Normal()
		server.Receivers = []any{map[string]any{"name": "a", "problem": problem}, map[string]any{"name": "b", "problem": "no"}}
		s := start(t, server, 80, height)
		got := s.screen()
		require.Equal(t, height >= forTrouble, strings.Contains(got, "a: the kernel refuses programs") && strings.Contains(got, "+1 i health"), got)
		if height >= headRows+footRows+1 {
			require.Contains(t, got, "parse_request")
		}
		s.keys("<end>")
		s.screen()
		s.keys("i")
		all := s.screen()
		for range 40 {
			s.keys("<down>")
			all += s.screen()
		}
		if height >= headRows+footRows+1 {
			require.Contains(t, all, "END\n", "with a height of %d", height)
			require.Contains(t, all, "no_rule", "with a height of %d", height)
		}
		s.keys("x")
		require.NotContains(t, s.screen(), "HEALTH")
	}
}
