package flamegraph

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"
)

// Config says where the page is served and how much is kept for it. Without an authentication extension whoever reaches the
// address sees everything.
type Config struct {
	// Server has the endpoint, TLS, authentication, CORS and limits, as every HTTP server of a collector. It has a name here
	// since its way of reading a configuration would be that of all.
	Server confighttp.ServerConfig `mapstructure:",squash"`

	// Window is how long profiles are kept. From 10s to 24h.
	Window time.Duration `mapstructure:"window"`

	// MemoryMiB is for the profiles that are kept, in MiB. When it is used up the oldest go first, and the page says so. From 16
	// to 65536.
	MemoryMiB int `mapstructure:"memory_mib"`

	// AllowedHosts are the host names under which the page may be asked for, beside localhost, the machine's own name and IP
	// addresses. Others are refused, so that web pages of strangers cannot read it through a name of theirs (DNS rebinding). A
	// leading dot stands for all names below.
	AllowedHosts []string `mapstructure:"allowed_hosts"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Unmarshal reads a configuration. What confighttp does for its part lets unknown keys pass, so they are looked for here.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	known := configKeys()
	for key := range conf.ToStringMap() {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%q is no key of the flamegraph exporter", key)
		}
	}
	return conf.Unmarshal(c)
}

// configKeys are all that a configuration may have.
func configKeys() []string { return keys(reflect.TypeFor[Config]()) }

// keys are the keys of a struct that a configuration is read into.
func keys(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		switch {
		case strings.Contains(options, "squash"):
			out = append(out, keys(f.Type)...)
		case name != "" && name != "-":
			out = append(out, name)
		}
	}
	return out
}

// Bounds of the configuration.
const (
	minWindow    = 10 * time.Second
	maxWindow    = 24 * time.Hour
	minMemoryMiB = 16
	maxMemoryMiB = 64 << 10
)

// Validate validates the Config fields.
func (c *Config) Validate() error {
	var errs []error
	if c.Window < minWindow || c.Window > maxWindow {
		errs = append(errs, fmt.Errorf("window is %s; it must be from %s to %s", c.Window, minWindow, maxWindow))
	}
	if c.MemoryMiB < minMemoryMiB || c.MemoryMiB > maxMemoryMiB {
		errs = append(errs, fmt.Errorf("memory_mib is %d; it must be from %d to %d", c.MemoryMiB, minMemoryMiB, maxMemoryMiB))
	}
	if c.Server.NetAddr.Endpoint == "" {
		errs = append(errs, errors.New("endpoint is empty; it must be an address with a port, such as 127.0.0.1:4041"))
	}
	for _, name := range c.AllowedHosts {
		if _, ok := hostName(name); !ok {
			errs = append(errs, fmt.Errorf("allowed_hosts has %q, which is no host name", name))
		}
	}
	return errors.Join(errs...)
}

func createDefaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = "127.0.0.1:4041"
	return &Config{Server: server, Window: 15 * time.Minute, MemoryMiB: 128}
}
