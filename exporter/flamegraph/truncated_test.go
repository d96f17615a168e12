package flamegraph

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/stopreason"
)

// stoppedProfiles are testProfiles of which those of scan have no complete stack, and its caller was guessed.
func stoppedProfiles() pprofile.Profiles {
	p := testProfiles()
	d := p.Dictionary()
	attr := func(key string) (index int32) {
		d.StringTable().Append(key)
		d.AttributeTable().AppendEmpty().SetKeyStrindex(int32(d.StringTable().Len() - 1))
		return int32(d.AttributeTable().Len() - 1)
	}
	reason, guessed := attr(stopreason.Attribute), attr(stopreason.GuessedAttribute)
	d.AttributeTable().At(int(reason)).Value().SetStr("no_rule")
	d.AttributeTable().At(int(guessed)).Value().SetBool(true)
	p.ResourceProfiles().At(1).ScopeProfiles().At(0).Profiles().At(0).Samples().At(0).AttributeIndices().Append(reason)
	d.LocationTable().At(1).AttributeIndices().Append(guessed)
	return p
}

func stoppedServer(t *testing.T) *testServer {
	s := startServer(t, nil)
	require.NoError(t, s.consume(t.Context(), stoppedProfiles()))
	return s
}

func TestReasons(t *testing.T) {
	var got reasonsAnswer
	startServer(t, nil).json(t, "/api/reasons", 200, &got)
	require.Equal(t, stopreason.Guessed, got.Guessed)
	require.Len(t, got.Reasons, len(stopreason.All()))
	for i, r := range stopreason.All() {
		require.Equal(t, reasonAnswer{r.Name, r.Complete, r.Means, r.When, r.Do}, got.Reasons[i])
	}
}

func TestMarkersInAnswers(t *testing.T) {
	s := stoppedServer(t)
	var f flameAnswer
	s.json(t, "/api/flamegraph?process=db", 200, &f)
	require.Equal(t, []string{"all", "db", "[truncated: no_rule]", "main", "scan"}, f.Functions.Name)
	require.Equal(t, []string{"root", "group", "truncated", "native", "native"}, f.Functions.Type)
	require.Equal(t, "no_rule", f.Functions.SystemName[2])
	require.Equal(t, []int64{0, 0, 0, 0, 50}, f.Nodes.Self)
	require.Equal(t, []int32{3}, f.Nodes.Guessed)

	var none flameAnswer
	s.json(t, "/api/flamegraph?process=db&markers=0", 200, &none)
	require.Equal(t, []string{"all", "db", "main", "scan"}, none.Functions.Name)
	s.json(t, "/api/flamegraph?filter="+stopreason.Attribute+"!%3Dno_rule", 200, &none)
	require.EqualValues(t, 100, none.Total)
	var tab tableAnswer
	s.json(t, "/api/table?process=db", 200, &tab)
	require.Equal(t, []string{"scan", "main"}, tab.Functions.Name)
	var refused struct{ Error string }
	s.json(t, "/api/flamegraph?markers=yes", 400, &refused)
	var status statusAnswer
	s.json(t, "/api/status", 200, &status)
	require.Equal(t, []incompleteAnswer{{"db", "2", "no_rule", 50, 50}}, status.Incomplete)

	// A node's id stays the same where stacks are complete, so that links do.
	var complete flameAnswer
	withProfiles(t, nil).json(t, "/api/flamegraph?process=web", 200, &complete)
	var marked flameAnswer
	s.json(t, "/api/flamegraph?process=web", 200, &marked)
	require.Equal(t, complete.Nodes.ID, marked.Nodes.ID)
}

// TestMarkersInDownloads: text has the marker, since nothing else can say it there; OTLP and pprof have the attribute, and no frame
// that was none.
func TestMarkersInDownloads(t *testing.T) {
	s := stoppedServer(t)
	_, b := s.get(t, "/folded?process=db")
	require.Equal(t, "db;[truncated: no_rule];main;scan 50\n", string(b))
	_, b = s.get(t, "/folded?process=db&markers=0")
	require.Equal(t, "db;main;scan 50\n", string(b))
	var speedscope speedscopeFile
	s.json(t, "/profile.speedscope.json?process=db", 200, &speedscope)
	require.Equal(t, "[truncated: no_rule]", speedscope.Shared.Frames[speedscope.Profiles[0].Samples[0][1]].Name)

	_, b = s.get(t, "/profile.otlp.json")
	require.NotContains(t, string(b), "truncated")
	p, err := new(pprofile.JSONUnmarshaler).UnmarshalProfiles(b)
	require.NoError(t, err)
	require.Contains(t, p.Dictionary().StringTable().AsRaw(), stopreason.Attribute)
	again := startServer(t, nil)
	require.NoError(t, again.consume(t.Context(), p))
	_, b = again.get(t, "/folded?process=db")
	require.Equal(t, "db;[truncated: no_rule];main;scan 50\n", string(b))

	_, b = s.get(t, "/pprof?process=db")
	pp, err := profile.Parse(bytes.NewReader(b))
	require.NoError(t, err)
	require.Len(t, pp.Sample, 1)
	require.Len(t, pp.Sample[0].Location, 2)
	require.Equal(t, []string{"no_rule"}, pp.Sample[0].Label[stopreason.Attribute])
	for _, f := range pp.Function {
		require.False(t, strings.Contains(f.Name, "truncated"), f.Name)
	}
}
