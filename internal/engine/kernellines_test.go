package engine

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// kernelProgram is the source of the test's kernel, and of its module.
const kernelProgram = `volatile long sink;
static inline __attribute__((always_inline)) void inner(long n) { sink += n * 3; }
static inline __attribute__((always_inline)) void middle(long n) { inner(n); sink ^= n; }
__attribute__((noinline)) void PREFIX_work(long n) { middle(n); sink--; }
__attribute__((noinline, section(".text.unlikely"))) void PREFIX_cold(long n) { middle(n + 1); sink++; }
`

const kernelLayout = `SECTIONS {
	. = %#x; .note.gnu.build-id : { *(.note.gnu.build-id) } :note
	. = %#x; .text : { _stext = .; *(.text) } :text
	. = %#x; .text.unlikely : { *(.text.unlikely) _etext = .; } :text
	.data : { *(.data .bss) } :data
	/DISCARD/ : { *(.eh_frame .comment .note.GNU-stack .note.gnu.property) }
}
PHDRS { text PT_LOAD; data PT_LOAD; note PT_NOTE; }
`

// fakeKernel is a kernel made of files.
type fakeKernel struct {
	t    *testing.T
	dir  string
	root string // that of the process with the id 1
	core string // lines of /proc/kallsyms
	e    *Engine
}

const (
	coreBase   = 0xffffffff81000000
	coreSlide  = 0x1b200000
	moduleBase = 0xffffffffc0400000
)

func (k *fakeKernel) run(command ...string) {
	k.t.Helper()
	unwindtest.Need(k.t, command[0])
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = k.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

func (k *fakeKernel) write(path, text string) {
	k.t.Helper()
	path = filepath.Join(k.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// compile makes PREFIX.ko, which is relocatable, and PREFIX, which is linked to an address, with the same code and build id.
func (k *fakeKernel) compile(prefix string, base uint64) {
	k.t.Helper()
	k.write(prefix+".c", strings.ReplaceAll(kernelProgram, "PREFIX", prefix))
	k.write(prefix+".ld", fmt.Sprintf(kernelLayout, base-0x1000, base, base+0x140000))
	gcc := []string{"gcc", "-g", "-O2", "-ffreestanding", "-fno-pic", "-c", "-o", prefix + ".o", prefix + ".c"}
	if runtime.GOARCH == "amd64" {
		gcc = append(gcc, "-mcmodel=kernel") // elsewhere code reaches any address near it
	}
	k.run(gcc...)
	k.run("ld", "-r", "--build-id=sha1", "-o", prefix+".ko", prefix+".o")
	k.run("ld", "--build-id=0x"+k.buildID(prefix+".ko"), "-T", prefix+".ld", "-o", prefix, prefix+".o")
}

func (k *fakeKernel) buildID(name string) string {
	k.t.Helper()
	return hex.EncodeToString(k.note(name)[16:])
}

// note is a file's section with its build id.
func (k *fakeKernel) note(name string) []byte {
	k.t.Helper()
	f, err := elf.Open(filepath.Join(k.dir, name))
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".note.gnu.build-id").Data()
	if err != nil || len(b) < 20 || binary.LittleEndian.Uint32(b[4:]) != uint32(len(b)-16) {
		k.t.Fatalf("%x: %v", b, err)
	}
	return b
}

// symbols are the lines of /proc/kallsyms for a linked file whose code lies elsewhere.
func (k *fakeKernel) symbols(name, module string, slide uint64) string {
	k.t.Helper()
	f, err := elf.Open(filepath.Join(k.dir, name))
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		k.t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b elf.Symbol) int { return int(int64(a.Value - b.Value)) })
	var text strings.Builder
	for _, s := range all {
		if strings.HasPrefix(s.Name, name) || module == "" && (s.Name == "_stext" || s.Name == "_etext") {
			fmt.Fprintf(&text, "%016x T %s%s\n", s.Value+slide, s.Name, module)
		}
	}
	return text.String()
}

// address is where a function begins, with what was inlined into it.
func (k *fakeKernel) address(name, function string) uint64 {
	k.t.Helper()
	for _, s := range unwindtest.Symbols(k.t, filepath.Join(k.dir, name)) {
		if s.Name == function {
			return s.Value
		}
	}
	k.t.Fatalf("%s has no %s", name, function)
	return 0
}

// loaded has the module be loaded at an address; 0 is nowhere.
func (k *fakeKernel) loaded(base uint64) {
	k.t.Helper()
	k.write("kallsyms", k.core)
	k.write("modules", "")
	if base != 0 {
		k.write("kallsyms", k.core+k.symbols("mod", "\t[mod]", base-moduleBase))
		k.write("modules", fmt.Sprintf("mod 2097152 0 - Live %#x\n", base))
		k.write("sys/mod/notes/.note.gnu.build-id", string(k.note("mod")))
	}
}

