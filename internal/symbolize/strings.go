package symbolize

import (
	"errors"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// maxNames bounds the bytes of all names of one executable: a hundred thousand functions with long names are fewer.
const maxNames = 32 << 20

// stringBytes is about what a name takes beside its bytes.
const stringBytes = 48

// ErrTooManyNames: an executable has used up what there is for its functions' names.
var ErrTooManyNames = errors.New("too many names of functions")

// Strings has each name of one executable once: many addresses share a function, and functions share files. They stay as long
// as it does. The zero value is empty. It is for one goroutine at a time.
type Strings struct {
	known map[string]string
	bytes int
}

// Bytes is the memory that the names take.
func (s *Strings) Bytes() int { return s.bytes }

// Keep replaces the names of lines by those that are kept. With ErrTooManyNames they are of no use.
func (s *Strings) Keep(lines []unwind.Line) error {
	for i := range lines {
		f := &lines[i].Function
		for _, name := range []*string{&f.Name, &f.SystemName, &f.File} {
			if !s.intern(name) {
				return ErrTooManyNames
			}
		}
	}
	return nil
}

// intern replaces a name by the one that is kept; false if there is no room for it.
func (s *Strings) intern(name *string) bool {
	clipped := names.Clip(*name)
	kept, ok := s.known[clipped]
	if !ok && clipped != "" {
		if s.bytes+len(clipped)+stringBytes > maxNames {
			return false
		}
		if s.known == nil {
			s.known = map[string]string{}
		}
		kept = strings.Clone(clipped) // it may be a part of something larger
		s.known[kept] = kept
		s.bytes += len(kept) + stringBytes
	}
	*name = kept
	return true
}
