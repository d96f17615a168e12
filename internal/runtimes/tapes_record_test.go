//go:build amd64

package runtimes_test

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/registry"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/levels"
)

var record = flag.Bool("record", false, "take the tapes of testdata/tapes/runtimes anew, of all versions that the scripts fetch")

const (
	workloadDir = "../../testdata/workloads"
	scripts     = "../../scripts"
	// warm is how long a program runs before its tape is taken: long enough for compilers.
	warm = 2500 * time.Millisecond
	// attempts at a moment that is as it should be.
	attempts = 40
	// nearRows of each row that may have been used are kept.
	nearRows = 2
	// stackBytes above the stack pointer hold return addresses.
	stackBytes = 1 << 20
	// largeTable is a table of symbols of which only what is used is kept, in bytes.
	largeTable = 1 << 18
)

// subject is a program to take a tape of.
type subject struct {
	name, about string
	command     []string
	source      string // of testdata/workloads
	runtime     unwind.Runtime
}

// judge tells whether a stack is the program's true one, each function at its line.
func (s *subject) judge(t *testing.T, frames []tapeFrame) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(workloadDir, s.source))
	require.NoError(t, err)
	kinds := map[unwind.Runtime]string{unwind.RuntimePython: "cpython", unwind.RuntimeHotspot: "jvm", unwind.RuntimeV8: "v8js"}
	sample := analysis.Sample{Count: 1}
	for _, f := range frames {
		frame := analysis.Frame{Type: "native"}
		if f.Runtime == s.runtime {
			frame.Type = kinds[f.Runtime]
		}
		for _, l := range f.Lines {
			frame.Lines = append(frame.Lines, parseLine(t, l))
		}
		if frame.Type == "native" || len(frame.Lines) > 0 {
			sample.Frames = append(sample.Frames, frame)
		}
	}
	var r *levels.Report
	switch all := (analysis.Samples{sample}); s.runtime {
	case unwind.RuntimePython:
		r = levels.Python(all, levels.Lines(text))
	case unwind.RuntimeHotspot:
		r = levels.Java(all, levels.Lines(text), false)
	default:
		r = levels.Node(all, levels.Lines(text))
	}
	if r.Placed != 1 {
		t.Logf("%v: %v", r, frames)
	}
	return r.Placed == 1
}

func parseLine(t *testing.T, text string) (l analysis.Line) {
	t.Helper()
	head, start, _ := strings.Cut(text, " from ")
	i := strings.LastIndexByte(head, ' ')
	l.Name = head[:i]
	parts := strings.Split(head[i+1:], ":")
	n := len(parts)
	l.File = strings.Join(parts[:n-2], ":")
	_, err := fmt.Sscan(strings.Join(append(parts[n-2:], start), " "), &l.Line, &l.Column, &l.StartLine)
	require.NoError(t, err, text)
	return l
}

// TestRecord takes tapes of live programs, whose functions and lines are known; with -record they are kept.
func TestRecord(t *testing.T) {
	h := startHosts(t, unwind.ArchAMD64)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			runtime.LockOSThread() // ptrace belongs to a thread
			defer runtime.UnlockOSThread()
			p := startStopped(t, s.command)
			var taken *runtimeTape
			for n := 0; taken == nil; n++ {
				require.Less(t, n, attempts, "no moment is as it should be")
				time.Sleep(50 * time.Millisecond)
				p.stop(t)
				taken = p.take(t, &s, h)
				p.resume(t)
			}
			var text bytes.Buffer
			require.NoError(t, gob.NewEncoder(&text).Encode(taken))
			b, again := text.Bytes(), &runtimeTape{}
			require.NoError(t, gob.NewDecoder(&text).Decode(again))
			frames, err := again.replay(h, fileOf{memoryOf(again.File)}, memoryOf(again.Memory))
			require.NoError(t, err)
			require.Equal(t, taken.Frames, frames, "the tape differs from the process")
			if *record {
				var out bytes.Buffer
				z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
				require.NoError(t, err)
				_, err = z.Write(b)
				require.NoError(t, err)
				require.NoError(t, z.Close())
				require.NoError(t, os.MkdirAll(tapes, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(tapes, s.name+".tape.gz"), out.Bytes(), 0o644))
				t.Logf("%d bytes", out.Len())
			}
		})
	}
}

