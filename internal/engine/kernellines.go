package engine

import (
	"context"
	"maps"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/kernelfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

const (
	// kernelAddresses bounds what is kept of each part of the kernel: a busy host has some thousand addresses in all.
	kernelAddresses = 1 << 14
	// firstKernelSerial is above those of executables.
	firstKernelSerial = 1 << 63
)

// kernelInfo is what a part of the kernel is: itself, a module, or all BPF programs. One of the same name that is something else by
// now, or lies elsewhere, has another.
type kernelInfo struct {
	mapping profile.Mapping
	sum     uint64 // of its symbols, see kallsyms.Table.Sum
}

// kernelObject is a part of the kernel that was sampled: to the finder of lines it is an executable.
type kernelObject struct {
	wanting
	info    kernelInfo
	module  string
	mapping *profile.Mapping
	gone    time.Time // when it was seen to be something else
}

// kernelSource says which debug information is a kernelObject's, and how its addresses are in it.
type kernelSource struct {
	table   *kallsyms.Table
	module  string
	buildID string
}

// kernelObject returns the part of the kernel of that name as it is now.
func (e *Engine) kernelObject(module string) *kernelObject {
	if o, ok := e.kernelObjects[module]; ok {
		return o
	}
	info, ok := e.kernelInfo[module]
	if !ok {
		info.mapping.File = "[" + module + "]" // what has no build id, as BPF programs
	}
	e.kernelSerials++
	m := info.mapping
	x := &executable{
		serial: firstKernelSerial + e.kernelSerials, symbols: newExecutableSymbols(), debug: newDebugInfo(),
		mappings: []*profile.Mapping{&m},
	}
	x.symbols.lru.Resize(kernelAddresses)
	x.kernel = e.kernelSource(module, info)
	o := &kernelObject{
		info: info, module: module, mapping: &m,
		wanting: wanting{
			x:       &process.Executable[*executable]{Serial: x.serial, File: &process.File{Path: m.File}, Payload: x},
			payload: x,
		},
	}
	e.kernelObjects[module], e.kernelByMapping[&m] = o, o
	return o
}

// kernelSource is nil if nothing can be looked for: there is no build id.
func (e *Engine) kernelSource(module string, info kernelInfo) *kernelSource {
	if e.kallsyms == nil || info.mapping.BuildIDGNU == "" {
		return nil
	}
	return &kernelSource{table: e.kallsyms, module: module, buildID: info.mapping.BuildIDGNU}
}

// kernelIs takes what was read of the kernel's parts: those that changed are let go.
func (e *Engine) kernelIs(info map[string]kernelInfo, now time.Time) {
	e.kernelInfo = info
	for module, o := range e.kernelObjects {
		if info[module] == o.info {
			o.payload.kernel = e.kernelSource(module, o.info) // the table before is let go
			continue
		}
		delete(e.kernelObjects, module)
		o.gone = now
		o.payload.symbols.evicted = true
		e.forgetDebug(o.payload)
	}
}

// forgetKernel forgets parts of the kernel that are gone, when no report is about them any more.
func (e *Engine) forgetKernel(now time.Time) {
	for m, o := range e.kernelByMapping {
		if !o.gone.IsZero() && now.Sub(o.gone) > e.untilReported() {
			delete(e.kernelByMapping, m)
		}
	}
	maps.DeleteFunc(e.kernelUnnamed, func(_ uint64, u *unnamedAddress) bool {
		return now.Sub(u.since) > e.untilReported()
	})
}

// kernelBytes is what is kept of the kernel beside its symbols.
func (e *Engine) kernelBytes() (n uint64) {
	for _, o := range e.kernelByMapping {
		n += uint64(executableBytes + o.payload.bytes())
	}
	return n
}

// dropKernelLines gives back what the names and lines of kernel addresses take; they are looked up again.
func (e *Engine) dropKernelLines() {
	for _, o := range e.kernelByMapping {
		o.payload.symbols.lru.Purge()
		e.forgetDebug(o.payload)
		if d := o.payload.debug; !d.running {
			d.strings, d.kept = &symbolize.Strings{}, 0
		}
	}
}

// unnamedAddress is a kernel address that no symbol covered when it was sampled.
type unnamedAddress struct {
	object *kernelObject // what it was in when the symbols were read next; nil before
	since  time.Time
}

// noteUnnamed notes such an address. What it was in before, it may not be in any more.
func (e *Engine) noteUnnamed(addr uint64) {
	if u, known := e.kernelUnnamed[addr]; known && u.object == nil || !known && len(e.kernelUnnamed) >= maxMissed {
		return
	}
	e.kernelUnnamed[addr] = &unnamedAddress{since: time.Now()}
}

// nameUnnamed names such addresses now that symbols were read: by the time of the report their module may be gone.
func (e *Engine) nameUnnamed() {
	for addr, u := range e.kernelUnnamed {
		if module, ok := e.kallsyms.Module(addr); ok && u.object == nil && !(module == bpfModule && e.programsStale) {
			u.object = e.kernelObject(module)
			e.nameKernel(u.object, addr)
		}
	}
}

// nameKernel names an address as long as its symbol is there, and has its lines looked up.
func (e *Engine) nameKernel(o *kernelObject, addr uint64) {
	if !e.cfg.Symbolize {
		return
	}
	a, xs := unwind.FileAddr(addr), o.payload.symbols
	s, ok := xs.lru.Get(a)
	if !ok {
		symbol, found := e.kallsyms.Lookup(addr)
		if !found {
			return
		}
		s = &symbolized{
			lines: []unwind.Line{{Function: names.Function(symbol.Name)}}, kind: profile.FrameKernel, progress: named,
		}
		xs.lru.Add(a, s)
		xs.bytes += symbolize.LineBytes(s.lines)
	}
	if s.progress == named && e.cfg.SourceLines {
		e.wantLines(o.wanting, a, s)
	}
}

// kernelLines finds the lines of a kernel frame.
func (e *Engine) kernelLines(dst []unwind.Line, l *profile.Location) []unwind.Line {
	if !e.cfg.Symbolize {
		return dst
	}
	o := e.kernelByMapping[l.Mapping]
	if u := e.kernelUnnamed[l.Address]; l.Mapping == nil && u != nil && u.object != nil {
		o = u.object
		l.Mapping = o.mapping
	}
	if o != nil {
		if s, ok := o.payload.symbols.lru.Peek(unwind.FileAddr(l.Address)); ok && len(s.lines) > 0 {
			return append(dst, s.lines...)
		}
	}
	// It was sampled before its symbols were read, or so long ago that its name was dropped.
	if e.kallsyms == nil {
		return dst
	}
	s, ok := e.kallsyms.Lookup(l.Address)
	switch {
	case !ok:
		return dst
	case l.Mapping == nil && s.Module == bpfModule && e.programsStale:
		return dst // it may be another program by now
	case l.Mapping == nil:
		l.Mapping = e.kernelObject(s.Module).mapping
	case o == nil || o.module != s.Module || !o.gone.IsZero() && s.Module != "":
		return dst // what lies there now is something else
	}
	return append(dst, unwind.Line{Function: names.Function(s.Name)})
}

// find looks for the debug information of the kernel or of a module.
func (k *kernelSource) find(ctx context.Context, budget *elffile.Budget, roots []debugfile.Root, f debugfile.Fetcher) (*debugfile.Found, error) {
	arch := unwind.ArchAMD64
	if runtime.GOARCH == "arm64" {
		arch = unwind.ArchARM64
	}
	return debugfile.FindKernel(ctx, debugfile.Kernel{Arch: arch, BuildID: k.buildID, Paths: k.paths}, budget,
		debugfile.Options{Roots: roots, Fetcher: f})
}

func (k *kernelSource) paths(root debugfile.Root) []string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil
	}
	release := unix.ByteSliceToString(u.Release[:])
	if k.module == "" {
		return kernelfile.VmlinuxPaths(release)
	}
	return kernelfile.ModulePaths(root, release, k.module)
}

