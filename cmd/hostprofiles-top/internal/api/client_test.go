package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/fakeserver"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// serve has h answer, and waits as long as that takes.
func serve(t *testing.T, h http.HandlerFunc) *Client { return serveFor(t, h, time.Minute) }

func serveFor(t *testing.T, h http.HandlerFunc, patience time.Duration) *Client {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, patience)
	require.NoError(t, err)
	return c
}

func kind(err error) Kind {
	var p *Problem
	if errors.As(err, &p) {
		return p.Kind
	}
	return -1
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]text.Safe{
		"127.0.0.1:4041":                   "127.0.0.1:4041",
		"http://127.0.0.1:4041/":           "127.0.0.1:4041",
		"https://user:secret@host/prefix/": "https://host/prefix",
		"http://[::1]:4041?x=1#y":          "[::1]:4041",
	} {
		c, err := New(in, time.Second)
		require.NoError(t, err)
		require.Equal(t, want, c.Address())
	}
	for _, in := range []string{"", "ftp://host", "http://", "http://\x1b[2J", "://"} {
		_, err := New(in, time.Second)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "\x1b")
	}
	for _, in := range []string{
		"ftp://user:secret@host", "user:secret@", "http://user:secret%zz@host", "http://user:sec@secret@host:x", "http://user:1/secret@host",
		"http://user:1?secret@host", "http://user:1#secret@host", "user:secret/1@host", "http://user:secret@ho st",
	} {
		_, err := New(in, time.Second)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestWhatIsAsked(t *testing.T) {
	var asked, authorization string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, authorization = r.URL.String(), r.Header.Get("Authorization")
		w.WriteHeader(500)
	})
	s := Selection{Type: "samples:count", Range: Range{1, 2}, Base: &Range{3, 4}, Filters: []Filter{{"a", "=&b"}}}
	_, _ = c.Table(t.Context(), s, "self", "/x y/", 7)
	require.Equal(t, "/api/table?base_from=3&base_to=4&filter=a%3D%3D%26b&from=1&limit=7&search=%2Fx+y%2F&sort=self&to=2&type=samples%3Acount", asked)
	_, _ = c.Around(t.Context(), s, "callers", "k", 9)
	require.Contains(t, asked, "function=k&max_nodes=9")
	require.Empty(t, authorization)

	c.base.User = nil
	with, err := New(strings.Replace(c.base.String(), "//", "//user:pass@", 1), time.Minute)
	require.NoError(t, err)
	_, err = with.Status(t.Context())
	require.Equal(t, "Basic dXNlcjpwYXNz", authorization)
	require.NotContains(t, err.Error(), "pass")
}

