package procfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
)

// mapFile maps a file of the test's own process executable, and returns the mapping as /proc has it.
func mapFile(t *testing.T, path string) process.MmapInfo {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatalf("mapping %s: %v", path, err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	maps, err := New("/proc").Maps(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Path == path {
			return m
		}
	}
	t.Fatalf("%q is not in the maps", path)
	panic("unreachable")
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Repeat([]byte(text), 4096/len(text)+1), 0o755); err != nil {
		t.Fatal(err)
	}
}

// begins tells how the opened file begins; empty if it could not be opened.
func begins(t *testing.T, f *os.File, err error) string {
	t.Helper()
	if err != nil {
		return ""
	}
	defer f.Close()
	flags, ferr := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if ferr != nil || flags&unix.O_NONBLOCK != 0 || flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_PATH != 0 {
		t.Errorf("flags %#x, %v", flags, ferr)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// viaMapFiles tells whether links in map_files may be followed here.
func viaMapFiles(t *testing.T, m process.MmapInfo) bool {
	t.Helper()
	f, err := New("/proc").openMapFile(uint32(os.Getpid()), m)
	if errors.Is(err, unix.EPERM) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return true
}

func TestOpenMapped(t *testing.T) {
	fs, pid, dir := New("/proc"), uint32(os.Getpid()), t.TempDir()
	for _, name := range []string{"plain.so", "with space", "new\nline", `back\012slash`, "real (deleted)"} {
		path := filepath.Join(dir, name)
		write(t, path, "good")
		// /proc shows both spellings of a newline the same.
		kernel := strings.ReplaceAll(path, `\012`, "\n")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		maps, err := fs.Maps(pid)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, m := range maps {
			if m.Path != kernel {
				continue
			}
			found = true
			f, err := fs.OpenMapped(pid, m, nil)
			if got := begins(t, f, err); got != "good" {
				t.Errorf("%q: %q %v", name, got, err)
			}
			f, err = fs.openBelow(fs.path(pid, "root"), m)
			if got := begins(t, f, err); got != "good" {
				t.Errorf("%q below the root: %q %v", name, got, err)
			}
		}
		if !found {
			t.Errorf("%q is not in the maps", kernel)
		}
		_ = unix.Munmap(mem)
	}
}

// TestOpenReplaced gives the mapped file's name to something else: only the mapping itself leads to the file then.
func TestOpenReplaced(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	for name, put := range map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"file":      func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("evil"), 2000), 0o755) },
		"fifo":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lib.so")
			write(t, path, "good")
			m := mapFile(t, path)
			mapFiles := viaMapFiles(t, m)
			// Renamed first, so that the inode number is not used again at once.
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if f, err := fs.openBelow(fs.path(pid, "root"), m); err == nil {
				f.Close()
				t.Error("the name leads to another file, and it was opened")
			} else if name != "nothing" && !errors.Is(err, errOther) {
				t.Errorf("%v", err)
			}
			if !mapFiles {
				return
			}
			f, err := fs.OpenMapped(pid, m, nil)
			if got := begins(t, f, err); got != "good" {
				t.Errorf("%q %v", got, err)
			}
			if err := os.Remove(path + ".old"); err != nil {
				t.Fatal(err)
			}
			f, err = fs.OpenMapped(pid, m, nil)
			if got := begins(t, f, err); got != "good" {
				t.Errorf("deleted: %q %v", got, err)
			}
		})
	}
}

// TestOpenTurns opens a file by a mapping in whose place another file is, every other moment.
func TestOpenTurns(t *testing.T) {
	fs, pid, dir := New("/proc"), uint32(os.Getpid()), t.TempDir()
	paths := [2]string{filepath.Join(dir, "good.so"), filepath.Join(dir, "evil.so")}
	write(t, paths[0], "good")
	write(t, paths[1], "evil")
	m := mapFile(t, paths[0])
	if !viaMapFiles(t, m) {
		t.Skip("not supported: following links in map_files is not permitted")
	}
	var fds [2]int
	for i, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds[i] = int(f.Fd())
	}
	stop := make(chan struct{})
	var turns sync.WaitGroup
	turns.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(m.Start), uintptr(m.End-m.Start),
				unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED, uintptr(fds[i%2]), 0)
			if errno != 0 {
				t.Errorf("mapping %s: %v", paths[i%2], errno)
				return
			}
		}
	})
	defer turns.Wait()
	defer close(stop)
	opened := 0
	for range 20000 {
		f, err := fs.openLink(pid, m.Start, m.End, m)
		if err != nil {
			continue // the other one was there
		}
		opened++
		if got := begins(t, f, nil); got != "good" {
			t.Fatalf("opened %q", got)
		}
	}
	if opened == 0 {
		t.Error("never opened")
	}
}

