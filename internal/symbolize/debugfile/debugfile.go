// Package debugfile finds the debug information of an ELF file: in the file itself, in a separate file that its build id or
// its .gnu_debuglink names, in its .gnu_debugdata, or wherever a Fetcher gets it from; with it the supplementary file that
// dwz made, and the split files (.dwo, .dwp) that compilers leave.
//
//	file -> .debug_info? --------------------------------.
//	     -> /usr/lib/debug/.build-id/ab/cdef.debug -------+-> debug file -> .gnu_debugaltlink, .debug_sup -> supplement
//	     -> .gnu_debuglink: directory, .debug, debug tree-'              -> file.dwp
//	     -> .gnu_debugdata, Fetcher                                      -> .dwo files, as units ask for them
//
// Each place is looked at below each root: first the process's, which has the files that belong to it, then the host's. What
// is found is used only if it is shown to belong to the file, by build id or by checksum.
//
// Names come from the file, which is hostile: they become clean absolute paths, and a Root keeps them below itself.
//
// The places, and the layouts of .gnu_debuglink and .gnu_debugaltlink, are those of the GDB 13 manual, section "Debugging
// Information in Separate Files", and of dwz 0.15; that of .debug_sup is DWARF 5's, section 7.3.6.
package debugfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/dwarf"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/elfsym"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Root opens files below a directory that stands for a file system's root: a process's, or the host's.
type Root interface {
	// Open opens the regular file of an absolute path, below the root whatever symbolic links are on the way. The error is
	// an fs.ErrNotExist if there is none. The file's name tells users where it is; it is read with pread only.
	Open(path string) (*os.File, error)
}

// Fetcher gets files of debug information by the build id, in lower-case hex, of the file that they are for; or, if it is a
// supplementary file, by its own.
type Fetcher interface {
	Debuginfo(ctx context.Context, buildID string) (*os.File, error)
}

// ErrNotFound: there is no debug information where it was looked for.
var ErrNotFound = errors.New("no debug information found")

// Source is how a file was found.
type Source uint8

// The sources, in the order in which they are tried.
const (
	SourceNone Source = iota
	SourceFile
	SourceBuildID
	SourceDebugLink
	SourceDebugData
	SourceDebuginfod

	Sources // how many there are, of all but supplementary files

	SourceAltLink = Sources // of supplementary files only
)

var sourceNames = [Sources + 1]string{"none", "file", "build_id", "debuglink", "debugdata", "debuginfod", "altlink"}

// String returns the source in one word.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

// Options say where to look.
type Options struct {
	// Roots are the process's and the host's, in the order in which they are looked into. They stay open until the Found is
	// closed: split files are opened as they are wanted.
	Roots []Root
	// Fetcher is asked last; nil if there is none.
	Fetcher Fetcher
	// NoDebugData: .gnu_debugdata is known to have no debug information, which saves decompressing it again. An earlier
	// search's Found tells.
	NoDebugData bool
}

// Found is what there is for a file. It is for one goroutine at a time, that of the file's Budget.
type Found struct {
	// Debug has the debug information: the file itself or another. It is nil if there is none.
	Debug *elffile.File
	// Options has the other files, for dwarf.Open.
	Options dwarf.Options

	// Source, Supplement and Package say how these files were found: SourceNone if they were not. A package is next to the
	// file that it is for, which SourceFile stands for.
	Source, Supplement, Package Source
	// Paths, for logs; empty for what is in the file itself.
	Path, SupplementPath, PackagePath string
	// Wanted are the build ids of files that are missing and that a Fetcher may have.
	Wanted []string
	// NoDebugData: the file has no .gnu_debugdata, or one without debug information, which stays so. It is false if what was
	// found was found before looking there, or if it could not be read.
	NoDebugData bool

	closers []io.Closer
}

// Close closes all files, which Debug and Options must not be used after. The file that was searched for stays open.
func (d *Found) Close() error {
	var errs []error
	for _, c := range d.closers {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("closing a file of debug information: %w", err))
		}
	}
	d.closers = nil
	d.Debug, d.Options = nil, dwarf.Options{}
	return errors.Join(errs...)
}

// String says what was found where, for logs.
func (d *Found) String() string {
	var b strings.Builder
	b.WriteString(d.Source.String())
	for _, part := range []struct {
		name, path string
		source     Source
	}{{"", d.Path, d.Source}, {"supplement", d.SupplementPath, d.Supplement}, {"package", d.PackagePath, d.Package}} {
		switch {
		case part.source == SourceNone:
			continue
		case part.name != "":
			fmt.Fprintf(&b, ", %s %v", part.name, part.source)
		}
		if part.path != "" {
			fmt.Fprintf(&b, " %q", part.path)
		}
	}
	return b.String()
}

// Find looks for the debug information of f, which has the path given in the process's mount namespace; an empty path means
// that it has none, as what is deleted or was never there. What is opened is read with f's Budget, and f's reader stays open
// as long as the Found is used. It may read all of a file to know its checksum, until ctx is done.
//
// The Found is never nil, and to be closed. The error joins what stood in the way, which says why lines are missing: it is
// an ErrNotFound if there is no debug information at all, else it tells what of it is not there.
func Find(ctx context.Context, f *elffile.File, path string, o Options) (*Found, error) {
	s := &search{ctx: ctx, f: f, budget: f.Budget(), opts: o, found: &Found{}}
	s.path, _ = cleanPath("/", path)
	s.buildID, _ = f.BuildIDs()
	s.main()
	if s.found.Debug == nil {
		return s.found, s.notFound()
	}
	s.supplement()
	s.dwp()
	s.found.Options.OpenSplit = s.openSplit
	return s.found, errors.Join(s.problems...)
}

