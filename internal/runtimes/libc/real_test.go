package libc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

func detect(t *testing.T, path string) (*Threads, error) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	info, err := file.Stat()
	require.NoError(t, err)
	f, err := elffile.New(file, info.Size())
	require.NoError(t, err)
	return Detect(f)
}

// TestHost: the machine's own C libraries, glibc and musl, are known, and say what is in their headers.
func TestHost(t *testing.T) {
	out, err := exec.Command("gcc", "-print-file-name=libc.so.6").Output()
	require.NoError(t, err)
	glibc, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	got, err := detect(t, glibc)
	require.NoError(t, err)
	require.Equal(t, uint32(5), got.BlockBits)
	require.Equal(t, uint32(16), got.Stride)
	require.Equal(t, uint32(8), got.Value)

	found, err := filepath.Glob("/lib/ld-musl-*.so.1")
	require.NoError(t, err)
	require.Len(t, found, 1)
	musl, err := filepath.EvalSymlinks(found[0])
	require.NoError(t, err)
	got, err = detect(t, musl)
	require.NoError(t, err)
	require.Equal(t, uint32(31), got.BlockBits)
	require.Equal(t, uint32(8), got.Stride)

	self, err := os.Executable()
	require.NoError(t, err)
	_, err = detect(t, self)
	require.ErrorIs(t, err, ErrNotLibc)
}
