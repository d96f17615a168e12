package python

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// pages has a few bytes at the beginning of each.
type pages map[unwind.Addr][]byte

func (p pages) Read(a unwind.Addr, b []byte) error {
	if text := p[a]; len(text) >= len(b) {
		copy(b, text)
		return nil
	}
	return errors.New("nothing there")
}

// TestTrampolines: the frames of trampolines are hidden, not those of other code.
func TestTrampolines(t *testing.T) {
	code := unhex(t, "4883ec08ffd14883c408c3")
	mappings := []runtimes.Mapping{
		{Mapping: unwind.Mapping{Start: 0x1000, End: 0x2000}, Image: true},
		{Mapping: unwind.Mapping{Start: 0x2000, End: 0x12000}, Anonymous: true},
		{Mapping: unwind.Mapping{Start: 0x20000, End: 0x21000}, Anonymous: true}, // other code
		{Mapping: unwind.Mapping{Start: 0x30000, End: 0x31000}, Anonymous: true}, // it cannot be read
		{Mapping: unwind.Mapping{Start: 0x40000, End: 0x41000}},                  // a file's
		{Mapping: unwind.Mapping{Start: 0x50000, End: 0x60000}, Anonymous: true},
	}
	mem := pages{0x1000: code, 0x2000: append(code, code...), 0x20000: make([]byte, 64), 0x30000: code[:4], 0x40000: code, 0x50000: code}
	n := &instance{image: &image{trampoline: code}}
	p, err := n.Plan(mem, mappings)
	require.NoError(t, err)
	require.False(t, p.Fixed)
	require.Equal(t, []runtimes.Range{{Start: 0x2000, End: 0x12000}, {Start: 0x50000, End: 0x60000}}, p.Hidden)

	many := make([]runtimes.Mapping, maxArenas+1)
	for i := range many {
		at := unwind.Addr(0x1000 * (i + 1))
		many[i] = runtimes.Mapping{Mapping: unwind.Mapping{Start: at, End: at + 0x1000}, Anonymous: true}
		mem[at] = code
	}
	p, err = n.Plan(mem, many)
	require.NoError(t, err)
	require.Len(t, p.Hidden, maxArenas)

	p, err = (&instance{image: &image{}}).Plan(mem, mappings)
	require.NoError(t, err)
	require.True(t, p.Fixed)
	require.Empty(t, p.Hidden)
}
