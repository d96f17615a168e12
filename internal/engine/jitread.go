package engine

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitcode"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/jitdump"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/perfmap"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// jitNames are the files in which a process says what its code is.
type jitNames struct {
	perfMap *perfmap.Map
	dump    *jitdump.Dump
}

// some tells whether the process says anything.
func (n *jitNames) some() bool { return n.perfMap != nil || n.dump != nil }

func (n *jitNames) bytes() (b int) {
	if n.perfMap != nil {
		b += n.perfMap.Bytes()
	}
	if n.dump != nil {
		b += n.dump.Bytes()
	}
	return b
}

// lookup finds code by its address, nil if there is none. A jitdump tells more.
func (n *jitNames) lookup(a unwind.Addr) *jitName {
	var line unwind.Line
	var kind string
	ok := false
	if n.dump != nil {
		line, kind, ok = n.dump.Lookup(a)
	}
	if !ok && n.perfMap != nil {
		line, kind, ok = n.perfMap.Lookup(a)
	}
	if !ok {
		return nil
	}
	return &jitName{symbol: profile.Symbol{Lines: []unwind.Line{line}}, kind: profile.FrameType(kind)}
}

// jitFiles opens the files; errors are as procfs has them.
type jitFiles interface {
	OpenPerfMap(pid uint32) (*os.File, error)
	OpenJITDump(pid uint32, m process.MmapInfo) (*os.File, error)
}

// jitReader reads what a process says of its code, on a worker.
type jitReader struct {
	proc   jitFiles
	pid    uint32
	dump   process.MmapInfo // of the mapping that reveals a jitdump; without a path there is none
	names  *jitNames        // nil if nothing was read yet
	limit  int              // bytes, for each file
	wanted []unwind.Addr
	all    []unwind.Addr // known ones too
	cpu    cpuTime
}

// jitResult is a job's.
type jitResult struct {
	names     *jitNames
	addresses []unwind.Addr
	found     []*jitName // by address
	failed    []error    // files that are there and could not be read
}

func (r *jitReader) read(ctx context.Context) (*jitResult, error) {
	defer r.cpu.start()()
	out := &jitResult{names: r.names, addresses: r.wanted}
	if out.names == nil {
		out.names = &jitNames{}
	}
	changed := false
	try := func(what string, err error) {
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, procfs.ErrGone) {
			out.failed = append(out.failed, fmt.Errorf("reading the %s of process %d: %w", what, r.pid, err))
		}
	}
	if r.dump.Path != "" {
		more, err := r.readDump(ctx, out.names)
		changed = changed || more
		try("jitdump", err)
	}
	more, err := r.readMap(ctx, out.names)
	changed = changed || more
	try("perf map", err)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading names of JIT code of process %d: %w", r.pid, err)
	}
	if changed {
		out.addresses = r.all
	}
	out.found = make([]*jitName, len(out.addresses))
	for i, a := range out.addresses {
		out.found[i] = out.names.lookup(a)
	}
	return out, nil
}

// updater is a file that is read as it grows.
type updater interface {
	Update(f io.ReaderAt, id jitcode.FileID) (more bool, err error)
}

func (r *jitReader) readDump(ctx context.Context, n *jitNames) (changed bool, err error) {
	f, err := r.proc.OpenJITDump(r.pid, r.dump)
	if err != nil {
		return false, err
	}
	if n.dump == nil {
		machine := elf.EM_X86_64
		if ebpf.Arch == unwind.ArchARM64 {
			machine = elf.EM_AARCH64
		}
		n.dump = jitdump.New(r.limit, uint32(machine))
	}
	before := n.dump.Stats()
	err = r.update(ctx, f, n.dump)
	return n.dump.Stats() != before, err
}

func (r *jitReader) readMap(ctx context.Context, n *jitNames) (changed bool, err error) {
	f, err := r.proc.OpenPerfMap(r.pid)
	if err != nil {
		return false, err
	}
	if n.perfMap == nil {
		n.perfMap = perfmap.New(r.limit)
	}
	before := n.perfMap.Stats()
	err = r.update(ctx, f, n.perfMap)
	return n.perfMap.Stats() != before, err
}

// jitUpdates is how many parts of a file one look reads at most, 4 MiB each, as long as there is time to; the next look goes on.
const jitUpdates = 16

// update reads what was appended, and closes the file.
func (r *jitReader) update(ctx context.Context, f *os.File, u updater) error {
	id, err := identify(f)
	more := err == nil
	for n := 0; more && n < jitUpdates && r.cpu.soFar() < saidLookTime && ctx.Err() == nil; n++ {
		more, err = u.Update(f, id)
	}
	return errors.Join(err, f.Close())
}

func identify(f *os.File) (jitcode.FileID, error) {
	id, err := procfs.Identify(f)
	return jitcode.FileID{Dev: id.Dev, Inode: id.Inode, Size: id.Size, MTime: id.MTime}, err
}
