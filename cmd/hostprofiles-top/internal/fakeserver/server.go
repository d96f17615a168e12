// Package fakeserver answers as the flamegraph exporter does, from a few stacks that a test gives it. Only tests use it.
package fakeserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Frame is a function on a stack.
type Frame struct {
	Name, Type, File string
	Line             int64
	Mapping          string // empty: "prog", but of groups
	Part             bool   // it is an address of an unknown function
}

// Sample is a stack, innermost last, with how often it was seen now and in the window before.
type Sample struct {
	Process, PID, Thread string
	Stack                []Frame
	Value, Base          int64
}

// Server holds what is answered. Set its fields before it is asked, Change them later.
type Server struct {
	Now, From, To int64 // Unix ms
	Samples       []Sample
	Stops         map[string]string // by pid: why stacks are incomplete
	Receivers     []any
	Incomplete    []any
	More          int              // incomplete stacks that are not listed
	Broken        http.HandlerFunc // answers instead, if it is set

	mu    sync.Mutex
	paths []string
}

// Change changes what is answered while it may be asked for.
func (s *Server) Change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// Asked are the requests so far.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, r.URL.RequestURI())
	if s.Broken != nil {
		s.Broken(w, r)
		return
	}
	switch r.URL.Path {
	case "/api/status":
		reply(w, 200, s.status())
	case "/api/labels":
		reply(w, 200, s.labels(r))
	case "/api/table":
		if q := r.URL.Query().Get("search"); strings.HasPrefix(q, "/") {
			if _, err := regexp.Compile(strings.Trim(q, "/")); err != nil {
				reply(w, 400, map[string]any{"error": "search is not understood: " + err.Error()})
				return
			}
		}
		reply(w, 200, s.table(r))
	case "/api/flamegraph":
		s.flamegraph(w, r)
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) status() any {
	types := []any{}
	sum := int64(0)
	for _, x := range s.Samples {
		sum += x.Value + x.Base
	}
	if len(s.Samples) > 0 {
		types = append(types, map[string]any{"id": "samples:count:cpu:nanoseconds", "sample_type": "samples", "sample_unit": "count",
			"period_type": "cpu", "period_unit": "nanoseconds", "period": 20_000_000, "samples": sum})
	}
	return map[string]any{
		"now": s.Now, "version": "1.2.3",
		"window": map[string]any{"from": s.From, "to": s.To, "seconds": 900, "samples": sum, "dropped_until": nil},
		"types":  types, "payloads": map[string]any{"accepted": 7, "refused": 0, "last_error": ""},
		"receivers": append([]any{}, s.Receivers...), "incomplete": append([]any{}, s.Incomplete...),
		"incomplete_more": s.More,
	}
}

// selected are the samples that pass the filters of a request.
func (s *Server) selected(r *http.Request, without string) []Sample {
	var out []Sample
	for _, x := range s.Samples {
		ok := x.Value != 0 || r.URL.Query().Has("base_from")
		for _, f := range r.URL.Query()["filter"] {
			key, value, _ := strings.Cut(f, "=")
			is := map[string]string{"process.executable.name": x.Process, "process.pid": x.PID, "thread.name": x.Thread}[key]
			ok = ok && (key == without || is == value)
		}
		if ok {
			out = append(out, x)
		}
	}
	return out
}

func (s *Server) labels(r *http.Request) any {
	keys := map[string]func(Sample) string{
		"process.executable.name":        func(x Sample) string { return x.Process },
		"process.pid":                    func(x Sample) string { return x.PID },
		"thread.name":                    func(x Sample) string { return x.Thread },
		"frame_type":                     func(x Sample) string { return x.Stack[len(x.Stack)-1].Type },
		"hostprofiles.stack.stop_reason": func(x Sample) string { return s.Stops[x.PID] },
	}
	var out []any
	for key, of := range keys {
		sums := map[string]int64{}
		for _, x := range s.selected(r, key) {
			if key != "hostprofiles.stack.stop_reason" || s.Stops[x.PID] != "" {
				sums[of(x)] += x.Value
			}
		}
		values := []map[string]any{}
		for v, n := range sums {
			values = append(values, map[string]any{"value": v, "total": n})
			if key == "process.pid" {
				values[len(values)-1]["hint"] = s.executable(v)
			}
		}
		slices.SortFunc(values, func(a, b map[string]any) int {
			return 2*int(b["total"].(int64)-a["total"].(int64)) + strings.Compare(a["value"].(string), b["value"].(string))
		})
		out = append(out, map[string]any{"key": key, "values": values, "more": 0})
	}
	return map[string]any{"labels": out}
}

// executable is the name of that of a pid.
func (s *Server) executable(pid string) string {
	i := slices.IndexFunc(s.Samples, func(x Sample) bool { return x.PID == pid })
	return s.Samples[i].Process
}

// columns are functions as they are sent.
type columns struct {
	Key, Name, File, Type, Mapping []string
	Line                           []int64
	Part                           []bool
	index                          map[Frame]int
}

func (c *columns) add(f Frame) int {
	if i, ok := c.index[f]; ok {
		return i
	}
	if c.index == nil {
		c.index = map[Frame]int{}
	}
	c.index[f] = len(c.Key)
	mapping := f.Mapping
	if mapping == "" && f.Type != "group" {
		mapping = "prog"
	}
	c.Key, c.Name, c.File = append(c.Key, key(f)), append(c.Name, f.Name), append(c.File, f.File)
	c.Type, c.Mapping, c.Line = append(c.Type, f.Type), append(c.Mapping, mapping), append(c.Line, f.Line)
	c.Part = append(c.Part, f.Part)
	return len(c.Key) - 1
}

func key(f Frame) string { return strconv.FormatUint(hash(f.Type+f.Name), 36) }