// subjects are programs of the machine's own runtimes, or of all versions that are to be kept.
func subjects(t *testing.T) (all []subject) {
	t.Helper()
	classes := t.TempDir()
	unwindtest.Need(t, "javac")
	run(t, "javac", "--release", "8", "-g", "-d", classes, filepath.Join(workloadDir, "java/Levels.java"))
	absolute, err := filepath.Abs(workloadDir)
	require.NoError(t, err)
	node := func(name, about, path string, flags ...string) {
		all = append(all, subject{name, about, append(append([]string{path}, flags...), absolute+"/js/levels.js", "60"), "js/levels.js", unwind.RuntimeV8})
	}
	java := func(name, about string, command []string, classes string, flags ...string) {
		command = append(append(slices.Clone(command), flags...), "-Xmx64m", "-XX:+UseSerialGC", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints", "-cp", classes, "Levels", "60")
		all = append(all, subject{name, about, command, "java/Levels.java", unwind.RuntimeHotspot})
	}
	if !*record {
		node("node", "", unwindtest.Node(t))
		java("java", "", []string{"java"}, classes)
		return all
	}
	python := func(name, about string, command []string) {
		all = append(all, subject{name, about, append(command, "60"), "python/threeway.py", unwind.RuntimePython})
	}
	for _, f := range script(t, 2, "pythons.sh") {
		copyTo(t, f[1], absolute+"/python/threeway.py")
		python("python-"+f[0], "CPython "+f[0]+" of Debian, stripped", []string{"chroot", f[1], "/usr/bin/python" + f[0], "/threeway.py"})
	}
	found, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".pyenv/versions/*/bin/python[23].[0-9]*"))
	require.NoError(t, err)
	for _, path := range found {
		version := strings.TrimPrefix(filepath.Base(path), "python")
		if strings.Trim(version, "0123456789.") == "" {
			python("python-"+version+"-static", "CPython "+version+" of pyenv, not stripped", []string{path, absolute + "/python/threeway.py"})
		}
	}
	for _, f := range script(t, 2, "standalones.sh") {
		python("python-"+f[0]+"-standalone", "CPython "+f[0]+" of python-build-standalone, by clang and BOLT", []string{f[1], absolute + "/python/threeway.py"})
	}
	for _, f := range script(t, 2, "nodes.sh") {
		node("node-"+f[0], "Node.js "+f[0]+", optimized", f[1])
		flags := []string{"--no-opt", "--no-sparkplug", "--no-use-osr"}
		if f[0] == "12" || f[0] == "14" {
			flags = slices.Delete(flags, 1, 2)
		} else {
			baseline := []string{"--no-opt", "--always-sparkplug"}
			if f[0] >= "22" {
				flags, baseline = append(flags, "--no-maglev"), append(baseline, "--no-maglev")
			}
			node("node-"+f[0]+"-baseline", "Node.js "+f[0]+", baseline code", f[1], baseline...)
		}
		node("node-"+f[0]+"-interpreted", "Node.js "+f[0]+", interpreted", f[1], flags...)
	}
	for _, f := range script(t, 3, "jdks.sh") {
		files, err := filepath.Glob(filepath.Join(classes, "*.class"))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(f[1], "tape"), 0o755))
		for _, path := range files {
			copyTo(t, filepath.Join(f[1], "tape"), path)
		}
		command := []string{"unshare", "--mount", "sh", "-c", `mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`, f[1], f[2]}
		java("java-"+f[0], "HotSpot "+f[0]+", compiled by C2", command, "/tape")
		java("java-"+f[0]+"-interpreted", "HotSpot "+f[0]+", interpreted", command, "/tape", "-Xint")
		java("java-"+f[0]+"-c1", "HotSpot "+f[0]+", compiled by C1", command, "/tape", "-XX:TieredStopAtLevel=1")
	}
	return all
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", command, &stderr)
	return string(out)
}

// script returns the words of each line that a script prints.
func script(t *testing.T, words int, name string) (lines [][]string) {
	t.Helper()
	for line := range strings.Lines(run(t, filepath.Join(scripts, name))) {
		f := strings.Fields(line)
		require.Len(t, f, words)
		lines = append(lines, f)
	}
	return lines
}

func copyTo(t *testing.T, dir, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o644))
}

// process is one whose threads are stopped now and then.
type process struct {
	pid    int
	tids   []int
	seized map[int]bool
	mem    *os.File
	files  map[string]*mappedFile
}

// mappedFile is an executable file of the process.
type mappedFile struct {
	file    *os.File
	size    int64
	elf     *elffile.File
	table   *unwind.Table
	runtime bool // it holds the subject's
	threads *libc.Threads
}

func startStopped(t *testing.T, command []string) *process {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	p := &process{pid: cmd.Process.Pid, seized: map[int]bool{}, files: map[string]*mappedFile{}}
	time.Sleep(warm)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.pid))
	require.NoError(t, err)
	p.mem = mem
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		p.seized[p.pid] = true
		for tid := range p.seized { // each that is traced has to be waited for
			var ws unix.WaitStatus
			for err := error(nil); err == nil && !ws.Exited() && !ws.Signaled(); {
				_, err = unix.Wait4(tid, &ws, unix.WALL, nil)
			}
		}
		_ = cmd.Process.Release()
		require.NoError(t, mem.Close())
	})
	return p
}

