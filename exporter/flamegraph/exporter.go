package flamegraph

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
	"github.com/hostprofiles/hostprofiles/internal/health"
)

// flameExporter keeps what arrives and serves it.
type flameExporter struct {
	config *Config
	set    component.TelemetrySettings
	info   component.BuildInfo
	now    func() time.Time
	store  *store.Store
	trees  *treeCache

	server *http.Server   // nil without Start
	served sync.WaitGroup // the goroutine that serves

	mu       sync.Mutex
	payloads payloadsAnswer
	reports  map[string]*health.Report
}

func newFlameExporter(cfg *Config, set component.TelemetrySettings, info component.BuildInfo, now func() time.Time) *flameExporter {
	memory := cfg.MemoryMiB << 20
	data := store.New(store.Options{Window: cfg.Window, Bytes: memory})
	return &flameExporter{
		config: cfg, set: set, info: info, now: now, reports: map[string]*health.Report{},
		store: data, trees: newTreeCache(memory - memory/pendingShare - data.Held()),
	}
}

func (e *flameExporter) start(ctx context.Context, host component.Host) error {
	api, err := newAPI(e)
	if err != nil {
		return err
	}
	listener, err := e.config.Server.ToListener(ctx)
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = " (another program uses the port: set endpoint of the flamegraph exporter)"
		}
		return fmt.Errorf("listening for the live view at %s%s: %w", e.config.Server.NetAddr.Endpoint, hint, err)
	}
	handler := newHostGuard(e.config.Server.NetAddr.Endpoint, e.config.AllowedHosts, e.config.Server.CORS.HasValue(), api)
	e.server, err = e.config.Server.ToServer(ctx, host.GetExtensions(), e.set, handler)
	if err != nil {
		return errors.Join(fmt.Errorf("preparing the live view's server: %w", err), listener.Close())
	}
	if auth := e.config.Server.Auth; auth.HasValue() && auth.Get().Config.AuthenticatorID.Type().String() == "basicauth" {
		id := auth.Get().Config.AuthenticatorID
		if err := hasPassword(ctx, id, host.GetExtensions()[id]); err != nil {
			return errors.Join(fmt.Errorf("protecting the live view: %w", err), listener.Close())
		}
		e.server.Handler = asksForPassword(e.server.Handler)
	}
	e.announce(listener.Addr())
	e.served.Add(1)
	go func() {
		defer e.served.Done()
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(fmt.Errorf("serving the live view: %w", err)))
		}
	}()
	return nil
}

// announce says where the page is, and who can see it.
func (e *flameExporter) announce(at net.Addr) {
	scheme := "http"
	if e.config.Server.TLS.HasValue() {
		scheme = "https"
	}
	e.set.Logger.Info("The live flame graph is at "+strings.Join(addresses(scheme, at), " and "), zap.Duration("window", e.config.Window),
		zap.Int("memory_mib", e.config.MemoryMiB))
	tcp, ok := at.(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && !e.config.Server.Auth.HasValue() {
		e.set.Logger.Warn("The live flame graph is open to everybody who reaches " + at.String() +
			": set auth, or an endpoint of this host only")
	}
}

// addresses are those under which the page can be opened: at an address of no host in particular it answers to the host's name too.
func addresses(scheme string, at net.Addr) []string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return []string{scheme + "://" + at.String() + "/"}
	}
	names := []string{"localhost"}
	if own, err := os.Hostname(); err == nil && own != "" && own != "localhost" {
		names = append(names, own)
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = scheme + "://" + net.JoinHostPort(name, strconv.Itoa(tcp.Port)) + "/"
	}
	return out
}

// shutdownPatience is how long answers that are being sent are waited for.
const shutdownPatience = 2 * time.Second

func (e *flameExporter) shutdown(ctx context.Context) error {
	if e.server == nil {
		return nil
	}
	// A collector gives all the time there is, and a download may take it.
	patient, cancel := context.WithTimeout(ctx, shutdownPatience)
	defer cancel()
	err := e.server.Shutdown(patient)
	if err != nil {
		err = e.server.Close()
	}
	e.served.Wait()
	if err != nil {
		return fmt.Errorf("stopping the live view: %w", err)
	}
	return nil
}

// consume takes a payload up. One that can't be understood would not be understood the next time either. One without profiles
// came for what it is said of its receiver.
func (e *flameExporter) consume(ctx context.Context, p pprofile.Profiles) error {
	if report := health.FromContext(ctx); report != nil {
		e.mu.Lock()
		e.reports[report.Name] = report
		e.mu.Unlock()
	}
	if p.ResourceProfiles().Len() == 0 {
		return nil
	}
	added, err := e.store.Add(p, e.now())
	e.trees.forget(e.store.Serial())
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.payloads.Refused++
		e.payloads.LastError = err.Error()
		return consumererror.NewPermanent(fmt.Errorf("taking profiles up for the live view: %w", err))
	}
	e.payloads.Accepted++
	if added.Skewed > 0 {
		e.payloads.SkewedProfiles += uint64(added.Skewed)
		e.payloads.SkewMs = added.Skew.Milliseconds()
	}
	return nil
}
