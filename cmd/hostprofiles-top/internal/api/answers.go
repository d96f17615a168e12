package api

import (
	"fmt"
	"strings"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/text"
)

// What the server answers, as docs/live-view.md tells, as far as it is shown here. Everything in it is foreign: names become
// text.Safe as they are read, and columns are checked to be of one length.

// Status says how the server and what feeds it are.
type Status struct {
	Now        int64        `json:"now"`
	Version    Name         `json:"version"`
	Window     *Window      `json:"window"`
	Types      *[]Type      `json:"types"`
	Payloads   Payloads     `json:"payloads"`
	Receivers  []Receiver   `json:"receivers"`
	Incomplete []Incomplete `json:"incomplete"`
	// IncompleteMore are not listed: they have fewer samples than those.
	IncompleteMore uint64 `json:"incomplete_more"`
}

// Window is what the server holds; times are Unix milliseconds, 0 without any.
type Window struct {
	From         int64 `json:"from"`
	To           int64 `json:"to"`
	Samples      int64 `json:"samples"`
	DroppedUntil int64 `json:"dropped_until"`
}

// Type is a kind of profiles.
type Type struct {
	ID         string `json:"id"`
	SampleType Name   `json:"sample_type"`
	SampleUnit Name   `json:"sample_unit"`
	PeriodType Name   `json:"period_type"`
	PeriodUnit Name   `json:"period_unit"`
	Period     int64  `json:"period"`
}

// Payloads counts what arrived.
type Payloads struct {
	Accepted  uint64 `json:"accepted"`
	Refused   uint64 `json:"refused"`
	LastError Name   `json:"last_error"`
	// SkewedProfiles have times that cannot be true, the last of them by SkewMs (ahead, if it is positive).
	SkewedProfiles uint64 `json:"skewed_profiles"`
	SkewMs         int64  `json:"skew_ms"`
}

// Receiver is what a receiver in the server's process says of itself.
type Receiver struct {
	Name          Name            `json:"name"`
	Seen          int64           `json:"seen"` // when it said this, Unix ms
	Taken         uint64          `json:"taken"`
	Delivered     uint64          `json:"delivered"`
	Lost          map[Name]uint64 `json:"lost"`
	KernelSkipped uint64          `json:"kernel_skipped"`
	Processes     uint64          `json:"processes"`
	Executables   uint64          `json:"executables"`
	Problem       Name            `json:"problem"`
}

// Incomplete says how many samples of a process have no complete stack, and why.
type Incomplete struct {
	Process Name  `json:"process"`
	PID     Name  `json:"pid"`
	Reason  Name  `json:"reason"`
	Samples int64 `json:"samples"`
	Of      int64 `json:"of"`
}

// Name is a string of an answer that was made safe as it was read.
type Name struct{ text.Safe }

// UnmarshalText makes what is read safe.
func (n *Name) UnmarshalText(b []byte) error {
	n.Safe = text.Clean(string(b))
	return nil
}

// Label is an attribute's key with the values by which a selection can be narrowed, biggest first.
type Label struct {
	Key    string  `json:"key"`
	Values []Value `json:"values"`
	More   int     `json:"more"` // values that were left out
}

// Value is one value of a label: Raw to ask for it, Shown to show it. Hint says what it stands for, as of a pid the name of its
// executable; empty if that is not told.
type Value struct {
	Raw         string
	Shown, Hint text.Safe
	Total       int64
}

// Function describes a function; of groups (the first level of the tree) the key is the value as it can be asked for, and the
// mapping what it stands for, as of a pid the name of its executable.
type Function struct {
	Key                 string
	Name, File, Mapping text.Safe
	Type                text.Safe // profile.frame.type; the Type constants are the server's own
	Line                int64
	Part                bool // the name is an address in a function of which neither the name nor the beginning is known
}

// Types of functions that are none.
const (
	TypeGroup     = "group"
	TypeRoot      = "root"
	TypeTruncated = "truncated" // stands where callers are missing
)

// Table is the functions of a selection.
type Table struct {
	Total, BaseTotal int64
	Rows             []Row
	More             int
}

// Row is a function in a table. A sample counts once in its total, even if it recurses.
type Row struct {
	Function
	Self, Total, BaseSelf, BaseTotal int64
}

// Tree is the stacks of a selection, or those above or below a function. Node 0 is the root; parents come before their children.
type Tree struct {
	Total, BaseTotal int64
	Functions        []Function
	Nodes            []Node
	SearchTotal      int64 // of samples with a frame that matches
}

// Node is one of a tree.
type Node struct {
	Parent, Function                 int
	Self, Total, BaseSelf, BaseTotal int64
}

// functionColumns is how functions are sent.
type functionColumns struct {
	Key     []string `json:"key"`
	Name    []string `json:"name"`
	File    []string `json:"file"`
	Line    []int64  `json:"line"`
	Type    []string `json:"type"`
	Mapping []string `json:"mapping"`
	Part    []bool   `json:"part"` // absent: the server is an older one
}

