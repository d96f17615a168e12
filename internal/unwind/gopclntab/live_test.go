//go:build linux && amd64

package gopclntab_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/gopclntab"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

// image is a file mapped into the process that is looked at.
type image struct {
	file  *elffile.File
	table *unwind.Table
	goTab *gopclntab.Table
}

// mapped is an executable mapping.
type mapped struct {
	unwind.Mapping
	*image
	path string
}

// process is a stopped or running process as the walker wants it.
type process struct {
	t    *testing.T
	pid  int
	mem  *os.File
	maps []mapped
}

func (p *process) Read(a unwind.Addr, b []byte) error {
	_, err := p.mem.ReadAt(b, int64(a))
	return err
}

func (p *process) find(a unwind.Addr) (mapped, bool) {
	i := sort.Search(len(p.maps), func(i int) bool { return p.maps[i].End > a })
	if i < len(p.maps) && p.maps[i].Contains(a) {
		return p.maps[i], true
	}
	return mapped{}, false
}

func (p *process) Find(a unwind.Addr) (reference.Code, unwind.StopReason, bool) {
	m, ok := p.find(a)
	if !ok {
		return reference.Code{}, unwind.StopNoMapping, false
	}
	return reference.Code{Mapping: m.Mapping, Table: m.table}, 0, true
}

// readMaps finds the executable mappings and makes tables of the files.
func (p *process) readMaps() {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	images := map[string]*image{}
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 6 || w[1][2] != 'x' || w[5] == "[vsyscall]" {
			continue
		}
		lo, hi, _ := strings.Cut(w[0], "-")
		start, _ := strconv.ParseUint(lo, 16, 64)
		end, _ := strconv.ParseUint(hi, 16, 64)
		off, _ := strconv.ParseUint(w[2], 16, 64)
		m := mapped{path: w[5], Mapping: unwind.Mapping{
			Start: unwind.Addr(start), End: unwind.Addr(end), Offset: unwind.FileOffset(off),
		}}
		if m.image = images[w[5]]; m.image == nil {
			m.image = p.load(w[5], m.Mapping)
			images[w[5]] = m.image
		}
		if !m.SetBias(m.file.Segments, 4096) {
			p.t.Fatalf("%s: no segment", s.Text())
		}
		p.maps = append(p.maps, m)
	}
}

func (p *process) load(path string, m unwind.Mapping) *image {
	var r io.ReaderAt
	size := int64(m.End - m.Start)
	if path == "[vdso]" {
		r = io.NewSectionReader(p.mem, int64(m.Start), size)
	} else {
		f, err := os.Open(path)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { f.Close() })
		st, _ := f.Stat()
		r, size = f, st.Size()
	}
	f, err := elffile.New(r, size)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	img := &image{file: f}
	if img.table, _, err = tables.Build(f); err != nil {
		p.t.Errorf("%s: %v", path, err)
	}
	if g, err := gopclntab.Find(f); err == nil {
		img.goTab = g
	}
	return img
}

// names are the functions of a stack, from the leaf to the root; what no Go table knows is shown as its file.
func (p *process) names(frames []unwind.RawFrame) []string {
	var out []string
	for _, f := range frames {
		m, ok := p.find(f.LookupAddr())
		if !ok {
			out = append(out, fmt.Sprintf("%#x", f.A))
			continue
		}
		var lines []unwind.Line
		if m.goTab != nil {
			lines, _ = m.goTab.Lookup(nil, m.FileAddr(f.LookupAddr()))
		}
		if len(lines) == 0 {
			out = append(out, "["+strings.Trim(filepath.Base(m.path), "[]")+"]")
		}
		for _, l := range lines {
			out = append(out, l.Function.Name)
		}
	}
	return out
}

// sample is one thread's stack.
type sample struct {
	names []string
	stop  unwind.StopReason
	regs  unwind.Registers
}

