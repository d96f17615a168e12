package debugfile

import (
	"fmt"
	"path"
	"strings"
)

// supplement finds the supplementary file, if the debug file needs one.
func (s *search) supplement() {
	link, ok, err := supplementLink(s.found.Debug)
	s.problem(err)
	if !ok {
		return
	}
	if link.id == "" {
		s.problem(fmt.Errorf("%s names %q without a build id", link.section, link.name[:min(len(link.name), maxName)]))
		return
	}
	verify := func(c *opened) error { return isSupplement(c, link.id) }
	c, from := s.first(s.supplementPaths(link), verify), SourceAltLink
	if name, ok := buildIDPath(link.id); ok && c == nil {
		c, from = s.first([]string{name}, verify), SourceBuildID
	}
	if c == nil {
		c, from = s.fetch(link.id, verify), SourceDebuginfod
	}
	if c == nil {
		s.problem(fmt.Errorf("no supplementary file %q with build id %s", link.name, link.id))
		return
	}
	s.found.closers = append(s.found.closers, c)
	s.found.Options.Supplement = c.file
	s.found.Supplement, s.found.SupplementPath = from, c.name
}

// supplementPaths lists where a supplementary file may be: where the link says, and below .dwz in the tree of debug files,
// for links that are relative to where the debug file really is, and not to the symbolic link by which it was found.
func (s *search) supplementPaths(link altLink) (paths []string) {
	dir := ""
	if s.debugPath != "" {
		dir = path.Dir(s.debugPath)
	}
	if p, ok := cleanPath(dir, link.name); ok {
		paths = append(paths, p)
	}
	if _, rest, ok := strings.Cut("/"+link.name, "/.dwz/"); ok {
		if p, ok := cleanPath("/", rest); ok {
			paths = append(paths, path.Join(debugDir, ".dwz", p))
		}
	}
	return paths
}

// isSupplement tells whether a file is the one that a link names: by its build id or, as dwz's option -5 has it, by its
// .debug_sup.
func isSupplement(c *opened, want string) error {
	if err := needInfo(c); err != nil {
		return err
	}
	if sup, err := supSection(c.file); err == nil && sup != nil && sup.supplementary && sup.id == want {
		return nil
	}
	return sameID(c, want)
}
