// Package api asks the flamegraph exporter's server. Nothing that comes from there is trusted: answers are bounded in size and
// time, checked, and cleaned for the terminal.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// maxAnswer bounds an answer; 5,000 nodes with long names are some 2 MiB.
const maxAnswer = 32 << 20

// Client asks one server. It holds no state of its own beside connections.
type Client struct {
	base *url.URL
	http *http.Client
}

// New makes a client of the server at address, as http://host:port or host:port.
func New(address string, timeout time.Duration) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a server; it has to be like http://127.0.0.1:4041", withoutPassword(address))
	}
	if strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // what is shown of the address would have it
		return nil, fmt.Errorf("the password for %q has a character that has to be written as in addresses: / as %%2F, ? as %%3F, # as %%23",
			withoutPassword(address))
	}
	u.Path, u.RawQuery, u.Fragment = strings.TrimSuffix(u.Path, "/"), "", ""
	return &Client{base: u, http: &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the API redirects nobody
	}}, nil
}

// withoutPassword is an address that is not understood as it can be shown: whatever is before the last @ may be a password.
func withoutPassword(address string) text.Safe {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		address = "..." + address[i:]
	}
	return text.Clean(address)
}

// NewWithTransport makes a client that asks through a transport of its own.
func NewWithTransport(t http.RoundTripper) *Client {
	return &Client{base: &url.URL{Scheme: "http", Host: "localhost"}, http: &http.Client{Transport: t}}
}

// Address is the server's, without a password.
func (c *Client) Address() text.Safe {
	shown := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: c.base.Path}
	return text.Clean(strings.TrimPrefix(shown.String(), "http://"))
}

// Kind is what is wrong, as far as somebody has to do something else about it.
type Kind int

// Kinds of problems.
const (
	Other     Kind = iota
	Nobody         // nothing listens there
	Stranger       // something else than the server answers
	Missing        // the server has nothing of what was asked for
	Forbidden      // the server wants to know who asks
	Rejected       // the server does not understand what was asked
)

// Problem is why there is no answer.
type Problem struct {
	Kind     Kind
	Sentence text.Safe
	err      error
}

func (p *Problem) Error() string { return string(p.Sentence) }

func (p *Problem) Unwrap() error { return p.err }

// Filter is a condition on an attribute.
type Filter struct{ Key, Value string }

// Range is a range of time in Unix milliseconds, From inclusive, To exclusive.
type Range struct{ From, To int64 }

// Selection says which samples are meant.
type Selection struct {
	Type    string // id of a Type; empty: the first
	Range   Range
	Base    *Range // to compare with, nil if nothing
	Filters []Filter
}

func (s Selection) values() url.Values {
	v := url.Values{}
	if s.Type != "" {
		v.Set("type", s.Type)
	}
	set := func(prefix string, r Range) {
		v.Set(prefix+"from", strconv.FormatInt(r.From, 10))
		v.Set(prefix+"to", strconv.FormatInt(r.To, 10))
	}
	set("", s.Range)
	if s.Base != nil {
		set("base_", *s.Base)
	}
	for _, f := range s.Filters {
		v.Add("filter", f.Key+"="+f.Value)
	}
	return v
}

// Status asks how the server is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s, err := get[Status](ctx, c, "status", nil)
	if err == nil && (s.Window == nil || s.Types == nil) {
		return nil, c.stranger("its answer is no status", nil)
	}
	return s, err
}

// Labels asks by what a selection can be narrowed.
func (c *Client) Labels(ctx context.Context, s Selection) ([]Label, error) {
	return convert(c, func() (*labelsAnswer, error) { return get[labelsAnswer](ctx, c, "labels", s.values()) }, (*labelsAnswer).labels)
}

// Table asks for the functions of a selection: at most limit, those that come first in an order ("self", "total", "diff",
// "name"), and that match what is searched for.
func (c *Client) Table(ctx context.Context, s Selection, order, search string, limit int) (*Table, error) {
	v := s.values()
	v.Set("sort", order)
	v.Set("limit", strconv.Itoa(limit))
	if search != "" {
		v.Set("search", search)
	}
	return convert(c, func() (*tableAnswer, error) { return get[tableAnswer](ctx, c, "table", v) }, (*tableAnswer).table)
}

