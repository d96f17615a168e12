package reference

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// image is a mapped file's table and segments.
type image struct {
	segments []unwind.Segment
	table    *unwind.Table
	path     string
}

// images caches what several processes map.
type images map[string]*image

func (im images) load(path string, r io.ReaderAt, size int64) (*image, error) {
	if i := im[path]; i != nil {
		return i, nil
	}
	f, err := elffile.New(r, size)
	if err != nil {
		return nil, err
	}
	t, _, err := tables.Build(f)
	if err != nil {
		return nil, err
	}
	i := &image{segments: f.Segments, table: t, path: path}
	im[path] = i
	return i, nil
}

// process is a Lookup and a Memory of a live process.
type process struct {
	t      *testing.T
	pid    int
	mem    *os.File
	images images
	code   []mapped

	stack []byte // a copy of the top of the stack, for speed
	base  unwind.Addr
}

type mapped struct {
	m   unwind.Mapping
	img *image // nil: not a file
}

func newProcess(t *testing.T, pid int, im images) *process {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, pid: pid, mem: mem, images: im}
	p.readMaps()
	return p
}

// readMaps reads the executable mappings.
func (p *process) readMaps() {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	p.code = p.code[:0]
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var lo, hi, off, inode uint64
		var perm, dev, path string
		n, _ := fmt.Sscanf(sc.Text(), "%x-%x %s %x %s %d %s", &lo, &hi, &perm, &off, &dev, &inode, &path)
		if n < 6 || !strings.Contains(perm, "x") {
			continue
		}
		m := mapped{m: unwind.Mapping{Start: unwind.Addr(lo), End: unwind.Addr(hi), Offset: unwind.FileOffset(off)}}
		var r io.ReaderAt
		var size int64
		switch {
		case path == "[vdso]":
			b := make([]byte, hi-lo)
			if _, err := p.mem.ReadAt(b, int64(lo)); err != nil {
				p.t.Fatal(err)
			}
			r, size = strings.NewReader(string(b)), int64(len(b))
		case strings.HasPrefix(path, "/"):
			file, err := os.Open(path)
			if err != nil {
				p.t.Fatal(err)
			}
			defer file.Close()
			st, err := file.Stat()
			if err != nil {
				p.t.Fatal(err)
			}
			r, size = file, st.Size()
		default:
			p.code = append(p.code, m)
			continue
		}
		if m.img, err = p.images.load(path, r, size); err != nil {
			p.t.Fatalf("%s: %v", path, err)
		}
		if !m.m.SetBias(m.img.segments, 4096) {
			p.t.Fatalf("%s: no segment for %+v", path, m.m)
		}
		p.code = append(p.code, m)
	}
}

func (p *process) find(a unwind.Addr) *mapped {
	i := sort.Search(len(p.code), func(i int) bool { return p.code[i].m.End > a })
	if i < len(p.code) && p.code[i].m.Contains(a) {
		return &p.code[i]
	}
	return nil
}

// Find implements Lookup.
func (p *process) Find(a unwind.Addr) (Code, unwind.StopReason, bool) {
	m := p.find(a)
	switch {
	case m == nil:
		return Code{}, unwind.StopNoMapping, false
	case m.img == nil:
		return Code{Mapping: m.m, Table: &unwind.Table{}, NoTable: true}, 0, true
	}
	return Code{Mapping: m.m, Table: m.img.table}, 0, true
}

// cacheStack copies the stack from sp on, as much as there is.
func (p *process) cacheStack(sp uint64) {
	if p.stack == nil {
		p.stack = make([]byte, 0, 64<<10)
	}
	p.base = unwind.Addr(sp) &^ 4095
	p.stack = p.stack[:0]
	n, _ := p.mem.ReadAt(p.stack[:8<<10], int64(p.base))
	p.stack = p.stack[:n]
}

// Read implements unwind.Memory.
func (p *process) Read(a unwind.Addr, b []byte) error {
	if d := uint64(a - p.base); a >= p.base && d < uint64(len(p.stack)) && uint64(len(b)) <= uint64(len(p.stack))-d {
		copy(b, p.stack[d:])
		return nil
	}
	if int64(a) < 0 {
		return errors.New("no such address")
	}
	_, err := p.mem.ReadAt(b, int64(a))
	return err
}

func (p *process) word(a uint64) uint64 {
	var b [8]byte
	if p.Read(unwind.Addr(a), b[:]) != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// where names an address for messages.
func (p *process) where(a uint64) string {
	if m := p.find(unwind.Addr(a)); m != nil && m.img != nil {
		return fmt.Sprintf("%#x %s+%#x %v", a, filepath.Base(m.img.path), uint64(m.m.FileAddr(unwind.Addr(a))),
			m.img.table.Lookup(m.m.FileAddr(unwind.Addr(a))))
	}
	return fmt.Sprintf("%#x anonymous", a)
}

// start runs a program up to its first instruction.
func start(t *testing.T, path string, args ...string) int {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
		t.Fatalf("waiting for %s: %v %#x", path, err, ws)
	}
	err := unix.PtraceSetOptions(cmd.Process.Pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACECLONE|
		unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_TRACEEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// build compiles a source of testdata/elf/src.
func build(t *testing.T, compiler, source string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(source, filepath.Ext(source)))
	path := filepath.Join("../../../testdata/elf/src", source)
	if _, err := os.ReadFile(path); err != nil { // so that the go command sees that the result depends on it
		t.Fatal(err)
	}
	args = append([]string{"-o", out, path}, args...)
	if b, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, b)
	}
	return out
}