// stopped calls visit for every thread that is running user code, stopped for as long.
func (p *process) stopped(visit func(regs *syscall.PtraceRegs)) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if err := syscall.PtraceAttach(tid); err == syscall.EPERM {
			p.t.Skipf("not supported: ptrace: %v", err)
		} else if err != nil {
			continue // ended
		}
		var status syscall.WaitStatus
		const wall = 0x40000000
		if _, err := syscall.Wait4(tid, &status, wall, nil); err != nil {
			continue
		}
		var regs syscall.PtraceRegs
		if syscall.PtraceGetRegs(tid, &regs) == nil {
			visit(&regs)
		}
		sig := 0
		if status.Stopped() && status.StopSignal() != syscall.SIGSTOP {
			sig = int(status.StopSignal())
		}
		// PTRACE_DETACH, handing on a signal that came before the stop
		syscall.Syscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, uintptr(tid), 0, uintptr(sig), 0, 0)
	}
}

func registers(r *syscall.PtraceRegs) (regs unwind.Registers) {
	regs.PC = unwind.Addr(r.Rip)
	for i, v := range []uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp,
		r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15} {
		regs.Reg[i] = v
		regs.Known |= 1 << i
	}
	return regs
}

// sampleStacks runs the program and walks its threads' stacks until n were seen.
func sampleStacks(t *testing.T, path string, n int) []sample {
	runtime.LockOSThread() // ptrace is a thread's
	defer runtime.UnlockOSThread()
	cmd := exec.Command(path, "run")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	time.Sleep(200 * time.Millisecond)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	p := &process{t: t, pid: cmd.Process.Pid, mem: mem}
	p.readMaps()

	var samples []sample
	deadline := time.Now().Add(30 * time.Second)
	for len(samples) < n && time.Now().Before(deadline) {
		p.stopped(func(r *syscall.PtraceRegs) {
			s := sample{regs: registers(r)}
			if m, ok := p.find(s.regs.PC); ok && m.goTab != nil {
				if name := p.names([]unwind.RawFrame{{A: r.Rip}}); slices.Contains(name, "runtime.futex") {
					return // asleep
				}
			}
			w := reference.Walker{Go: p.switcher(&s.regs, r.Fs_base)}
			frames, stop := w.Walk(&s.regs, unwind.ArchAMD64, p, p, nil, 1024)
			s.names, s.stop = p.names(frames), stop
			samples = append(samples, s)
		})
	}
	return samples
}

func (p *process) switcher(leaf *unwind.Registers, fsBase uint64) reference.GoSwitcher {
	for _, m := range p.maps {
		if m.goTab == nil {
			continue
		}
		o, err := m.goTab.Offsets()
		if err != nil {
			p.t.Fatal(err)
		}
		return &gopclntab.Switcher{
			Offsets: o, Arch: unwind.ArchAMD64, Memory: p, Leaf: *leaf, ThreadPointer: unwind.Addr(fsBase),
		}
	}
	return nil
}

// roots are the functions that a complete stack may end in.
var roots = []string{
	"runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.rt0_go", "gogo", "runtime.morestack",
	"runtime.systemstack", "runtime.asmcgocall",
}

func checkStacks(t *testing.T, samples []sample, complete float64) map[string]int {
	t.Helper()
	good, through := 0, map[string]int{}
	shown := map[string]int{}
	for _, s := range samples {
		seen := map[string]bool{}
		for _, n := range s.names {
			if !seen[n] {
				through[n]++
			}
			seen[n] = true
		}
		last := s.names[len(s.names)-1]
		if s.stop == unwind.StopRoot && (slices.Contains(roots, last) || strings.HasPrefix(last, "[")) {
			good++
			continue
		}
		key := s.stop.String() + s.names[0] + last
		if shown[key]++; shown[key] == 1 {
			t.Logf("%v: %s", s.stop, strings.Join(s.names, " < "))
		}
	}
	t.Logf("%d of %d stacks are complete", good, len(samples))
	if float64(good) < complete*float64(len(samples)) || len(samples) < 100 {
		t.Errorf("%d of %d stacks are complete", good, len(samples))
	}
	return through
}

