// Package conformance checks OTLP profiles against what opentelemetry-proto 1.11 (profiles v1development) says in its
// comments, against the semantic conventions 1.44, and against what the known backends refuse or misread. It holds
// everything that upstream's profcheck checks, and more: duplicates and orphans in all seven tables, build ids, attribute
// types and places, identities of samples, and the process that a profile is of.
//
// It is for tests and for looking at captured data; nothing calls it on the way of a sample.
package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// Checker says what to check beyond the rules that always hold. The zero value is ready to use.
type Checker struct {
	// MaxViolations bounds how many are reported; 0 means 100.
	MaxViolations int
	// Devfiler adds the rules of devfiler: a mapping with attributes has an htlhash, and frame types are those that it
	// knows (it refuses rust and luajit).
	Devfiler bool
	// AnyResource leaves out that a resource is a process (process.pid and process.creation.time).
	AnyResource bool
	// MayBeEmpty lets payloads pass that are sent for what comes with them (internal/health).
	MayBeEmpty bool
}

// Check checks p by the rules that always hold. The error joins one for each violation, with its path.
func Check(p pprofile.Profiles) error { return Checker{}.Check(p) }

// CheckBytes checks marshalled ProfilesData or an export request (they have the same encoding).
func CheckBytes(b []byte) error { return Checker{}.CheckBytes(b) }

// CheckJSON checks what the file exporter writes: one JSON document a line.
func CheckJSON(b []byte) error { return Checker{}.CheckJSON(b) }

// Check checks p. It neither changes nor keeps it.
func (c Checker) Check(p pprofile.Profiles) error {
	r := c.report("")
	c.check(r, p)
	return r.err()
}

// CheckBytes checks marshalled ProfilesData or an export request.
func (c Checker) CheckBytes(b []byte) error {
	p, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(b)
	if err != nil {
		return fmt.Errorf("unmarshalling profiles: %w", err)
	}
	r := c.report("")
	checkWire(r, b)
	c.check(r, p)
	return r.err()
}

// CheckJSON checks JSON documents, one a line; there must be at least one.
func (c Checker) CheckJSON(b []byte) error {
	r := c.report("")
	documents, number := 0, 0
	for line := range bytes.Lines(b) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		documents++
		p, err := (&pprofile.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalProfiles(line)
		if err != nil {
			r.addf("line "+fmt.Sprint(number), "unmarshalling profiles: %v", err)
			continue
		}
		r.prefix = fmt.Sprintf("line %d: ", number)
		c.check(r, p)
		r.prefix = ""
	}
	if documents == 0 {
		r.addf("file", "has no profiles")
	}
	return r.err()
}

func (c Checker) check(r *report, p pprofile.Profiles) {
	d := &dictionary{c: c, r: r, t: p.Dictionary()}
	if !d.checkZeroEntries() {
		return // every index would be wrong
	}
	d.checkEntries()
	d.checkDuplicates()
	used := d.newReach()
	s := &signal{c: c, r: r, d: d, used: used, profileIDs: map[pprofile.ProfileID]string{}}
	s.check(p)
	used.checkOrphans()
}

func (c Checker) report(prefix string) *report {
	limit := c.MaxViolations
	if limit <= 0 {
		limit = 100
	}
	return &report{limit: limit, prefix: prefix}
}

// report collects violations.
type report struct {
	prefix string
	limit  int
	errs   []error
	more   int
}

func (r *report) addf(path, format string, args ...any) {
	if len(r.errs) >= r.limit {
		r.more++
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s%s: "+format, append([]any{r.prefix, path}, args...)...))
}

func (r *report) err() error {
	if r.more > 0 {
		return errors.Join(append(r.errs, fmt.Errorf("and %d more", r.more))...)
	}
	return errors.Join(r.errs...)
}