// search is one call of Find.
type search struct {
	ctx     context.Context
	f       *elffile.File
	path    string // clean and absolute, or empty
	buildID string // hex, or empty
	budget  *elffile.Budget
	opts    Options
	found   *Found

	debugPath string // of the debug file below its root; empty if it is below none

	problems []error
	rejected []os.FileInfo // files that are not the right ones: the roots may be the same
}

// problem remembers what a user may want to know.
func (s *search) problem(err error) {
	if err != nil && len(s.problems) < maxProblems {
		s.problems = append(s.problems, err)
	}
}

const maxProblems = 16

// notFound says where nothing was.
func (s *search) notFound() error {
	id := s.buildID
	if id == "" {
		id = "none"
	}
	return fmt.Errorf("%w: file %q, build id %s, below %d roots: %w", ErrNotFound, s.path, id, len(s.opts.Roots),
		errors.Join(append([]error{errors.New("no .debug_info in the file")}, s.problems...)...))
}

// main finds the debug file.
func (s *search) main() {
	switch {
	case hasInfo(s.f):
		s.take(nil, s.f, SourceFile)
		s.debugPath = s.path
	case s.byBuildID(), s.byDebugLink(), s.byDebugData():
	default:
		s.byFetcher()
	}
}

// take makes file the debug file.
func (s *search) take(c *opened, file *elffile.File, from Source) {
	s.found.Debug, s.found.Source = file, from
	if c != nil {
		s.found.closers = append(s.found.closers, c)
		s.found.Path = c.name
		s.debugPath = c.path
	}
}

func (s *search) byBuildID() bool {
	name, ok := buildIDPath(s.buildID)
	if !ok {
		return false
	}
	c := s.first([]string{name}, func(c *opened) error {
		if err := sameID(c, s.buildID); err != nil {
			return err
		}
		return needInfo(c)
	})
	if c == nil {
		return false
	}
	s.take(c, c.file, SourceBuildID)
	return true
}

// byDebugLink follows .gnu_debuglink. The name that it has is looked for in the file's directory, in .debug there, and in
// the tree of debug files.
func (s *search) byDebugLink() bool {
	link, ok, err := debugLink(s.f)
	if err != nil {
		s.problem(fmt.Errorf("reading .gnu_debuglink: %w", err))
	}
	if !ok || s.path == "" {
		return false
	}
	dir := path.Dir(s.path)
	c := s.first([]string{
		path.Join(dir, link.name), path.Join(dir, ".debug", link.name), path.Join(debugDir, dir, link.name),
	}, func(c *opened) error { return s.linked(c, link) })
	if c == nil {
		return false
	}
	s.take(c, c.file, SourceDebugLink)
	return true
}

// linked tells whether c is the file that a .gnu_debuglink is about: by the build ids if both files have one, else by the
// checksum, for which all of c is read.
func (s *search) linked(c *opened, link debugLinkSection) error {
	if err := needInfo(c); err != nil {
		return err
	}
	if id, _ := c.file.BuildIDs(); id != "" && s.buildID != "" {
		return sameID(c, s.buildID)
	}
	sum, err := checksum(s.ctx, c.os, c.file.Size())
	if err != nil {
		return fmt.Errorf("reading %q for its checksum: %w", c.name, err)
	}
	if sum != link.crc {
		return fmt.Errorf("found %q, but its checksum is %08x, not %08x", c.name, sum, link.crc)
	}
	return nil
}

// byDebugData looks into .gnu_debugdata, which most often has symbols only.
func (s *search) byDebugData() bool {
	if s.opts.NoDebugData {
		s.found.NoDebugData = true
		return false
	}
	inner, release, err := elfsym.DebugData(s.f)
	if err != nil {
		s.problem(fmt.Errorf("reading .gnu_debugdata: %w", err))
		return false
	}
	if inner == nil || !hasInfo(inner) {
		release()
		s.found.NoDebugData = true
		return false
	}
	s.take(nil, inner, SourceDebugData)
	s.debugPath = s.path
	s.found.closers = append(s.found.closers, closeFunc(release))
	return true
}

func (s *search) byFetcher() bool {
	c := s.fetch(s.buildID, func(c *opened) error {
		if err := sameID(c, s.buildID); err != nil {
			return err
		}
		return needInfo(c)
	})
	if c == nil {
		return false
	}
	s.take(c, c.file, SourceDebuginfod)
	return true
}

// fetch asks the Fetcher for a file.
func (s *search) fetch(id string, verify func(*opened) error) *opened {
	if !unique(id) {
		return nil
	}
	if s.opts.Fetcher != nil && s.ctx.Err() == nil {
		c, err := s.fetched(id, verify)
		if err == nil {
			return c
		}
		s.problem(err)
	}
	s.found.Wanted = append(s.found.Wanted, id)
	return nil
}

func (s *search) fetched(id string, verify func(*opened) error) (*opened, error) {
	s.rejected = nil
	f, err := s.opts.Fetcher.Debuginfo(s.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("fetching debug information: %w", err)
	}
	c, err := s.elf(f, verify)
	if err != nil {
		return nil, fmt.Errorf("taking what was fetched for build id %s: %w", id, err)
	}
	return c, nil
}

// closeFunc is a function that gives something back.
type closeFunc func()

// Close calls it.
func (f closeFunc) Close() error {
	f()
	return nil
}
