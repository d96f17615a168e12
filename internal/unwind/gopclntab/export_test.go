package gopclntab

import "testing"

// Build is a way to build a test program.
type Build = build

// Run builds the program and returns its path.
func (b build) Run(t testing.TB) string { return b.run(t) }

// Name is the build's.
func (b build) Name() string { return b.name }

// Cgo tells whether the program has C in it.
func (b build) Cgo() bool { return b.cgo() }

// Builds are the ways that linkers lay a program out.
func Builds(goVer string) []Build { return builds(goVer) }

// Versions are the Go versions of the long tests.
func Versions(t *testing.T) []string { return versions(t) }