// newFakeKernel makes a kernel and an engine without BPF.
func newFakeKernel(t *testing.T) *fakeKernel {
	t.Helper()
	k := &fakeKernel{t: t, dir: t.TempDir()}
	k.root = filepath.Join(k.dir, "proc/1/root")
	k.write("proc/1/root/etc/hostname", "host")
	if err := os.Symlink("/proc/self", filepath.Join(k.dir, "proc/self")); err != nil {
		t.Fatal(err)
	}
	k.compile("core", coreBase)
	k.compile("mod", moduleBase)
	k.core = k.symbols("core", "", coreSlide)
	k.write("notes", string(k.note("core")))
	k.loaded(0)

	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	e := &Engine{cfg: testConfig(), log: log, proc: procfs.New(filepath.Join(k.dir, "proc"))}
	e.closer = newCloser(log)
	e.jobs = newJobs(log, e.closer)
	e.symbols, e.lines, e.spills = newSymbolizer(), newLineFinder(), newSpills()
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	e.fetches, _ = newFetches(nil) // without servers it can't fail
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	e.count = newStats()
	k.e = e
	t.Cleanup(func() {
		e.closeExecutables()
		e.jobs.close()
		e.closer.wait(closeWait)
		if n := e.lines.bytes; n != 0 {
			t.Errorf("%d bytes of debug information are open", n)
		}
	})
	e.openKernelNames(kernelFiles{
		symbols: filepath.Join(k.dir, "kallsyms"), modules: filepath.Join(k.dir, "modules"), notes: filepath.Join(k.dir, "notes"),
		sysModule: filepath.Join(k.dir, "sys"),
	})
	k.until("the kernel's symbols are there", func() bool { return e.kallsyms != nil })
	return k
}

// until serves the engine until something is so.
func (k *fakeKernel) until(what string, done func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("it does not come to pass that %s", what)
		}
		k.e.jobs.drain()
		select {
		case r := <-k.e.fetches.done:
			k.e.fetched(r)
		default:
		}
		now := time.Now()
		k.e.followKernel(now)
		k.e.startLineJobs(now.Add(linesPause)) // nobody waits for more
	}
}

// chain is what a location stands for, as a report has it.
func (k *fakeKernel) chain(l profile.Location) string {
	var all []string
	for _, line := range k.e.resolve(nil, &l) {
		text := line.Function.Name
		if line.Line != 0 {
			text += fmt.Sprintf(" %s:%d", filepath.Base(line.Function.File), line.Line)
		}
		all = append(all, text)
	}
	if l.Mapping != nil {
		all = append(all, l.Mapping.File+" "+l.Mapping.BuildIDGNU)
	}
	if l.Type != profile.FrameKernel {
		all = append(all, "type "+string(l.Type))
	}
	return strings.Join(all, "; ")
}

// want looks an address up until its chain is as it should be.
func (k *fakeKernel) want(addr uint64, want string) {
	k.t.Helper()
	got := ""
	defer func() {
		if k.t.Failed() {
			k.t.Logf("%#x is %q, want %q", addr, got, want)
		}
	}()
	k.until("the lines are known", func() bool {
		got = k.chain(k.e.kernelLocation(addr))
		return got == want
	})
}

// TestKernelLines has debug information of the kernel and of a module, wherever that may lie.
func TestKernelLines(t *testing.T) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	for _, c := range []struct {
		name      string
		core, mod func(k *fakeKernel) string // paths
	}{
		{"build id", func(k *fakeKernel) string { return buildIDPath(k.buildID("core")) }, func(k *fakeKernel) string { return buildIDPath(k.buildID("mod")) }},
		{
			"path", func(*fakeKernel) string { return "/usr/lib/debug/boot/vmlinux-" + release },
			func(k *fakeKernel) string {
				k.write("proc/1/root/lib/modules/"+release+"/modules.dep", "kernel/fs/mod.ko.xz:\n")
				return "/usr/lib/debug/lib/modules/" + release + "/kernel/fs/mod.ko.debug"
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newFakeKernel(t)
			put := func(name, path string) {
				b, err := os.ReadFile(filepath.Join(k.dir, name))
				if err != nil {
					t.Fatal(err)
				}
				k.write("proc/1/root"+path, string(b))
			}
			put("core", c.core(k))
			k.run("objcopy", "--only-keep-debug", "mod.ko")
			put("mod.ko", c.mod(k))
			k.loaded(moduleBase + 0x3000)
			core, mod := "[kernel.kallsyms] "+k.buildID("core"), "[mod] "+k.buildID("mod")
			k.want(k.address("core", "core_work")+coreSlide, "inner core.c:2; middle core.c:3; core_work core.c:4; "+core)
			k.want(k.address("core", "core_cold")+coreSlide, "inner core.c:2; middle core.c:3; core_cold core.c:5; "+core)
			k.want(k.address("mod", "mod_work")+0x3000, "inner mod.c:2; middle mod.c:3; mod_work mod.c:4; "+mod)
			k.want(k.address("mod", "mod_cold")+0x3000, "inner mod.c:2; middle mod.c:3; mod_cold mod.c:5; "+mod)
			if n := k.e.count.DebugErrors; n != 0 {
				t.Errorf("%d errors", n)
			}
		})
	}
}

