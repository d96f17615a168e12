package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/live"
)

func TestCommandLine(t *testing.T) {
	s, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, settings{url: "http://127.0.0.1:4041", interval: 2 * time.Second, timeout: 5 * time.Second, rows: 20,
		request: live.Request{Window: time.Minute, Order: "self"}}, s)
	s, err = parse([]string{"-process", "web", "-thread", "io", "-sort", "diff", "-window", "5m", "-search", "x"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, live.Request{Window: 5 * time.Minute, Order: "diff", Compare: true, Search: "x",
		Filters: []api.Filter{{Key: "process.executable.name", Value: "web"}, {Key: "thread.name", Value: "io"}}}, s.request)
}

func TestPID(t *testing.T) {
	s, err := parse([]string{"-process", "web", "-pid", "04711", "-thread", "io"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []api.Filter{{Key: "process.executable.name", Value: "web"}, {Key: "process.pid", Value: "4711"}, {Key: "thread.name", Value: "io"}},
		s.request.Filters)
	for _, wrong := range []string{"", "web", "0", "-1", "12 13", "1e3", "99999999999\x1b"} { // $(pidof web) may be none or several
		var said strings.Builder
		_, err := parse([]string{"-pid", wrong}, &said)
		require.ErrorContains(t, err, "-pid: it must be a number", "%q", wrong)
		require.NotContains(t, said.String(), "\x1b")
	}
}

func TestLocale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"C", "", "de_DE.UTF-8", false}, {"", "", "de_DE.UTF-8", true}, {"", "C.utf8", "C", true},
		{"", "", "POSIX", false}, {"", "", "de_DE.ISO-8859-1", false},
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		require.Equal(t, c.want, localeIsUTF8(func(key string) string { return env[key] }), "%v", c)
	}
}
