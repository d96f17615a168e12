// Package console is what a guest says to the host over its serial console, among the kernel's own messages, and what the host has told it.
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

const prefix = "@hostprofiles "

// Done is the name of the last check.
const Done = "done"

// Check is one thing that a guest found out.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Runtime is a program in a language, for a guest to profile.
type Runtime struct {
	Name    string   // python, node or java
	Root    string   // the folder that is its root
	Command []string // in that root; the CPU time in seconds is appended
	Source  string   // of the program, outside the root
}

// Print writes one line.
func Print(w io.Writer, c Check) {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and booleans always marshal
	}
	_, _ = fmt.Fprintf(w, "\n%s%s\n", prefix, text)
}

// Parse reads a line of the console; ok is false if it is none of ours, or damaged.
func Parse(line string) (c Check, ok bool) {
	_, text, ok := strings.Cut(strings.TrimSpace(line), prefix)
	if !ok || json.Unmarshal([]byte(text), &c) != nil {
		return Check{}, false
	}
	return c, true
}
