package flamegraph

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostprofiles/hostprofiles/exporter/flamegraph/internal/store"
)

// shortFilters are parameters that stand for a filter on an attribute.
var shortFilters = [...]struct{ parameter, key string }{
	{"service", "service.name"},
	{"process", "process.executable.name"},
	{"pid", "process.pid"},
	{"container", "container.id"},
	{"pod", "k8s.pod.name"},
	{"thread", "thread.name"},
}

// parameters are all that are understood, each where it has a meaning: a typing error must not select something else.
func parameters() []string {
	out := []string{"type", "group", "lines", "markers", "focus", "search", "max_nodes", "view", "function", "sort", "limit", "columns", "rows", "timestamps",
		"from", "to", "seconds", "filter", "base_from", "base_to", "base_seconds", "base_filter"}
	for _, s := range shortFilters {
		out = append(out, s.parameter)
	}
	return out
}

// maxParameters bounds a query string, in bytes.
const maxParameters = 16 << 10

// parametersOf reads a request's parameters, which are all known.
func parametersOf(r *http.Request) (url.Values, error) {
	if len(r.URL.RawQuery) > maxParameters {
		return nil, &failure{http.StatusRequestURITooLong, "the query string is too long"}
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "the query string is malformed: " + err.Error()}
	}
	for name := range values {
		if !slices.Contains(parameters(), name) {
			return nil, &failure{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q; docs/live-view.md has those there are", name)}
		}
	}
	return values, nil
}

// checked has requests with parameters that there are not refused.
func checked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := parametersOf(r); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

const defaultGroup = "process.executable.name"

// params reads a request's parameters and remembers what is wrong with the first.
type params struct {
	values url.Values
	now    time.Time
	err    error
}

func (p *params) fail(name, format string, a ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s %s", name, fmt.Sprintf(format, a...))
	}
}

func (p *params) number(name string, fallback, low, high int64) int64 {
	text := p.values.Get(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		p.fail(name, "is %q; it must be a number from %d to %d", text, low, high)
		return fallback
	}
	return n
}

func (p *params) choice(name string, of ...string) string {
	text := p.values.Get(name)
	for _, o := range of {
		if text == o {
			return o
		}
	}
	if text != "" {
		p.fail(name, "is %q; it must be one of %s", text, strings.Join(of, ", "))
	}
	return of[0]
}

// maxMillis is the year 9999: sums of times stay far from overflowing.
const maxMillis = 253402300799000

// selection reads which samples are meant. prefix is "" or "base_"; the short filters are for both.
func (p *params) selection(prefix string) store.Selection {
	s := store.Selection{
		Type: p.values.Get("type"),
		From: p.number(prefix+"from", 0, 0, maxMillis),
		To:   p.number(prefix+"to", 0, 0, maxMillis),
	}
	if seconds := p.number(prefix+"seconds", 0, 1, 10*365*86400); seconds > 0 {
		if s.From != 0 {
			p.fail(prefix+"seconds", "and %sfrom exclude each other", prefix)
		}
		end := s.To
		if end == 0 {
			end = p.now.UnixMilli()
		}
		s.From = max(end-1000*seconds, 1)
	}
	if s.From != 0 && s.To != 0 && s.From >= s.To {
		p.fail(prefix+"from", "has to be before %sto", prefix)
	}
	filters := p.values[prefix+"filter"]
	if prefix != "" && len(filters) == 0 {
		filters = p.values["filter"] // the same, at another time
	}
	for _, f := range filters[:min(len(filters), maxFilters+1)] {
		s.Filters = append(s.Filters, p.filter(f))
	}
	for _, short := range shortFilters {
		for _, v := range p.values[short.parameter] {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil && short.key == "process.pid" {
				p.fail(short.parameter, "is %q; it must be a number", v)
			}
			s.Filters = append(s.Filters, store.Filter{Key: short.key, Value: v})
		}
	}
	if len(s.Filters) > maxFilters {
		p.fail(prefix+"filter", "occurs too often; at most %d filters are understood", maxFilters)
	}
	return s
}

func (p *params) filter(text string) store.Filter {
	key, value, ok := strings.Cut(text, "=")
	f := store.Filter{Key: strings.TrimSuffix(key, "!"), Value: value, Not: strings.HasSuffix(key, "!")}
	if !ok || f.Key == "" {
		p.fail("filter", "is %q; it must be key=value or key!=value", text)
	}
	return f
}

// base reads what to compare with, nil if nothing.
func (p *params) base() *store.Selection {
	for _, name := range []string{"base_from", "base_to", "base_seconds", "base_filter"} {
		if p.values.Has(name) {
			s := p.selection("base_")
			return &s
		}
	}
	return nil
}

// query reads what a tree is to be made of.
func (p *params) query() store.Query {
	q := store.Query{Selection: p.selection(""), Base: p.base(), Group: p.values.Get("group"), Lines: p.choice("lines", "", "0", "1") == "1",
		NoMarkers: p.choice("markers", "", "0", "1") == "0"}
	if q.Group == "" {
		q.Group = defaultGroup
		if q.Base != nil && !slices.Equal(q.Filters, q.Base.Filters) {
			q.Group = store.GroupNone // different processes have nothing in common otherwise
		}
	}
	return q
}

// matchTime bounds how long names are compared with a regular expression: some take long for each.
const matchTime = time.Second

// matcher reads what is searched for. It may fail while it is used, too.
func (p *params) matcher() store.Matcher {
	text := p.values.Get("search")
	if len(text) > 1000 {
		p.fail("search", "has %d bytes; at most 1000 are understood", len(text))
		return nil
	}
	m, err := store.NewMatcher(text)
	if err != nil {
		p.fail("search", "is not understood: %v", err)
	}
	if m == nil {
		return nil
	}
	var taken time.Duration
	return func(f *store.Function) bool {
		if taken > matchTime {
			p.fail("search", "takes too long; a simpler expression may do")
			return false
		}
		began := time.Now()
		found := m(f)
		taken += time.Since(began)
		return found
	}
}