func (c *functionColumns) rows() ([]Function, error) {
	n := len(c.Key)
	if len(c.Name) != n || len(c.File) != n || len(c.Line) != n || len(c.Type) != n || len(c.Mapping) != n || c.Part != nil && len(c.Part) != n {
		return nil, fmt.Errorf("columns of functions differ in length")
	}
	out := make([]Function, n)
	for i := range out {
		out[i] = Function{Key: c.Key[i], Name: text.Clean(c.Name[i]), File: text.Clean(c.File[i]), Mapping: text.Clean(c.Mapping[i]),
			Type: text.Clean(c.Type[i]), Line: c.Line[i]}
		if out[i].Type == TypeGroup {
			out[i].Key = c.Name[i]
		}
		frame := out[i].Type != TypeGroup && out[i].Type != TypeRoot && out[i].Type != TypeTruncated
		out[i].Part = frame && (c.Part != nil && c.Part[i] || c.Part == nil && isAddress(out[i].Name))
	}
	return out, nil
}

// isAddress tells whether a name is one that the server gives to what has none: file+0x12ab or 0x12ab.
func isAddress(name text.Safe) bool {
	digits := string(name)
	if i := strings.LastIndex(digits, "+0x"); i >= 0 {
		digits = digits[i+1:]
	}
	digits, ok := strings.CutPrefix(digits, "0x")
	return ok && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

type tableAnswer struct {
	Total              int64           `json:"total"`
	BaseTotal          int64           `json:"base_total"`
	Functions          functionColumns `json:"functions"`
	Self               []int64         `json:"self"`
	FunctionsTotal     []int64         `json:"functions_total"`
	BaseSelf           []int64         `json:"base_self"`
	BaseFunctionsTotal []int64         `json:"base_functions_total"`
	More               int             `json:"more"`
}

func (a *tableAnswer) table() (*Table, error) {
	functions, err := a.Functions.rows()
	if err != nil {
		return nil, err
	}
	n := len(functions)
	if len(a.Self) != n || len(a.FunctionsTotal) != n || !absentOr(a.BaseSelf, n) || !absentOr(a.BaseFunctionsTotal, n) {
		return nil, fmt.Errorf("columns of the table differ in length")
	}
	t := &Table{Total: a.Total, BaseTotal: a.BaseTotal, Rows: make([]Row, n), More: a.More}
	for i := range t.Rows {
		t.Rows[i] = Row{Function: functions[i], Self: a.Self[i], Total: a.FunctionsTotal[i],
			BaseSelf: at(a.BaseSelf, i), BaseTotal: at(a.BaseFunctionsTotal, i)}
	}
	return t, nil
}

type treeAnswer struct {
	Total     int64           `json:"total"`
	BaseTotal int64           `json:"base_total"`
	Functions functionColumns `json:"functions"`
	Nodes     struct {
		Parent    []int   `json:"parent"`
		Function  []int   `json:"function"`
		Self      []int64 `json:"self"`
		Total     []int64 `json:"total"`
		BaseSelf  []int64 `json:"base_self"`
		BaseTotal []int64 `json:"base_total"`
	} `json:"nodes"`
	Search struct {
		Total int64 `json:"total"`
	} `json:"search"`
}

func (a *treeAnswer) tree() (*Tree, error) {
	functions, err := a.Functions.rows()
	if err != nil {
		return nil, err
	}
	c := &a.Nodes
	n := len(c.Parent)
	if len(c.Function) != n || len(c.Self) != n || len(c.Total) != n || !absentOr(c.BaseSelf, n) || !absentOr(c.BaseTotal, n) {
		return nil, fmt.Errorf("columns of nodes differ in length")
	}
	t := &Tree{Total: a.Total, BaseTotal: a.BaseTotal, Functions: functions, Nodes: make([]Node, n), SearchTotal: a.Search.Total}
	for i := range t.Nodes {
		root := i == 0 && c.Parent[i] == -1
		if !root && (c.Parent[i] < 0 || c.Parent[i] >= i) || c.Function[i] < 0 || c.Function[i] >= len(functions) {
			return nil, fmt.Errorf("node %d refers to what is not there", i)
		}
		t.Nodes[i] = Node{Parent: c.Parent[i], Function: c.Function[i], Self: c.Self[i], Total: c.Total[i],
			BaseSelf: at(c.BaseSelf, i), BaseTotal: at(c.BaseTotal, i)}
	}
	return t, nil
}

type labelsAnswer struct {
	Labels *[]struct {
		Key    string `json:"key"`
		Values []struct {
			Value string `json:"value"`
			Total int64  `json:"total"`
			Hint  Name   `json:"hint"`
		} `json:"values"`
		More int `json:"more"`
	} `json:"labels"`
}

func (a *labelsAnswer) labels() ([]Label, error) {
	if a.Labels == nil {
		return nil, fmt.Errorf("there are no labels in it")
	}
	out := make([]Label, 0, len(*a.Labels))
	for _, l := range *a.Labels {
		values := make([]Value, 0, len(l.Values))
		for _, v := range l.Values {
			values = append(values, Value{Raw: v.Value, Shown: text.Clean(v.Value), Hint: v.Hint.Safe, Total: v.Total})
		}
		out = append(out, Label{Key: l.Key, Values: values, More: l.More})
	}
	return out, nil
}

func absentOr(column []int64, n int) bool { return len(column) == 0 || len(column) == n }

func at(column []int64, i int) int64 {
	if len(column) == 0 {
		return 0
	}
	return column[i]
}
