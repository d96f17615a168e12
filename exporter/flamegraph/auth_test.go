package flamegraph

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
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

// door is one for which the password of user is empty.
type door struct {
	guard
	user string
}

func (d door) Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error) {
	r := http.Request{Header: sources}
	if user, password, ok := r.BasicAuth(); !ok || user != d.user || password != "" {
		return ctx, errors.New("who are you?")
	}
	return ctx, nil
}

type guardedHost struct{ component.Host }

func (guardedHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{
		component.MustNewID("guard"):                     guard{},
		component.MustNewIDWithName("basicauth", "x"):    guard{},
		component.MustNewIDWithName("basicauth", "open"): door{},
		component.MustNewIDWithName("basicauth", "me"):   door{user: "me"},
	}
}

// guarded makes an exporter at all addresses of this host, with an authenticator.
func guarded(t *testing.T, authenticator string) (*flameExporter, *observer.ObservedLogs) {
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": "0.0.0.0:0", "auth": map[string]any{"authenticator": authenticator},
	}).Unmarshal(cfg))
	core, logs := observer.New(zap.InfoLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	return newFlameExporter(cfg, set, component.BuildInfo{}, time.Now), logs
}

// TestNoPassword: what was made of variables that are not set protects nothing.
func TestNoPassword(t *testing.T) {
	e, logs := guarded(t, "basicauth/open")
	err := e.start(t.Context(), guardedHost{componenttest.NewNopHost()})
	require.ErrorContains(t, err, "basicauth/open lets in everybody")
	require.Zero(t, logs.Len())

	e, logs = guarded(t, "basicauth/me")
	require.NoError(t, e.start(t.Context(), guardedHost{componenttest.NewNopHost()}))
	t.Cleanup(func() { require.NoError(t, e.shutdown(context.Background())) })
	res, b := (&testServer{e, pageURL(t, logs), logs}).get(t, "/api/status", "Authorization", "Basic bWU6") // me:
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	require.Contains(t, string(b), "the password is empty")
	require.NotEmpty(t, res.Header.Get("WWW-Authenticate"))
}

// TestAddressesToOpen: 0.0.0.0 is none.
func TestAddressesToOpen(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	both := []string{"http://localhost:4041/", "http://" + own + ":4041/"}
	require.Equal(t, both, addresses("http", &net.TCPAddr{IP: net.IPv4zero, Port: 4041}))
	require.Equal(t, both, addresses("http", &net.TCPAddr{IP: net.IPv6unspecified, Port: 4041}))
	require.Equal(t, []string{"https://127.0.0.1:4041/"}, addresses("https", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4041}))
	require.Equal(t, []string{"http://[::1]:4041/"}, addresses("http", &net.TCPAddr{IP: net.IPv6loopback, Port: 4041}))
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
	e, logs := guarded(t, authenticator)
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