// Read implements unwind.Memory.
func (p *process) Read(a unwind.Addr, b []byte) error {
	if int64(a) < 0 {
		return fmt.Errorf("reading %#x: not an address of user space", a)
	}
	if _, err := p.mem.ReadAt(b, int64(a)); err != nil {
		return fmt.Errorf("reading %d bytes at %#x: %w", len(b), a, err)
	}
	return nil
}

// stop stops all threads.
func (p *process) stop(t *testing.T) {
	t.Helper()
	for more := true; more; {
		more = false
		found, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
		require.NoError(t, err)
		for _, dir := range found {
			var tid int
			_, err := fmt.Sscan(filepath.Base(dir), &tid)
			require.NoError(t, err)
			if slices.Contains(p.tids, tid) {
				continue
			}
			more = true
			if !p.seized[tid] {
				err := unix.PtraceSeize(tid)
				if errors.Is(err, unix.ESRCH) {
					continue
				}
				require.NoError(t, err, "tracing a child, which may have ended")
				p.seized[tid] = true
			}
			require.NoError(t, unix.PtraceInterrupt(tid))
			var ws unix.WaitStatus
			_, err = unix.Wait4(tid, &ws, unix.WALL, nil)
			require.NoError(t, err)
			require.False(t, tid == p.pid && (ws.Exited() || ws.Signaled()), "the program has ended")
			if ws.Stopped() {
				p.tids = append(p.tids, tid)
			}
		}
	}
}

func (p *process) resume(t *testing.T) {
	t.Helper()
	for _, tid := range p.tids {
		require.NoError(t, unix.PtraceCont(tid, 0))
	}
	p.tids = nil
}

// busiest is the thread that has used most of a CPU.
func (p *process) busiest(t *testing.T) (tid int) {
	t.Helper()
	most := -1
	for _, id := range p.tids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", p.pid, id))
		require.NoError(t, err)
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
		var ticks int
		_, err = fmt.Sscan(f[11], &ticks) // utime
		require.NoError(t, err)
		if ticks > most {
			tid, most = id, ticks
		}
	}
	return tid
}

// take takes the tape of the busiest thread; nil if it is somewhere else than in the functions that burn.
func (p *process) take(t *testing.T, s *subject, h []*hostbpf.Host) *runtimeTape {
	t.Helper()
	tid := p.busiest(t)
	var regs unix.PtraceRegs
	require.NoError(t, unix.PtraceGetRegs(tid, &regs))
	r := &runtimeTape{
		About: s.about, Runtime: s.runtime, Arch: unwind.ArchAMD64, ThreadPointer: unwind.Addr(regs.Fs_base),
		Registers: unwind.Registers{PC: unwind.Addr(regs.Rip), Known: 0xffff, Reg: [32]uint64{regs.Rax, regs.Rdx, regs.Rcx, regs.Rbx, regs.Rsi, regs.Rdi,
			regs.Rbp, regs.Rsp, regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}},
	}
	image := p.mappings(t, r)
	if image == nil {
		return nil
	}
	r.FileSize = image.size
	file, memory := &fileRecorder{of: image}, &tape.Recorder{From: p}
	frames, err := r.replay(h, file, memory)
	if err != nil {
		t.Log(err)
		return nil
	}
	if !s.judge(t, frames) {
		return nil
	}
	r.Frames, r.Memory = frames, memory.Got.Ranges()
	r.thin(uint64(regs.Rsp))
	r.File, r.FileSize = file.thin(t)
	return r
}

// thin leaves only those rows of tables that return addresses on the stack may have needed.
func (r *runtimeTape) thin(sp uint64) {
	words := []unwind.Addr{r.Registers.PC}
	for _, m := range r.Memory {
		if uint64(m.Addr) < sp&^4095 || uint64(m.Addr) > sp+stackBytes {
			continue
		}
		for i := int(-m.Addr & 7); i+8 <= len(m.Bytes); i += 8 {
			var w uint64
			for j := range 8 {
				w |= uint64(m.Bytes[i+j]) << (8 * j)
			}
			words = append(words, unwind.Addr(w))
		}
	}
	for i := range r.Mappings {
		m := &r.Mappings[i]
		if m.Table == nil {
			continue
		}
		var at []unwind.FileAddr
		for _, w := range words {
			if m.Contains(w) {
				at = append(at, m.FileAddr(w), m.FileAddr(w)-1)
			}
		}
		m.Table = tape.Near(m.Table, at, nearRows)
	}
}

