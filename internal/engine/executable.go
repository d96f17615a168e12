package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/registry"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tables"
)

const (
	// loadTimeout bounds the opening of an executable and the building of its table. The largest browsers take two seconds.
	loadTimeout = 20 * time.Second
	// executableBytes is about what an executable takes beside its symbols and lines.
	executableBytes = 4096
)

var pageSize = unix.Getpagesize()

// executable is what was made of a mapped file.
type executable struct {
	serial   uint64
	file     *source // for symbols; nil for the vdso
	elf      *elffile.File
	segments []unwind.Segment   // executable ones
	shared   bool               // they share pages of the file
	mappings []*profile.Mapping // by segment
	table    ebpf.TableRef
	symbols  *executableSymbols
	debug    *debugInfo
	kernel   *kernelSource              // of the kernel or a module, which has no file
	users    map[*processState]struct{} // BPF has mappings of theirs that refer to it
	runtimes []foundRuntime
	threads  *libc.Threads // if it is a C library
	// threadsUnknown is why there is none although it is one
	threadsUnknown error
}

// foundRuntime is a language runtime that an executable holds.
type foundRuntime struct {
	image runtimes.Image
	entry runtimes.Entry
}

// source is an executable's file, which is closed while nothing maps it and opened again when something does. Workers may
// read meanwhile.
type source struct {
	file   atomic.Pointer[os.File]
	device device
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(b []byte, off int64) (int, error) {
	f := s.file.Load()
	if f == nil {
		return 0, os.ErrClosed
	}
	return f.ReadAt(b, off)
}

// Close closes the file; ReadAt fails then.
func (s *source) Close() error {
	if f := s.file.Swap(nil); f != nil {
		return f.Close()
	}
	return nil
}

// busy tells whether something is being read of the file, or is going to be.
func (x *executable) busy() bool { return x.symbols.busy() || x.debug.running }

// waits tells whether lines of it are going to be read.
func (x *executable) waits() bool { return len(x.debug.wanted) > 0 }

func (s *source) open() bool { return s == nil || s.file.Load() != nil }

// mapping is the executable range that holds a; nil if none does.
func (x *executable) mapping(a unwind.FileAddr) *profile.Mapping {
	for _, m := range x.mappings {
		if m != nil && a >= m.Start && a < m.Limit {
			return m
		}
	}
	return nil
}

// loaded is what a worker made of a file.
type loaded struct {
	identity   process.Identity
	same       bool     // the file is what it was
	file       *os.File // then; the rest is not set
	executable *executable
	tableError error
	detected   []error // what is wrong with the language runtimes in it
	took       time.Duration
	tables     *ebpf.Tables // that has the executable's
}

// Close drops a result that came too late.
func (l *loaded) Close() error {
	if l == nil {
		return nil
	}
	if l.same {
		return l.file.Close()
	}
	l.tables.Remove(l.executable.table)
	if l.executable.file != nil {
		return l.executable.file.Close()
	}
	return nil
}

// requestExecutable sees to it that x is read, and tells whether that is under way and worth waiting for: where it is read for the
// first time, or whoever mapped it last may have other contents than those that are known.
func (e *Engine) requestExecutable(x *process.Executable[*executable]) bool {
	if e.executables.StartOpening(x) || e.executables.StartChecking(x) {
		e.load(x)
	}
	if x.State() == process.Opening {
		return true
	}
	if !x.Checking() || !x.InDoubt() {
		return false
	}
	e.executables.Use(x) // a sample will be in it
	return true
}

func (e *Engine) load(x *process.Executable[*executable]) {
	var known *process.Identity
	if x.State() == process.Ready {
		id := x.Identity()
		known = &id
	}
	l := loader{
		proc: e.proc, tables: e.kernel.Tables, candidates: x.File.Candidates(), id: x.File.ID, path: x.File.Path,
		vdso: x.File.VDSO(), known: known, builds: e.builds,
	}
	e.jobs.submit(aboutOpening(x.Serial, x.File), loadTimeout,
		func(ctx context.Context) (any, error) { return l.load(ctx) },
		func(v any, err error) { e.opened(x, v, err) })
}

// opened is the end of load's job.
func (e *Engine) opened(x *process.Executable[*executable], v any, err error) {
	e.held.wake(x.File)
	switch {
	case err == nil:
		e.loaded(x, v.(*loaded))
	case ready(x) && x.Payload.file.open() && !errors.Is(err, errRewritten):
		e.executables.FailCheck(x) // it serves as before
		e.log.Debug("looking at an executable again", zap.String("file", x.File.Path), zap.Error(err))
	default:
		e.loadFailed(x, err)
	}
}

func (e *Engine) loaded(x *process.Executable[*executable], l *loaded) {
	if errors.Is(l.tableError, ebpf.ErrNoRoom) {
		// The least used make room, and this one is tried again a little later.
		e.executables.Evict(e.executables.Bytes() / 4 * 3)
		e.closer.close(deviceOf(x.File.ID), l)
		e.loadFailed(x, l.tableError)
		return
	}
	n := e.executables.Opened(x, l.identity)
	if l.same {
		e.reopened(n, l)
		return
	}
	e.giver.made(garbagePerTable * l.executable.table.Bytes())
	e.count.TablesBuilt++
	e.count.TableTime += l.took
	if l.tableError != nil {
		reason, message := tableLack(l.tableError)
		e.count.TableErrors[reason]++
		e.log.Warn(message, zap.String("file", x.File.Path), zap.Error(l.tableError))
	}
	for _, err := range l.detected {
		e.count.RuntimeErrors++
		e.log.Warn("frames of a language runtime cannot be had", zap.String("file", x.File.Path), zap.Error(err))
	}
	l.executable.users = map[*processState]struct{}{}
	l.executable.serial = n.Serial
	if !e.executables.SetPayload(n, l.executable, uint64(executableBytes+l.executable.bytes())) {
		e.release(l.executable)
		return
	}
	if l.executable.file != nil {
		e.withFile[l.executable] = n
	}
	e.mappingsOf(n.File)
}

// reopened takes the file of an executable that is what it was. It is needed if the one before was closed, and kept if there may be
// one more open file or something is going to be read of it.
func (e *Engine) reopened(x *process.Executable[*executable], l *loaded) {
	wanted := e.executables.TakeWanted(x)
	// What was evicted meanwhile has no payload: it is read again when it is wanted.
	if !closed(x) || len(e.withFile) >= e.maxFiles && !wanted && !x.Payload.busy() && !x.Payload.waits() {
		e.closer.close(deviceOf(x.File.ID), l)
		return
	}
	x.Payload.file.file.Store(l.file)
	e.withFile[x.Payload] = x
	e.startSymbolJob(wanting{x, x.Payload}) // it may have waited for this
}

// ready tells whether there is a payload.
func ready(x *process.Executable[*executable]) bool {
	return x.State() == process.Ready && !x.Replaced()
}

// closed tells whether x is ready, and its file was let go.
func closed(x *process.Executable[*executable]) bool { return ready(x) && !x.Payload.file.open() }

// letGo closes the files of executables that nothing maps any more, as soon as no symbols are being read of them,
// nor lines going to be before long.
func (e *Engine) letGo() {
	for _, x := range e.executables.TakeIdle() {
		e.idle[x] = struct{}{}
	}
	for x := range e.idle {
		switch {
		case x.Mapped() || !ready(x) || x.Payload.file == nil || closed(x):
			delete(e.idle, x)
		case !x.Payload.busy() && !(x.Payload.waits() && e.lines.cpu.left > 0):
			delete(e.idle, x)
			e.closeFile(x)
		}
	}
	// Beyond a share of the descriptors that the collector may have, files are closed that are mapped: they are opened again
	// when an address is to be named.
	for _, x := range e.withFile {
		if len(e.withFile) <= e.maxFiles {
			break
		}
		if ready(x) && x.Payload.file.open() && !x.Payload.busy() {
			e.closeFile(x)
			e.count.Evictions++
		}
	}
}

// closeFile lets go of an executable's file; what was read of it stays.
func (e *Engine) closeFile(x *process.Executable[*executable]) {
	delete(e.withFile, x.Payload)
	e.forgetDebug(x.Payload)
	e.closer.closeSource(x.Payload.file)
}

func (e *Engine) loadFailed(x *process.Executable[*executable], err error) {
	permanent := errors.Is(err, elffile.ErrNotELF) || errors.Is(err, elffile.ErrUnsupported) || errors.Is(err, procfs.ErrNotFile)
	e.executables.Fail(x, err, permanent)
	if closed(x) {
		e.symbols.drop(x.Payload.symbols) // nobody will read them
	}
	e.count.TableErrors[tableErrorOf(err)]++
	e.log.Debug("reading an executable", zap.String("file", x.File.Path), zap.Error(err))
	e.mappingsOf(x.File)
}

// mappingsOf makes BPF learn what became of a file, in the processes that map it.
func (e *Engine) mappingsOf(f *process.File) {
	for _, st := range e.states {
		if st.mapsFile(f) {
			e.markDirty(st)
		}
	}
}

func (st *processState) mapsFile(f *process.File) bool {
	for _, m := range st.p.Mappings() {
		if m.File == f {
			return true
		}
	}
	return false
}

// release frees what an executable holds, after no process's mappings refer to it any more.
func (e *Engine) release(x *executable) {
	delete(e.withFile, x)
	e.forgetDebug(x)
	if x.file != nil {
		e.closer.closeSource(x.file)
	}
	e.kernel.Tables.Remove(x.table)
}

// unreadable stands for a file that could not be read: its name is all that is known.
func (e *Engine) unreadable(f *process.File) *profile.Mapping {
	m, ok := e.nameOnly[f]
	if !ok {
		if len(e.nameOnly) >= 4096 {
			clear(e.nameOnly)
		}
		m = &profile.Mapping{File: process.Undeleted(f.Path)}
		e.nameOnly[f] = m
	}
	return m
}

func (e *Engine) closeExecutables() {
	if e.executables == nil {
		return
	}
	for x := range e.withFile {
		e.forgetDebug(x)
		e.closer.closeSource(x.file)
	}
	clear(e.withFile)
	for _, o := range e.kernelByMapping {
		e.forgetDebug(o.payload)
	}
}

// detect looks for language runtimes in an executable, and for what they need to know of the C library.
func (x *executable) detect(elf *elffile.File) (wrong []error) {
	threads, err := libc.Detect(elf)
	switch {
	case err == nil:
		x.threads = threads
	case errors.Is(err, libc.ErrUnknown):
		x.threadsUnknown = err
	}
	for _, r := range registry.Plugins() {
		entry := runtimes.All()[r.ID()]
		image, err := r.Detect(elf)
		switch {
		case err == nil:
			x.runtimes = append(x.runtimes, foundRuntime{image, entry})
		case !errors.Is(err, runtimes.ErrNotThis):
			wrong = append(wrong, fmt.Errorf("looking for %s: %w", entry.FrameType, err))
		}
	}
	return wrong
}

// opener opens mapped files.
type opener interface {
	OpenMapped(pid uint32, m process.MmapInfo, others []process.Candidate) (*os.File, error)
}

// loader reads one executable, on a worker.
type loader struct {
	proc       opener
	tables     *ebpf.Tables
	candidates []process.Candidate
	id         process.FileID
	path       string
	vdso       bool
	known      *process.Identity
	builds     *builds
}

// errRewritten: the file of an executable has other contents by now, and those cannot be read.
var errRewritten = errors.New("the file was rewritten")

func (l *loader) load(ctx context.Context) (*loaded, error) {
	if l.vdso {
		return l.loadVDSO()
	}
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("looking at %s: %w", l.path, err)
	}
	id := process.Identity{
		Size: st.Size, MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano(), Dev: st.Dev, Inode: st.Ino,
	}
	if l.known != nil && l.known.Same(id) {
		return &loaded{identity: id, same: true, file: f}, nil
	}
	file := &source{device: deviceOf(l.id)}
	file.file.Store(f)
	out, err := l.build(ctx, file, st.Size)
	if err != nil {
		f.Close()
		if l.known != nil {
			err = fmt.Errorf("%w: %w", errRewritten, err)
		}
		return nil, err
	}
	out.identity, out.executable.file = id, file
	return out, nil
}

