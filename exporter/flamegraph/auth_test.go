package flamegraph

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// guard is an authenticator extension: who knows the word may come in.
type guard struct {
	component.StartFunc
	component.ShutdownFunc
}

func (guard) Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error) {
	if got := http.Header(sources).Get("Authorization"); got != "swordfish" {
		return ctx, errors.New("who are you?")
	}
	return ctx, nil
}

type guardedHost struct{ component.Host }

func (guardedHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("guard"): guard{}, component.MustNewIDWithName("basicauth", "x"): guard{}}
}

// TestAuthentication: with auth nothing is answered without it, and an address that others reach is no reason to warn.
func TestAuthentication(t *testing.T) {
	testAuthentication(t, "guard", "")
}

// TestPassword: browsers are told to ask for one.
func TestPassword(t *testing.T) {
	testAuthentication(t, "basicauth/x", `Basic realm="hostprofiles", charset="UTF-8"`)
}

func testAuthentication(t *testing.T, authenticator, challenge string) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": "0.0.0.0:0", "auth": map[string]any{"authenticator": authenticator},
	}).Unmarshal(cfg))
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	e := newFlameExporter(cfg, set, component.BuildInfo{}, time.Now)
	require.NoError(t, e.start(t.Context(), guardedHost{componenttest.NewNopHost()}))
	t.Cleanup(func() { require.NoError(t, e.shutdown(context.Background())) })
	require.Zero(t, logs.FilterMessageSnippet("open to everybody").Len())
	s := &testServer{e, pageURL(t, logs), logs}
	require.NoError(t, s.consume(t.Context(), testProfiles()))
	for _, path := range []string{"/", "/api/status", "/api/flamegraph", "/pprof", "/assets/x", "/nowhere"} {
		res, b := s.get(t, path)
		require.Equal(t, http.StatusUnauthorized, res.StatusCode, path)
		require.NotContains(t, string(b), "parse")
		require.Equal(t, challenge, res.Header.Get("WWW-Authenticate"))
	}
	res, _ := s.get(t, "/api/status", "Authorization", "swordfish")
	require.Equal(t, http.StatusOK, res.StatusCode)
}