// mappings reads the executable ones, and returns the file that holds the runtime; nil if none does yet.
func (p *process) mappings(t *testing.T, r *runtimeTape) (image *mappedFile) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var lo, hi, off, inode uint64
		var perm, dev, path string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &lo, &hi, &perm, &off, &dev, &inode, &path)
		if n < 6 || !strings.Contains(perm, "x") || path == "[vsyscall]" || path == "[vdso]" {
			continue
		}
		m := tapeMapping{
			Mapping:   unwind.Mapping{Start: unwind.Addr(lo), End: unwind.Addr(hi), Offset: unwind.FileOffset(off)},
			Anonymous: !strings.HasPrefix(path, "/"),
		}
		if !m.Anonymous {
			f := p.open(t, path, fmt.Sprintf("/proc/%d/map_files/%x-%x", p.pid, lo, hi), r.Runtime)
			require.True(t, m.SetBias(f.elf.Segments, 4096), line)
			m.Table = f.table
			if f.runtime {
				m.Image, image = true, f
			}
			if f.threads != nil {
				r.Threads = f.threads
			}
		}
		r.Mappings = append(r.Mappings, m)
	}
	return image
}

// open reads a mapped file.
func (p *process) open(t *testing.T, name, path string, id unwind.Runtime) *mappedFile {
	t.Helper()
	if f := p.files[name]; f != nil {
		return f
	}
	f := &mappedFile{}
	var err error
	f.file, err = os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.file.Close()) })
	info, err := f.file.Stat()
	require.NoError(t, err)
	f.size = info.Size()
	f.elf, err = elffile.New(f.file, f.size)
	require.NoError(t, err)
	f.table, _, err = tables.Build(f.elf)
	require.NoError(t, err)
	for _, plugin := range registry.Plugins() {
		if plugin.ID() == id {
			_, err := plugin.Detect(f.elf)
			f.runtime = err == nil
		}
	}
	if threads, err := libc.Detect(f.elf); err == nil {
		f.threads = threads
	}
	p.files[name] = f
	return f
}

// fileRecorder keeps what is read of a file, but for large tables of symbols.
type fileRecorder struct {
	of  *mappedFile
	got tape.Memory
}

// ReadAt implements io.ReaderAt.
func (f *fileRecorder) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.of.file.ReadAt(b, at)
	if len(b) <= 4096 || !f.large(at) {
		f.got.Add(unwind.Addr(at), b[:n])
	}
	return n, err
}

// large tells whether a place in the file is in a large table of symbols, or in its names.
func (f *fileRecorder) large(at int64) bool {
	return slices.ContainsFunc(f.of.elf.Sections, func(s elffile.Section) bool {
		names := s.Type == elf.SHT_STRTAB
		return (names || s.Type == elf.SHT_DYNSYM || s.Type == elf.SHT_SYMTAB) && s.Size > largeTable &&
			uint64(at) >= uint64(s.Offset) && uint64(at) < uint64(s.Offset)+s.Size
	})
}

// thin returns what was read, and the size of a file that has large tables at its end, with V8's symbols only.
func (f *fileRecorder) thin(t *testing.T) ([]tape.Range, int64) {
	t.Helper()
	size := f.of.size
	var header [64]byte
	_, err := f.of.file.ReadAt(header[:], 0)
	require.NoError(t, err)
	headers := binary.LittleEndian.Uint64(header[40:]) // e_shoff
	move := func(section int, b []byte) {
		size = (size + 15) &^ 15
		var place [16]byte // sh_offset, sh_size
		binary.LittleEndian.PutUint64(place[:], uint64(size))
		binary.LittleEndian.PutUint64(place[8:], uint64(len(b)))
		f.got.Add(unwind.Addr(size), b)
		f.got.Add(unwind.Addr(headers+64*uint64(section)+24), place[:])
		size += int64(len(b))
	}
	for i, s := range f.of.elf.Sections {
		if s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_SYMTAB || s.Size <= largeTable {
			continue
		}
		table, names := make([]byte, s.Size), make([]byte, f.of.elf.Sections[s.Link].Size)
		_, err := f.of.file.ReadAt(table, int64(s.Offset))
		require.NoError(t, err)
		_, err = f.of.file.ReadAt(names, int64(f.of.elf.Sections[s.Link].Offset))
		require.NoError(t, err)
		few, text := make([]byte, elffile.SymbolSize), []byte{0}
		for ; len(table) > 0; table = table[elffile.SymbolSize:] {
			name, _, _ := bytes.Cut(names[binary.LittleEndian.Uint32(table):], []byte{0})
			if !wanted.Match(name) {
				continue
			}
			few = append(few, table[:elffile.SymbolSize]...)
			binary.LittleEndian.PutUint32(few[len(few)-elffile.SymbolSize:], uint32(len(text)))
			text = append(append(text, name...), 0)
		}
		move(i, few)
		move(int(s.Link), text)
	}
	return f.got.Ranges(), size
}

// wanted are the symbols that internal/runtimes/v8 takes of a file.
var wanted = regexp.MustCompile(`^(v8dbg_|Builtins_|_ZN2v88internal7Version6m|_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE)`)