// TestOpenMovedMapping asks for bounds that the kernel's mapping does not have.
func TestOpenMovedMapping(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	path := filepath.Join(t.TempDir(), "lib.so")
	write(t, path, "good")
	m := mapFile(t, path)
	if !viaMapFiles(t, m) {
		t.Skip("not supported: following links in map_files is not permitted")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	m.Start += 1 << 30
	m.End += 1 << 30
	f, err := fs.OpenMapped(pid, m, nil)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
}

// TestOpenGeneration opens a file whose inode number another had before: what is mapped is known by the generation, too.
func TestOpenGeneration(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	path := filepath.Join(t.TempDir(), "lib.so")
	write(t, path, "good")
	m := mapFile(t, path)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	generation, ok := generationOf(f)
	if !ok {
		// Whatever an event says of it, there is nothing to compare it with.
		m.File.Generation = 1
		if f, err := fs.OpenMapped(pid, m, nil); begins(t, f, err) != "good" {
			t.Errorf("%v", err)
		}
		t.Skip("not supported: the file system of the temporary directory does not tell generations")
	}
	m.File.Generation = generation
	f, err = fs.OpenMapped(pid, m, nil)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	m.File.Generation = generation ^ 1<<31
	if f, err := fs.OpenMapped(pid, m, nil); !errors.Is(err, errOther) {
		t.Errorf("another generation: %v %v", f, err)
	}
	if f, err := fs.openBelow(fs.path(pid, "root"), m); !errors.Is(err, errOther) {
		t.Errorf("another generation, below the root: %v %v", f, err)
	}
}

func TestOpenByOtherProcess(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	path := filepath.Join(t.TempDir(), "lib.so")
	write(t, path, "good")
	m := mapFile(t, path)
	const none = 1<<22 + 1 // above the kernel's limit of pids
	others := []process.Candidate{{PID: none, Start: 1, End: 2, Path: path}, {PID: pid, Start: m.Start, End: m.End, Path: path}}
	f, err := fs.OpenMapped(none, m, others)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	// Without any process the collector's own name for it is left.
	f, err = fs.OpenMapped(none, m, nil)
	if got := begins(t, f, err); got != "good" {
		t.Errorf("%q %v", got, err)
	}
	m.File.Inode++
	if f, err := fs.OpenMapped(none, m, nil); !errors.Is(err, errOther) {
		t.Errorf("%v %v", f, err)
	}
}

func TestOpenMemory(t *testing.T) {
	fs, pid := New("/proc"), uint32(os.Getpid())
	for _, m := range []process.MmapInfo{{Path: "[vdso]"}, {Path: "", Anonymous: true}} {
		if f, err := fs.OpenMapped(pid, m, nil); !errors.Is(err, ErrNotFile) {
			t.Errorf("%q: %v %v", m.Path, f, err)
		}
	}
	fd, err := unix.MemfdCreate("some code", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fd, bytes.Repeat([]byte("good"), 1024)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	unix.Close(fd)
	maps, err := fs.Maps(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Path != "/memfd:some code (deleted)" {
			continue
		}
		if m.Anonymous {
			t.Error("a memfd is no anonymous memory")
		}
		if !viaMapFiles(t, m) {
			t.Skip("not supported: following links in map_files is not permitted")
		}
		f, err := fs.OpenMapped(pid, m, nil)
		if got := begins(t, f, err); got != "good" {
			t.Errorf("%q %v", got, err)
		}
		return
	}
	t.Error("the memfd is not in the maps")
}

// TestOpenOverlay maps a file of an overlay, whose inode is that of the layer below or the overlay's own, depending on
// the kernel.
func TestOpenOverlay(t *testing.T) {
	fs, pid, dir := New("/proc"), uint32(os.Getpid()), t.TempDir()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "lower", "lib.so"), "good")
	merged := filepath.Join(dir, "merged")
	err := unix.Mount("overlay", merged, "overlay", 0,
		"lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		t.Skipf("not supported: overlays: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	m := mapFile(t, filepath.Join(merged, "lib.so"))
	var upper, lower unix.Stat_t
	if err := errors.Join(unix.Stat(m.Path, &upper), unix.Stat(filepath.Join(dir, "lower", "lib.so"), &lower)); err != nil {
		t.Fatal(err)
	}
	// As /proc/PID/maps of this kernel has it; as perf events and older kernels have it; as newer ones have it.
	for _, dev := range []uint64{unix.Mkdev(m.File.Major, m.File.Minor), lower.Dev, upper.Dev} {
		for _, ino := range []uint64{m.File.Inode, lower.Ino} {
			m.File = process.FileID{Major: unix.Major(dev), Minor: unix.Minor(dev), Inode: ino}
			f, err := fs.openBelow(fs.path(pid, "root"), m)
			if got := begins(t, f, err); got != "good" {
				t.Errorf("%+v: %q %v", m.File, got, err)
			}
		}
	}
	m.File.Inode = lower.Ino + 1
	if f, err := fs.openBelow(fs.path(pid, "root"), m); err == nil {
		f.Close()
		t.Error("a file with another inode was opened")
	}
}

func TestIdentify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "good")
	id := func() process.Identity {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		id, err := Identify(f)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := id()
	if first.Size != 4100 || first.MTime == 0 || first.Inode == 0 {
		t.Fatalf("%+v", first)
	}
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if second := id(); !first.Same(second) {
		t.Errorf("a link makes no other file: %+v %+v", first, second)
	}
	write(t, path, "other")
	if third := id(); first.Same(third) {
		t.Errorf("rewriting makes another file: %+v %+v", first, third)
	}
}
