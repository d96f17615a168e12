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

// ARM64 is a way to build a program for arm64 that needs no libraries.
func ARM64(goVer string, cgo bool) Build {
	b := build{name: "arm64", dir: "prog", goVer: goVer, arch: "arm64"}
	if cgo {
		b.dir, b.flags = "cgoprog", []string{"-ldflags=-linkmode=external -extldflags=-static"}
	}
	return b
}