func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (c *columns) json() any {
	return map[string]any{"key": c.Key, "name": c.Name, "file": c.File, "type": c.Type, "mapping": c.Mapping, "line": c.Line, "part": c.Part}
}

func matches(f Frame, search string) bool {
	if strings.HasPrefix(search, "/") {
		re, err := regexp.Compile(strings.Trim(search, "/"))
		return err == nil && re.MatchString(f.Name)
	}
	return strings.Contains(strings.ToLower(f.Name), strings.ToLower(search))
}

func (s *Server) table(r *http.Request) any {
	type sums struct {
		f                          Frame
		self, total, bself, btotal int64
	}
	q := r.URL.Query()
	byFrame := map[Frame]*sums{}
	total, base := int64(0), int64(0)
	for _, x := range s.selected(r, "") {
		total, base = total+x.Value, base+x.Base
		seen := map[Frame]bool{}
		for i, f := range x.Stack {
			if byFrame[f] == nil {
				byFrame[f] = &sums{f: f}
			}
			of := byFrame[f]
			if !seen[f] {
				of.total, of.btotal = of.total+x.Value, of.btotal+x.Base
			}
			seen[f] = true
			if i == len(x.Stack)-1 {
				of.self, of.bself = of.self+x.Value, of.bself+x.Base
			}
		}
	}
	var rows []*sums
	for f, of := range byFrame {
		if matches(f, q.Get("search")) {
			rows = append(rows, of)
		}
	}
	slices.SortFunc(rows, func(a, b *sums) int {
		by := cmp.Or(b.self-a.self, b.total-a.total)
		switch q.Get("sort") {
		case "total":
			by = b.total - a.total
		case "name":
			by = 0
		}
		return 2*int(by) + strings.Compare(a.f.Name, b.f.Name)
	})
	limit, _ := strconv.Atoi(q.Get("limit"))
	more := max(len(rows)-limit, 0)
	var c columns
	var self, all, bself, ball []int64
	for _, of := range rows[:len(rows)-more] {
		c.add(of.f)
		self, all, bself, ball = append(self, of.self), append(all, of.total), append(bself, of.bself), append(ball, of.btotal)
	}
	out := map[string]any{"total": total, "base_total": 0, "functions": c.json(), "self": self, "functions_total": all, "more": more}
	if q.Has("base_from") {
		out["base_total"], out["base_self"], out["base_functions_total"] = base, bself, ball
	}
	return out
}

func (s *Server) flamegraph(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	t := newTree()
	function := q.Get("function")
	matching := int64(0)
	for _, x := range s.selected(r, "") {
		group := Frame{Name: x.Process, Type: "group"}
		if q.Get("group") == "process.pid" {
			group = Frame{Name: x.PID, Type: "group", Mapping: x.Process}
		}
		stack := append([]Frame{group}, x.Stack...)
		at := slices.IndexFunc(stack, func(f Frame) bool { return key(f) == function })
		switch {
		case q.Get("view") == "":
		case at < 0:
			continue
		case q.Get("view") == "callers":
			stack = slices.Clone(stack[:at+1])
			slices.Reverse(stack)
		default:
			stack = stack[at:]
		}
		t.add(stack, x.Value, x.Base)
		if slices.ContainsFunc(x.Stack, func(f Frame) bool { return matches(f, q.Get("search")) }) {
			matching += x.Value
		}
	}
	if function != "" && len(t.nodes) == 1 {
		reply(w, 404, map[string]any{"error": "the function is not in this selection"})
		return
	}
	reply(w, 200, t.json(q.Has("base_from"), matching))
}

// tree puts stacks together; nodes are numbered as they come, which keeps parents before their children.
type tree struct {
	c     columns
	nodes []node
}

type node struct {
	parent, function           int
	self, total, bself, btotal int64
	children                   []int
}

func newTree() *tree {
	t := &tree{}
	t.nodes = []node{{parent: -1, function: t.c.add(Frame{Name: "all", Type: "root"})}}
	return t
}

func (t *tree) add(stack []Frame, value, base int64) {
	at := 0
	t.nodes[0].total, t.nodes[0].btotal = t.nodes[0].total+value, t.nodes[0].btotal+base
	for _, f := range stack {
		function := t.c.add(f)
		next := -1
		for _, child := range t.nodes[at].children {
			if t.nodes[child].function == function {
				next = child
			}
		}
		if next < 0 {
			next = len(t.nodes)
			t.nodes = append(t.nodes, node{parent: at, function: function})
			t.nodes[at].children = append(t.nodes[at].children, next)
		}
		at = next
		t.nodes[at].total, t.nodes[at].btotal = t.nodes[at].total+value, t.nodes[at].btotal+base
	}
	t.nodes[at].self, t.nodes[at].bself = t.nodes[at].self+value, t.nodes[at].bself+base
}

// json lists the nodes in preorder.
func (t *tree) json(compared bool, matching int64) any {
	var parent, function []int
	var self, total, bself, btotal []int64
	var walk func(i, above int)
	walk = func(i, above int) {
		n := t.nodes[i]
		at := len(parent)
		parent, function = append(parent, above), append(function, n.function)
		self, total, bself, btotal = append(self, n.self), append(total, n.total), append(bself, n.bself), append(btotal, n.btotal)
		for _, c := range n.children {
			walk(c, at)
		}
	}
	walk(0, -1)
	nodes := map[string]any{"parent": parent, "function": function, "self": self, "total": total, "base_self": []int64{}, "base_total": []int64{}}
	if compared {
		nodes["base_self"], nodes["base_total"] = bself, btotal
	}
	return map[string]any{"total": t.nodes[0].total, "base_total": t.nodes[0].btotal, "functions": t.c.json(), "nodes": nodes,
		"search": map[string]any{"total": matching}}
}