func (l *loader) open() (*os.File, error) {
	if len(l.candidates) == 0 {
		return nil, fmt.Errorf("opening %s: %w", l.path, os.ErrNotExist)
	}
	c := l.candidates[0]
	return l.proc.OpenMapped(c.PID, process.MmapInfo{
		Start: c.Start, End: c.End, Offset: c.Offset, File: l.id, Path: c.Path, Exec: true,
	}, l.candidates[1:])
}

// build makes table, mappings and build ids of a file.
func (l *loader) build(ctx context.Context, r io.ReaderAt, size int64) (*loaded, error) {
	began := time.Now()
	elf, err := elffile.New(r, size)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", l.path, err)
	}
	x := &executable{elf: elf, segments: elf.Executable(), symbols: newExecutableSymbols(), debug: newDebugInfo()}
	x.shared = unwind.SharePages(x.segments, uint64(pageSize))
	out := &loaded{executable: x, tables: l.tables}
	l.describe(x, elf)
	out.detected = x.detect(elf)
	// What one source lacks, the others may have.
	out.tableError = l.builds.build(ctx, l.path, elf, func(table *unwind.Table, info tables.Info) (err error) {
		if len(table.Rows) > 0 && ctx.Err() == nil {
			x.table, err = l.tables.Add(table, goOffsets(info))
		}
		if n := info.EHFrame.Malformed + info.DebugFrame.Malformed; n > 0 {
			err = errors.Join(err, fmt.Errorf("%d malformed entries of call frame information left out", n))
		}
		return err
	})
	out.took = time.Since(began)
	return out, nil
}

// describe makes the mappings that profiles refer to, one for each executable segment.
func (l *loader) describe(x *executable, elf *elffile.File) {
	gnu, goID := elf.BuildIDs()
	hash, err := elf.HTLHash()
	if err != nil {
		hash = "" // the others do
	}
	for _, s := range elf.Segments {
		if !s.Exec {
			x.mappings = append(x.mappings, nil)
			continue
		}
		x.mappings = append(x.mappings, &profile.Mapping{
			Start: s.VAddr, Limit: s.VAddr + unwind.FileAddr(s.MemSize), Offset: s.Offset,
			File: process.Undeleted(l.path), BuildIDGNU: gnu, BuildIDGo: goID, HTLHash: hash,
		})
	}
}

// baseName is the last part of a mapped file's path.
func baseName(path string) string {
	return filepath.Base(strings.TrimSpace(process.Undeleted(path)))
}