// Tree asks for the stacks of a selection, of which the smallest are left out beyond limit. The first level are the values of the
// attribute group; empty: names of processes.
func (c *Client) Tree(ctx context.Context, s Selection, group, search string, limit int) (*Tree, error) {
	v := s.values()
	if group != "" {
		v.Set("group", group)
	}
	if search != "" {
		v.Set("search", search)
	}
	return c.tree(ctx, v, limit)
}

// Around asks for what is above or below a function: view is "callers" or "callees".
func (c *Client) Around(ctx context.Context, s Selection, view, function string, limit int) (*Tree, error) {
	v := s.values()
	v.Set("view", view)
	v.Set("function", function)
	return c.tree(ctx, v, limit)
}

func (c *Client) tree(ctx context.Context, v url.Values, limit int) (*Tree, error) {
	v.Set("max_nodes", strconv.Itoa(limit))
	return convert(c, func() (*treeAnswer, error) { return get[treeAnswer](ctx, c, "flamegraph", v) }, (*treeAnswer).tree)
}

func convert[A, B any](c *Client, ask func() (A, error), to func(A) (B, error)) (out B, err error) {
	a, err := ask()
	if err != nil {
		return out, err
	}
	if out, err = to(a); err != nil {
		return out, c.stranger("its answer is malformed: "+err.Error(), err)
	}
	return out, nil
}

// get asks for one answer.
func get[A any](ctx context.Context, c *Client, what string, v url.Values) (*A, error) {
	u := *c.base
	u.Path += "/api/" + what
	u.RawQuery = v.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, c.problem(Other, "cannot be asked", err)
	}
	r.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.unreachable(err)
	case len(body) > maxAnswer:
		return nil, c.stranger(fmt.Sprintf("its answer has more than %d MiB", maxAnswer>>20), nil)
	case resp.StatusCode != http.StatusOK:
		return nil, c.refused(resp, body)
	}
	var out A
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, c.stranger("its answer is no JSON of this API", err)
	}
	return &out, nil
}

// refused says what an answer other than success means.
func (c *Client) refused(resp *http.Response, body []byte) error {
	var said struct {
		Error *string `json:"error"`
	}
	ours := json.Unmarshal(body, &said) == nil && said.Error != nil
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden && !ours:
		return c.problem(Forbidden, "wants to know who asks; an address may be http://user:password@host:port", nil)
	case !ours:
		return c.stranger(fmt.Sprintf("it answers with status %d", code), nil)
	case code == http.StatusNotFound:
		return &Problem{Kind: Missing, Sentence: text.Clean(*said.Error)}
	case code == http.StatusBadRequest || code == http.StatusRequestURITooLong:
		return &Problem{Kind: Rejected, Sentence: text.Clean(*said.Error)}
	}
	return c.problem(Other, "says: "+*said.Error, nil)
}

func (c *Client) stranger(why string, err error) error {
	return c.problem(Stranger, "is no hostprofiles live view: "+why, err)
}

func (c *Client) problem(kind Kind, what string, err error) error {
	return &Problem{Kind: kind, Sentence: c.Address() + " " + text.Clean(what), err: err}
}

// unreachable says why the server could not be asked.
func (c *Client) unreachable(err error) error {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return &Problem{Sentence: "the request was given up", err: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Problem{Kind: Nobody, Sentence: "nothing listens at " + c.Address(), err: err}
	case errors.As(err, &dns):
		return &Problem{Kind: Nobody, Sentence: "there is no host " + text.Clean(c.base.Hostname()), err: err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return c.problem(Other, fmt.Sprintf("did not answer in %s", c.http.Timeout), err)
	}
	var wrapped *url.Error // names the whole URL, with what was asked
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return c.problem(Other, "cannot be asked: "+err.Error(), err)
}