// place says where the code of f is in the running kernel: in the file that it returns, moved by slide.
func (k *kernelSource) place(f *elffile.File) (placed *elffile.File, slide uint64, err error) {
	if k.module != "" {
		placed, err = kernelfile.Place(f, k.table.Symbols(k.module))
		return placed, 0, err
	}
	begin, end := k.table.Text()
	slide, err = kernelfile.Slide(f, begin, end)
	return f, slide, err
}

// hasSource tells whether debug information can be looked for.
func (x *executable) hasSource() bool { return x.file != nil || x.kernel != nil }

// findFile looks for the file with the debug information.
func (l *lineReader) findFile(ctx context.Context, budget *elffile.Budget, roots []debugfile.Root) (*debugfile.Found, error) {
	if l.kernel != nil {
		return l.kernel.find(ctx, budget, roots, l.fetcher)
	}
	return debugfile.Find(ctx, l.elf.Within(budget), process.Undeleted(l.path),
		debugfile.Options{Roots: roots, Fetcher: l.fetcher, NoDebugData: l.noData})
}

// place says where the code of f is: of executables, where f says.
func (l *lineReader) place(f *elffile.File) (placed *elffile.File, slide uint64, err error) {
	if l.kernel != nil {
		return l.kernel.place(f)
	}
	return f, 0, nil
}

// inFile returns addresses as they are in the debug information.
func (o *openDebug) inFile(batch []unwind.FileAddr) []unwind.FileAddr {
	if o.slide == 0 {
		return batch
	}
	moved := make([]unwind.FileAddr, len(batch))
	for i, a := range batch {
		moved[i] = a - unwind.FileAddr(o.slide)
	}
	return moved
}
