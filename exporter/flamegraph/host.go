package flamegraph

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// hostGuard lets requests through that ask for a name of this server. A page of a stranger can make a browser send requests
// here under a name that the stranger owns (DNS rebinding), and would be allowed to read the answers; the browser still tells
// the name. IP addresses cannot be made to point elsewhere.
//
// Neither may pages of strangers have a browser ask for answers that they cannot read: it would be work all the same. Links to the
// page are fine, and so is what CORS is configured for.
type hostGuard struct {
	names     map[string]bool
	suffixes  []string
	strangers bool // may ask
	next      http.Handler
}

func newHostGuard(endpoint string, allowed []string, strangers bool, next http.Handler) *hostGuard {
	g := &hostGuard{names: map[string]bool{"localhost": true}, suffixes: []string{".localhost"}, strangers: strangers, next: next}
	own, _ := os.Hostname()
	bound, _, _ := net.SplitHostPort(endpoint)
	for _, name := range append([]string{own, bound}, allowed...) {
		name, ok := hostName(name)
		switch {
		case !ok:
		case name[0] == '.':
			g.suffixes = append(g.suffixes, name)
		default:
			g.names[name] = true
		}
	}
	return g
}

// hostName brings a name to the form in which names are compared.
func hostName(name string) (string, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || name == "." || len(name) > 253 || strings.ContainsAny(name, "/:@ \t\r\n*") {
		return "", false
	}
	return name, true
}

func (g *hostGuard) allows(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	name, ok := hostName(host)
	if !ok {
		return false
	}
	if g.names[name] {
		return true
	}
	for _, s := range g.suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

func (g *hostGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.allows(r.Host) {
		writeError(w, r, http.StatusMisdirectedRequest,
			"this server is not known under the name that was asked for; add it to allowed_hosts of the flamegraph exporter if it should be")
		return
	}
	// https://www.w3.org/TR/fetch-metadata/
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" && !g.strangers {
		writeError(w, r, http.StatusForbidden, "another site's page has asked for this; set cors of the flamegraph exporter if it should")
		return
	}
	g.next.ServeHTTP(w, r)
}