func TestProblems(t *testing.T) {
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for _, c := range []struct {
		name     string
		handler  http.HandlerFunc
		kind     Kind
		sentence string
	}{
		{"html", say(200, "<html>"), Stranger, "no JSON of this API"},
		{"array", say(200, "[]"), Stranger, "no JSON of this API"},
		{"null", say(200, "null"), Stranger, "no status"},
		{"404", say(404, "not found"), Stranger, "status 404"},
		{"error without a sentence", say(404, "{}"), Stranger, "status 404"},
		{"missing", say(404, `{"error":"no such"}`), Missing, "no such"},
		{"rejected", say(400, `{"error":"search is \u001b[31mwrong"}`), Rejected, "search is ?[31mwrong"},
		{"long", say(414, `{"error":"too long"}`), Rejected, "too long"},
		{"misdirected", say(421, `{"error":"unknown name"}`), Other, "says: unknown name"},
		{"auth", say(401, ""), Forbidden, "who asks"},
		{"forbidden", say(403, "no"), Forbidden, "who asks"},
		{"forbidden with a reason", say(403, `{"error":"not from there"}`), Other, "says: not from there"},
		{"too large", say(413, `{"error":"narrow the range"}`), Other, "says: narrow the range"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		}, Stranger, "status 302"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"now":` + strings.Repeat(" ", maxAnswer) + "1}"))
		}, Stranger, "more than 32 MiB"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
			}
		}, Other, "did not answer in 1s"},
		{"dripping", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		}, Other, "did not answer in 1s"},
		{"closing", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Other, "cannot be asked: EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			patience := time.Minute
			if strings.Contains(c.sentence, "did not answer in 1s") {
				patience = time.Second
			}
			_, err := serveFor(t, c.handler, patience).Status(t.Context())
			require.ErrorContains(t, err, c.sentence)
			require.Equal(t, c.kind, kind(err))
		})
	}
	nobody, err := New("127.0.0.1:1", time.Minute)
	require.NoError(t, err)
	_, err = nobody.Status(t.Context())
	require.Equal(t, Nobody, kind(err))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = nobody.Status(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMalformedAnswers(t *testing.T) {
	const functions = `"functions":{"key":["a"],"name":["a"],"file":[""],"line":[0],"type":[""],"mapping":[""]}`
	for _, body := range []string{
		`{"functions":{"key":["a"]}}`,
		`{` + functions + `}`,
		`{` + functions + `,"self":[1],"functions_total":[1],"base_self":[1,2]}`,
		`{` + functions + `,"nodes":{"parent":[-1],"function":[0],"self":[1]}}`,
		`{` + functions + `,"nodes":{"parent":[-1,1],"function":[0,0],"self":[1,1],"total":[1,1]}}`,
		`{` + functions + `,"nodes":{"parent":[-1,-1],"function":[0,0],"self":[1,1],"total":[1,1]}}`,
		`{` + functions + `,"nodes":{"parent":[0],"function":[0],"self":[1],"total":[1]}}`,
		`{` + functions + `,"nodes":{"parent":[-1],"function":[1],"self":[1],"total":[1]}}`,
		`{` + functions + `,"nodes":{"parent":[-1],"function":[-1],"self":[1],"total":[1]}}`,
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		if !strings.Contains(body, "nodes") {
			_, err := c.Table(t.Context(), Selection{}, "self", "", 1)
			require.Equal(t, Stranger, kind(err), body)
			continue
		}
		_, err := c.Tree(t.Context(), Selection{}, "", "", 1)
		require.Equal(t, Stranger, kind(err), body)
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	_, err := c.Labels(t.Context(), Selection{})
	require.Equal(t, Stranger, kind(err))
}

func TestNamesAreClean(t *testing.T) {
	s := httptest.NewServer(fakeserver.Hostile())
	t.Cleanup(s.Close)
	c, err := New(s.URL, time.Minute)
	require.NoError(t, err)
	clean := func(names ...text.Safe) {
		for _, n := range names {
			require.Equal(t, text.Clean(string(n)), n)
		}
	}
	table, err := c.Table(t.Context(), Selection{}, "self", "", 1000)
	require.NoError(t, err)
	require.NotEmpty(t, table.Rows)
	for _, r := range table.Rows {
		clean(r.Name, r.File, r.Mapping, r.Type)
	}
	labels, err := c.Labels(t.Context(), Selection{})
	require.NoError(t, err)
	for _, l := range labels {
		for _, v := range l.Values {
			clean(v.Shown)
		}
	}
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	clean(status.Receivers[0].Name.Safe, status.Receivers[0].Problem.Safe, status.Incomplete[0].Process.Safe, status.Incomplete[0].Reason.Safe)
	for reason := range status.Receivers[0].Lost {
		clean(reason.Safe)
	}
}

// TestOlderServers do not tell which functions are parts: their names do.
func TestOlderServers(t *testing.T) {
	names := map[string]bool{"0x1": true, "libc.so.6+0x12af": true, "a+0x1+0x2": true, "0x": false, "a+0x": false, "main": false,
		"0x12G": false, "f0x12": false, "operator+0xx": false, "": false}
	var c functionColumns
	for name := range names {
		c.Key, c.Name, c.File, c.Line = append(c.Key, "k"), append(c.Name, name), append(c.File, ""), append(c.Line, 0)
		c.Type, c.Mapping = append(c.Type, "native"), append(c.Mapping, "")
	}
	rows, err := c.rows()
	require.NoError(t, err)
	for i, f := range rows {
		require.Equal(t, names[c.Name[i]], f.Part, c.Name[i])
	}
	c.Part = make([]bool, len(rows))
	rows, err = c.rows()
	require.NoError(t, err)
	for _, f := range rows {
		require.False(t, f.Part, f.Name)
	}
	c.Part = c.Part[1:]
	_, err = c.rows()
	require.Error(t, err)
}