func buildIDPath(id string) string {
	return "/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
}

// TestFetchedKernel gets the debug information of the kernel from a server.
func TestFetchedKernel(t *testing.T) {
	k := newFakeKernel(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/buildid/"+k.buildID("core")+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, filepath.Join(k.dir, "core"))
	}))
	defer server.Close()
	var err error
	if k.e.fetches, err = newFetches(&debuginfod.Options{URLs: []string{server.URL}, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	defer k.e.fetches.close()
	k.want(k.address("core", "core_work")+coreSlide, "inner core.c:2; middle core.c:3; core_work core.c:4; [kernel.kallsyms] "+k.buildID("core"))
}

// TestOtherKernel has a vmlinux with the right name, of another build: names stay, and nothing is taken from it.
func TestOtherKernel(t *testing.T) {
	k := newFakeKernel(t)
	b, err := os.ReadFile(filepath.Join(k.dir, "mod"))
	if err != nil {
		t.Fatal(err)
	}
	k.write("proc/1/root"+buildIDPath(k.buildID("core")), string(b))
	addr := k.address("core", "core_work") + coreSlide
	k.e.kernelLocation(addr)
	k.until("it was looked for", func() bool { return k.e.count.DebugInfo[debugfile.SourceNone] == 1 })
	k.want(addr, "core_work; [kernel.kallsyms] "+k.buildID("core"))
}

// TestReloadedModule loads, moves and removes a module: what was sampled in it is named as it was then, and what is sampled is named
// at once.
func TestReloadedModule(t *testing.T) {
	k := newFakeKernel(t)
	e := k.e
	id := "[mod] " + k.buildID("mod")
	work := k.address("mod", "mod_work")
	k.loaded(moduleBase)
	before := e.kernelLocation(work)
	if before.Mapping != nil {
		t.Errorf("known already: %v", before.Mapping)
	}
	k.until("the module is known", func() bool { _, ok := e.kallsyms.Module(work); return ok })
	if got := k.chain(before); got != "mod_work; "+id {
		t.Errorf("sampled before its symbols were read: %q", got)
	}
	first := e.kernelLocation(work)
	if got := k.chain(first); got != "mod_work; "+id {
		t.Errorf("sampled after that: %q", got)
	}

	const moved = 0x7000
	k.loaded(moduleBase + moved)
	second := e.kernelLocation(work + moved + 1) // no other address tells of it
	k.until("it is known elsewhere", func() bool { _, ok := e.kallsyms.Module(work + moved); return ok })
	for what, l := range map[string]profile.Location{"where it was": first, "where it is": second, "again": e.kernelLocation(work + moved + 1)} {
		if got := k.chain(l); got != "mod_work; "+id {
			t.Errorf("%s: %q", what, got)
		}
	}

	k.loaded(0)
	third := e.kernelLocation(work + moved)
	e.followModules(time.Now())
	k.until("it is gone", func() bool { _, ok := e.kallsyms.Module(work + moved); return !ok })
	for what, l := range map[string]profile.Location{
		"where it was first": first, "where it was last": third, "before its symbols were read": before, "elsewhere before that": second,
	} {
		if got := k.chain(l); got != "mod_work; "+id {
			t.Errorf("removed, %s: %q", what, got)
		}
	}
	if got := k.chain(e.kernelLocation(work)); got != "" {
		t.Errorf("nothing is there: %q", got)
	}
	e.forgetKernel(time.Now().Add(time.Hour))
	if len(e.kernelByMapping) != 0 || len(e.kernelUnnamed) != 0 {
		t.Errorf("%d parts of the kernel and %d addresses are kept", len(e.kernelByMapping), len(e.kernelUnnamed))
	}
}

// TestModuleWhileReading loads a module while the kernel's symbols are being read, which was begun before: the report waits for the
// reading after that.
func TestModuleWhileReading(t *testing.T) {
	k := newFakeKernel(t)
	e := k.e
	e.programs = &fakePrograms{}
	work := k.address("mod", "mod_work")
	e.readKernelSymbols()
	// It is over, and its result waits for the engine: what is loaded now is not in it.
	eventually(t, "the symbols were read", func() bool { s := e.jobs.files.pool.Stats(); return s.Queued+s.Running == 0 })
	k.loaded(moduleBase)
	l := e.kernelLocation(work)
	e.followKernel(time.Now())
	r := report{asked: e.symbols.reported()}
	first := e.kallsyms
	e.jobs.finish(e.jobs.files, <-e.jobs.files.results()) // and no other, however quick it is
	if e.kallsyms == first {
		t.Error("that reading is not over")
	}
	if !r.waits(&e.symbols.questions) {
		t.Errorf("the report is sent with %q", k.chain(l))
	}
	k.until("the report has all that it waits for", func() bool { return !r.waits(&e.symbols.questions) })
	if got, want := k.chain(l), "mod_work; [mod] "+k.buildID("mod"); got != want {
		t.Errorf("%q, want %q", got, want)
	}

	// There may be no time for that: then nothing is waited for.
	e.readKernelSymbols()
	e.kernelCPU.spend(time.Minute)
	e.kernelChanged = true
	e.followKernel(time.Now())
	r = report{asked: e.symbols.reported()}
	k.until("the report has all that it waits for", func() bool { return !r.waits(&e.symbols.questions) })
	if e.kernelReading || e.kernelOwed || !e.symbols.idle() {
		t.Errorf("reading %v, owed %v, idle %v", e.kernelReading, e.kernelOwed, e.symbols.idle())
	}
}

// TestKernelPace samples addresses that nothing is known of: the kernel's symbols are not read again for it but after a while.
func TestKernelPace(t *testing.T) {
	k := newFakeKernel(t)
	e := k.e
	e.programs.New() // what others have loaded
	read := e.kernelRead
	for i := range uint64(2 * maxMissed) {
		e.kernelLocation(0xffffffffa0000000 + i*0x1000)
		if i%512 == 0 {
			e.followKernel(read)
		}
	}
	e.kernelChanged = false // another test may have loaded a BPF program
	if len(e.kernelMissed) != maxMissed || e.kernelReading || !e.kernelRead.Equal(read) {
		t.Errorf("%d pages, reading %v", len(e.kernelMissed), e.kernelReading)
	}
	e.refreshKernelSymbols(read.Add(kernelReload / 2))
	if e.kernelReading {
		t.Error("read again too soon")
	}
	e.refreshKernelSymbols(read.Add(2 * kernelReload))
	if !e.kernelReading {
		t.Error("not read again")
	}
	k.until("it was", func() bool { return !e.kernelReading })
	// Modules that come and go all the time are looked at as long as there is time to.
	e.kernelCPU.spend(time.Minute)
	now := e.kernelRead
	e.kernelChanged = true
	e.readChanged(now.Add(kernelReload / 2))
	if e.kernelReading {
		t.Error("read again without time to")
	}
	e.kernelCPU.left = kernelCredit
	e.readChanged(now.Add(kernelReload / 2))
	if !e.kernelReading {
		t.Error("not read again though there is time to")
	}
}

// TestKernelBytes bounds what is kept of addresses, and gives it back.
func TestKernelBytes(t *testing.T) {
	k := newFakeKernel(t)
	e := k.e
	begin := k.address("core", "core_work") + coreSlide
	none := e.kernelBytes()
	o := e.kernelObject("")
	for a := range uint64(2 * kernelAddresses) {
		o.payload.symbols.lru.Add(unwind.FileAddr(math.MaxUint64-a), &symbolized{})
	}
	if n := o.payload.symbols.lru.Len(); n != kernelAddresses {
		t.Errorf("%d addresses", n)
	}
	e.kernelLocation(begin)
	if n := e.kernelBytes(); n < none+kernelAddresses*entryBytes {
		t.Errorf("%d bytes, %d of them without", n, none)
	}
	if err := o.payload.debug.strings.Keep([]unwind.Line{{Function: unwind.Function{Name: "work", File: "core.c"}}}); err != nil {
		t.Fatal(err)
	}
	o.payload.debug.kept = o.payload.debug.strings.Bytes()
	o.payload.debug.running = true
	if e.dropKernelLines(); o.payload.debug.kept == 0 {
		t.Error("the names that a job has are gone")
	}
	o.payload.debug.running = false
	e.dropKernelLines()
	if n := o.payload.bytes(); n != 0 || o.payload.debug.strings.Bytes() != 0 {
		t.Errorf("%d bytes are left", n)
	}
	if got := k.chain(profile.Location{Type: profile.FrameKernel, Mapping: o.mapping, Address: begin}); !strings.HasPrefix(got, "core_work; ") {
		t.Errorf("a report in the making has %q", got)
	}
}
