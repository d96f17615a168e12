package flamegraph

import (
	"bytes"
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
	cmd := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-nodecount=9", s.url+"/pprof?seconds=60")
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir(), "HOME="+t.TempDir(), "GOCACHE="+goEnv(t, "GOCACHE"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, share := range map[string]string{"parse": "40.00%", "write": "20.00%"} {
		line := regexp.MustCompile(`(?m)^.*` + name + `.*$`).FindString(string(out))
		require.Contains(t, line, share, "%s", out)
	}
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return filepath.Clean(strings.TrimSpace(string(out)))
}