// checkOrder wants every stack with the first function to have the others behind it, in this order.
func checkOrder(t *testing.T, samples []sample, names ...string) {
	t.Helper()
	have, bad := 0, 0
	for _, s := range samples {
		i := slices.Index(s.names, names[0])
		if i < 0 || s.stop != unwind.StopRoot {
			continue
		}
		have++
		rest := s.names[i:]
		for _, n := range names[1:] {
			j := slices.Index(rest, n)
			if j < 0 {
				if bad++; bad < 4 {
					t.Errorf("no %s behind %s: %s", n, names[0], strings.Join(s.names, " < "))
				}
				break
			}
			rest = rest[j:]
		}
	}
	t.Logf("%d stacks with %s", have, names[0])
	if have == 0 {
		t.Errorf("no stack with %s", names[0])
	}
}

// TestLive walks the stacks of running programs.
func TestLive(t *testing.T) {
	for _, b := range gopclntab.Builds("") {
		if b.Name() == "plain" || b.Name() == "cgo" {
			t.Run(b.Name(), func(t *testing.T) { live(t, b) })
		}
	}
}

// TestLiveVersions does so with every version of Go, and with all ways to link.
func TestLiveVersions(t *testing.T) {
	for _, v := range gopclntab.Versions(t) {
		for _, b := range gopclntab.Builds(v) {
			t.Run(v+"/"+b.Name(), func(t *testing.T) { live(t, b) })
		}
	}
}

func live(t *testing.T, b gopclntab.Build) {
	if b.Cgo() {
		testLiveCgo(t, b.Run(t))
	} else {
		testLive(t, b.Run(t))
	}
}

func testLive(t *testing.T, path string) {
	samples := sampleStacks(t, path, 3000)
	// How often a stack grows differs between versions and from run to run: some sample 1 of 3,000 there, most 30.
	for tries := 0; tries < 5 && growth(samples) < wantGrowth; tries++ {
		samples = append(samples, sampleStacks(t, path, 3000)...)
	}
	through := checkStacks(t, samples, 0.995)
	for _, n := range []string{"runtime.systemstack", "runtime.newstack", "[vdso]", "runtime.mcall", "main.deeper"} {
		t.Logf("%d stacks through %s", through[n], n)
	}
	checkOrder(t, samples, "main.deeper", "main.recursion.func1", "runtime.goexit")
	// not time.now, which the garbage collector calls too
	checkOrder(t, samples, "time.Now", "main.clock", "main.main.func1", "runtime.goexit")
	checkGrowth(t, samples)
}

// checkGrowth wants enough stacks that lead from the growing of a goroutine's stack to the goroutine.
func checkGrowth(t *testing.T, samples []sample) {
	t.Helper()
	n := growth(samples)
	t.Logf("%d stacks through morestack", n)
	if n < wantGrowth {
		t.Errorf("only %d stacks lead through morestack to the goroutine", n)
	}
}

const wantGrowth = 10

// growth counts stacks that lead from the growing of a goroutine's stack to the goroutine.
func growth(samples []sample) (n int) {
	for _, s := range samples {
		i, j := slices.Index(s.names, "runtime.copystack"), slices.Index(s.names, "runtime.morestack")
		if i < 0 || j < i || s.stop != unwind.StopRoot {
			continue
		}
		if s.names[len(s.names)-1] == "runtime.goexit" && slices.Contains(s.names[j:], "main.recursion.func1") {
			n++
		}
	}
	return n
}

func testLiveCgo(t *testing.T, path string) {
	testCgo(t, sampleStacks(t, path, 2000), filepath.Base(path))
}

func testCgo(t *testing.T, samples []sample, file string) {
	checkStacks(t, samples, 0.99)
	checkOrder(t, samples, "main.grow", "main.goCallback", "runtime.cgocallback", "crosscall2", "["+file+"]",
		"runtime.asmcgocall", "main.callbacks", "runtime.goexit")
	checkOrder(t, samples, "main.calls", "main.main.func1", "runtime.goexit")
}
