package flamegraph

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

func TestPprof(t *testing.T) {
	s := withProfiles(t, nil)
	for _, path := range []string{"/pprof", "/profile.pb.gz", "/profile", "/pprof?timestamps=1"} {
		res, b := s.get(t, path)
		require.Equal(t, 200, res.StatusCode, "%s", b)
		require.Equal(t, []byte{0x1f, 0x8b}, b[:2], "gzip")
		p, err := profile.Parse(bytes.NewReader(b))
		require.NoError(t, err)
		require.NoError(t, p.CheckValid())
		require.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}, p.SampleType)
		require.Equal(t, "cpu", p.DefaultSampleType)
		for _, sample := range p.Sample {
			require.Equal(t, sample.Value[0]*20e6, sample.Value[1])
		}
		require.EqualValues(t, 20e6, p.Period)
		self := map[string]int64{}
		for _, sample := range p.Sample {
			self[sample.Location[0].Line[0].Function.Name] += sample.Value[0]
		}
		require.Equal(t, map[string]int64{"parse": 60, "write": 30, "scan": 50, "<script>alert(1)</script>;\n": 10}, self)
	}
	res, b := s.get(t, "/pprof?process=db")
	require.Equal(t, 200, res.StatusCode)
	p, err := profile.Parse(bytes.NewReader(b))
	require.NoError(t, err)
	require.Len(t, p.Sample, 1)
	require.Equal(t, []string{"db"}, p.Sample[0].Label["process.executable.name"])
}

// TestManyProcesses: a profile of many processes is not called by one of them.
func TestManyProcesses(t *testing.T) {
	p := &profile.Profile{Mapping: []*profile.Mapping{{ID: 1, File: "/usr/bin/a"}, {ID: 2, File: "/usr/bin/b"}, {ID: 3, File: "[kernel.kallsyms]"}}}
	label := func(name string) *profile.Sample {
		return &profile.Sample{Label: map[string][]string{defaultGroup: {name}}}
	}
	p.Sample = []*profile.Sample{label("a"), label("a")}
	hostFirst(p)
	require.Equal(t, "/usr/bin/a", p.Mapping[0].File)
	p.Sample = append(p.Sample, label("b"))
	hostFirst(p)
	require.Equal(t, "[kernel.kallsyms]", p.Mapping[0].File)
	require.Equal(t, "/usr/bin/a", p.Mapping[1].File)
}

// TestGoToolPprof: the tool reads the answer from its address and shows the shares that the table has.
func TestGoToolPprof(t *testing.T) {
	s := startServer(t, nil)
	p := testProfiles() // one function has no name
	p.Dictionary().LocationTable().At(p.Dictionary().LocationTable().Len() - 1).Lines().RemoveIf(func(pprofile.Line) bool { return true })
	require.NoError(t, s.consume(t.Context(), p))
	out, err := goToolPprof(t, s.url+"/pprof?seconds=60")
	require.NoError(t, err, "%s", out)
	for name, share := range map[string]string{"parse": "40.00%", "write": "20.00%"} {
		line := regexp.MustCompile(`(?m)^.*` + name + `.*$`).FindString(out)
		require.Contains(t, line, share, "%s", out)
	}
}

// TestErrorsOfPprof: whoever asks for a profile as `go tool pprof` and curl do reads why there is none; the page and programs that
// take JSON get that.
func TestErrorsOfPprof(t *testing.T) {
	s := withProfiles(t, nil)
	const nobody = "there are no samples in this selection"
	for _, tt := range []struct {
		path, accept, sentence string
		status                 int
		text                   bool
	}{
		{"/pprof?process=nobody", "", nobody, 404, true},
		{"/pprof?process=nobody", "*/*", nobody, 404, true}, // curl
		{"/pprof?process=nobody", "application/json, */*", nobody, 404, false},
		{"/pprof?from=x", "", `from is "x"; it must be a number from 0 to 253402300799000`, 400, true},
		{"/pprof?proces=nobody", "", `there is no parameter "proces"; docs/live-view.md has those there are`, 400, true},
		{"/profile.pb.gz?process=nobody", "", nobody, 404, true},
		{"/profile.pb.gz?process=nobody", "*/*", nobody, 404, false}, // the page
		{"/profile?process=nobody", "", nobody, 404, true},
		{"/profile?type=wall", "application/json", "there are no profiles of this type yet", 404, false},
		{"/folded?type=wall", "", "there are no profiles of this type yet", 404, false},
	} {
		header := []string{"Accept", tt.accept}
		if tt.accept == "" {
			header = nil
		}
		res, b := s.get(t, tt.path, header...)
		require.Equal(t, tt.status, res.StatusCode, "%v", tt)
		if tt.text {
			require.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"), "%v", tt)
			require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
			require.Equal(t, tt.sentence+"\n", string(b), "%v", tt)
			continue
		}
		var e struct{ Error string }
		require.NoError(t, json.Unmarshal(b, &e), "%v: %s", tt, b)
		require.Equal(t, tt.sentence, e.Error, "%v", tt)
		require.Empty(t, res.Header.Get("X-Go-Pprof"))
	}
	res, b := s.get(t, "/pprof", "Host", "attacker.example")
	require.Equal(t, 421, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("X-Go-Pprof"))
	require.Contains(t, string(b), "add it to allowed_hosts")
	for _, path := range []string{"/pprof", "/profile.pb.gz"} {
		out, err := goToolPprof(t, s.url+path+"?process=nobody")
		require.Error(t, err)
		require.Contains(t, out, "404 Not Found - "+nobody)
	}
}

// goToolPprof returns what the tool prints of the profile at an address.
func goToolPprof(t *testing.T, url string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-nodecount=9", url)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir(), "HOME="+t.TempDir(), "GOCACHE="+goEnv(t, "GOCACHE"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return filepath.Clean(strings.TrimSpace(string(out)))
}
