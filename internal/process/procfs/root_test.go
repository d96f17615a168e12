package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openers are both ways in which paths are followed.
func openers() map[string]func(dir int, path string) (int, error) {
	return map[string]func(int, string) (int, error){"openat2": openInRoot, "walk": walk}
}

// hostileRoot is a directory with links that want out of it.
func hostileRoot(t testing.TB) string {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "root")
	link := func(target, name string) error { return os.Symlink(target, filepath.Join(dir, name)) }
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755),
		link("/inside", "absolute"),
		link("../../../../../../inside", "upward"),
		link("a/../a/b/../../inside", "around"),
		link("/a/b", "dir"),
		link("absolute", "a/b/chain"), // there is no such file in a/b
		link("../../absolute", "a/b/chain2"),
		link("loop", "loop"),
		link("/proc/self/root/inside", "text"), // no magic: a path below the root
		link("..", "out"),
		link("inside/", "slash"),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666),
	); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "inside"), "good")
	write(t, filepath.Join(dir, "a/b/c/deep"), "good")
	write(t, filepath.Join(outside, "inside"), "evil")
	write(t, filepath.Join(outside, "secret"), "evil")
	return dir
}

func TestRootStaysInside(t *testing.T) {
	dir := hostileRoot(t)
	root, err := New("/proc").OpenHostRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, c := range []struct {
		path string
		err  error // nil: it is read
	}{
		{"/inside", nil}, {"inside", nil}, {"//./inside", nil}, {"/../../inside", nil}, {"/a/b/../../inside", nil},
		{"/absolute", nil}, {"/upward", nil}, {"/around", nil}, {"/dir/c/deep", nil}, {"/dir/../../inside", nil},
		{"/a/b/chain2", nil}, {"/out/inside", nil}, {"/out/out/out/inside", nil},
		{"/a/b/chain", unix.ENOENT}, {"/loop", unix.ELOOP}, {"/text", unix.ENOENT}, {"/out/secret", unix.ENOENT},
		{"/secret", unix.ENOENT}, {"/inside/x", unix.ENOTDIR}, {"/none", fs.ErrNotExist}, {"/none/x", fs.ErrNotExist},
		{"/fifo", ErrNotFile}, {"/a", ErrNotFile}, {"/", ErrNotFile}, {"/a/..", ErrNotFile},
		{"/" + strings.Repeat("x", 300), unix.ENAMETOOLONG}, {"/in\x00side", unix.EINVAL},
	} {
		for name, open := range openers() {
			err := root.use(func(d int) error {
				fd, err := open(d, c.path)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				if c.err != nil {
					return ErrNotFile // a FIFO, a directory
				}
				f, err := reopenRegular(root.fs, fd, c.path)
				if got := begins(t, f, err); got != "good" {
					t.Errorf("%s %q: %q, %v", name, c.path, got, err)
				}
				return nil
			})
			if !errors.Is(err, c.err) {
				t.Errorf("%s %q: %v, not %v", name, c.path, err, c.err)
			}
		}
		f, err := root.Open(c.path)
		if c.err == nil {
			if got := begins(t, f, err); got != "good" {
				t.Errorf("%q: %q, %v", c.path, got, err)
			}
		} else if !errors.Is(err, c.err) || f != nil {
			t.Errorf("%q: %v, %v", c.path, f, err)
		}
	}
}

// TestWalkIsBounded walks deeper than there may be files open, and closes what it opened.
func TestWalkIsBounded(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("/d", maxDepth)
	if err := os.MkdirAll(dir+deep, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+strings.Repeat("/d", maxDepth-1)+"/f", "good")
	write(t, dir+deep+"/f", "good")
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	before := openFDs(t)
	for path, want := range map[string]error{
		strings.Repeat("/d", maxDepth-1) + "/f":    nil,
		deep + "/f":                                unix.ENAMETOOLONG,
		strings.Repeat("/d/..", maxDepth) + "/d":   nil,
		strings.Repeat("/d", maxDepth-1) + "/none": unix.ENOENT,
	} {
		fd, err := walk(root, path)
		if !errors.Is(err, want) {
			t.Errorf("%.20s: %v, not %v", path, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestRootMagicLinks follows none of /proc's links that lead elsewhere than they say.
func TestRootMagicLinks(t *testing.T) {
	root, err := New("/proc").OpenHostRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if f, err := root.Open("/proc/self/exe"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v, %v", f, err)
	}
	// To walk they are links like others, whose text is a path below the root.
	below, err := New("/proc").OpenHostRoot("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	err = below.use(func(dir int) error {
		fd, err := walk(dir, "/self/exe")
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
	if !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	for _, path := range []string{"/dev/null", "/proc/self/mem/x", "/proc/self/fd/0/x"} {
		if f, err := root.Open(path); err == nil {
			f.Close()
			t.Errorf("%s is opened", path)
		}
	}
}

// TestRootOfProcess reads below the root of a process, also when that has gone.
func TestRootOfProcess(t *testing.T) {
	proc := New("/proc")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "good")
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	root, err := proc.OpenRoot(uint32(cmd.Process.Pid))
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // by the signal
	if err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	f, err := root.Open(filepath.Join(dir, "f"))
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q, %v", got, err)
	}
	if f != nil && !strings.HasSuffix(f.Name(), "/root"+filepath.Join(dir, "f")) {
		t.Errorf("called %s", f.Name())
	}
	host, err := proc.OpenHostRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	other, err := proc.OpenHostRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !root.Same(host) || root.Same(other) {
		t.Errorf("same as the host's: %v, as another: %v", root.Same(host), root.Same(other))
	}
	if err := errors.Join(root.Close(), host.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if f, err := root.Open("/etc/passwd"); err == nil {
		t.Errorf("closed: %v", f)
	}
	if _, err := proc.OpenRoot(uint32(cmd.Process.Pid)); !errors.Is(err, ErrGone) {
		t.Errorf("gone: %v", err)
	}
	if _, err := proc.OpenHostRoot(filepath.Join(dir, "f")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
}

// TestRootOpensFilesOnly below the test's own root, and below a directory.
func TestRootOpensFilesOnly(t *testing.T) {
	proc, dir := New("/proc"), t.TempDir()
	own, err := proc.OpenRoot(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	write(t, filepath.Join(dir, "perf.map"), "good")
	f, err := own.Open(filepath.Join(dir, "perf.map"))
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "fifo"), dir, "/dev/null"} {
		if f, err := own.Open(path); !errors.Is(err, ErrNotFile) {
			t.Errorf("%s: %v %v", path, f, err)
		}
	}
}

// FuzzWalk follows any path by both ways: where both find something it is the same.
func FuzzWalk(f *testing.F) {
	for _, path := range []string{"/a/b/chain2", "/out/../dir/c/deep", "//around", "/fifo", "/a/./b/../../upward"} {
		f.Add(path)
	}
	for _, path := range []string{"/inside", "inside/", "/inside/..", "", "/\x00"} {
		f.Add(path)
	}
	dir := hostileRoot(f)
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		var found []unix.Stat_t
		for name, open := range openers() {
			fd, err := open(root, path)
			if err != nil {
				continue
			}
			var st unix.Stat_t
			if err := errors.Join(unix.Fstat(fd, &st), unix.Close(fd)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			found = append(found, st)
		}
		if len(found) == 2 && (found[0].Ino != found[1].Ino || found[0].Dev != found[1].Dev) {
			t.Errorf("%q leads to %d and to %d", path, found[0].Ino, found[1].Ino)
		}
	})
}
