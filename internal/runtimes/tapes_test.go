package runtimes_test

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/libc"
	"github.com/hostprofiles/hostprofiles/internal/runtimes/registry"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

const tapes = "../../testdata/tapes/runtimes"

// runtimeTape is a thread that runs a program in some language, at one moment: what the plug-in and BPF read of the runtime's file and of
// the process, and the frames that come out.
type runtimeTape struct {
	About         string
	Runtime       unwind.Runtime
	Version       string // of the Image
	Arch          unwind.Arch
	Registers     unwind.Registers
	ThreadPointer unwind.Addr
	Mappings      []tapeMapping // executable ones, sorted
	Threads       *libc.Threads
	FileSize      int64
	File, Memory  []tape.Range // of the file, addresses are offsets
	Frames        []tapeFrame
}

type tapeMapping struct {
	unwind.Mapping
	Anonymous, Image bool // as runtimes.Mapping has them
	Table            *unwind.Table
}

type tapeFrame struct {
	unwind.RawFrame
	Lines []string // of the runtime's: name, file, line, column, the function's line
}

// lined is how many of the runtime's frames have lines in a tape: callers further out are its own start, and large sources.
func (r *runtimeTape) lined() int {
	if r.Runtime == unwind.RuntimeV8 {
		return 6
	}
	return 8
}

// maxFrames of a tape.
const maxFrames = 256

// startHosts starts both variants of the C code for an architecture.
func startHosts(t *testing.T, arch unwind.Arch) (h []*hostbpf.Host) {
	t.Helper()
	for _, v := range hostbpf.Variants() {
		host, err := hostbpf.Start(arch, v)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, host.Close()) })
		require.NoError(t, host.Constant("max_frames", maxFrames))
		h = append(h, host)
	}
	return h
}

// replay finds the frames, by the file and the memory; both variants have to find the same.
func (r *runtimeTape) replay(h []*hostbpf.Host, file io.ReaderAt, mem unwind.Memory) (out []tapeFrame, err error) {
	instance, err := r.attach(file, mem)
	if err != nil {
		return nil, err
	}
	raw, err := r.walk(h, instance, mem)
	if err != nil {
		return nil, err
	}
	done := 0
	for _, f := range raw {
		frame := tapeFrame{RawFrame: f}
		if f.Runtime == r.Runtime && done < r.lined() {
			done++
			lines, err := instance.Symbolize(mem, nil, f)
			if err != nil {
				return nil, fmt.Errorf("naming a frame: %w", err)
			}
			for _, l := range lines {
				frame.Lines = append(frame.Lines, fmt.Sprintf("%s %s:%d:%d from %d", l.Function.Name, filepath.Base(l.Function.File), l.Line, l.Column,
					l.Function.StartLine))
			}
		}
		out = append(out, frame)
	}
	return out, nil
}

// attach finds the runtime in the file and in the process.
func (r *runtimeTape) attach(file io.ReaderAt, mem unwind.Memory) (runtimes.Instance, error) {
	f, err := elffile.New(file, r.FileSize)
	if err != nil {
		return nil, err
	}
	all := registry.Plugins()
	image, err := all[slices.IndexFunc(all, func(p runtimes.Runtime) bool { return p.ID() == r.Runtime })].Detect(f)
	if err != nil {
		return nil, err
	}
	r.Version = image.Version()
	at := slices.IndexFunc(r.Mappings, func(m tapeMapping) bool { return m.Image })
	return image.Attach(&runtimes.Process{Arch: r.Arch, Memory: mem, Image: r.Mappings[at].Mapping, Threads: r.Threads})
}

// walk returns the frames that BPF finds.
func (r *runtimeTape) walk(h []*hostbpf.Host, instance runtimes.Instance, mem unwind.Memory) (raw []unwind.RawFrame, err error) {
	var mappings []runtimes.Mapping
	for _, m := range r.Mappings {
		mappings = append(mappings, runtimes.Mapping{Mapping: m.Mapping, Anonymous: m.Anonymous, Image: m.Image})
	}
	plan, err := instance.Plan(mem, mappings)
	if err != nil {
		return nil, err
	}
	pieces := r.pieces(plan.Ranges)
	sent := unwind.Memory(tape.Frugal{Memory: mem})
	if whole, ok := mem.(*tape.Memory); ok {
		sent = whole // at once
	}
	for n, host := range h {
		if err := host.Load(pieces); err != nil {
			return nil, err
		}
		switch p := plan.Proc.(type) {
		case *abi.LoopPythonProc:
			err = host.Python(p)
		case *abi.LoopHotspotProc:
			err = host.Hotspot(p)
		case *abi.LoopV8Proc:
			err = host.V8(p)
		default:
			err = fmt.Errorf("there is no way to tell BPF of a %T", p)
		}
		if err != nil {
			return nil, err
		}
		taken, err := host.Take(&hostbpf.Sample{Registers: r.Registers, ThreadPointer: r.ThreadPointer}, sent)
		switch {
		case err != nil:
			return nil, err
		case taken.FailedLine != 0:
			return nil, fmt.Errorf("frames of the runtime are missing, by line %d", taken.FailedLine)
		case n > 0 && !slices.Equal(raw, taken.Frames):
			return nil, fmt.Errorf("the variants differ: %v and %v", raw, taken.Frames)
		}
		raw = taken.Frames
	}
	return raw, nil
}

// pieces are the mappings, cut where the runtime's ranges begin and end.
func (r *runtimeTape) pieces(ranges []runtimes.Range) (out []tape.Mapping) {
	for _, m := range r.Mappings {
		for _, piece := range runtimes.Cut(m.Mapping, ranges) {
			part := tape.Mapping{Mapping: piece.Mapping, Table: m.Table, NoTable: m.Table == nil, Part: piece.Part}
			if piece.Owned {
				part.Runtime = r.Runtime
			}
			out = append(out, part)
		}
	}
	return out
}

func memoryOf(ranges []tape.Range) *tape.Memory {
	m := &tape.Memory{}
	for _, r := range ranges {
		m.Add(r.Addr, r.Bytes)
	}
	return m
}

// fileOf reads a file of which parts are known.
type fileOf struct{ known *tape.Memory }

// ReadAt implements io.ReaderAt.
func (f fileOf) ReadAt(b []byte, at int64) (int, error) {
	if err := f.known.Read(unwind.Addr(at), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func readTape(path string) (*runtimeTape, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r := &runtimeTape{}
	return r, gob.NewDecoder(z).Decode(r)
}

// TestTapes has every version's plug-in and the C code find again what was found in a live process.
func TestTapes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(tapes, "*.tape.gz"))
	require.NoError(t, err)
	count := map[string]int{}
	for _, path := range paths {
		name, _, _ := strings.Cut(filepath.Base(path), "-")
		count[name]++
	}
	require.Equal(t, map[string]int{"java": 21, "node": 22, "python": 17}, count)
	hosts := map[unwind.Arch][]*hostbpf.Host{}
	all := t // whose hosts they are
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := readTape(path)
			require.NoError(t, err)
			if hosts[r.Arch] == nil {
				hosts[r.Arch] = startHosts(all, r.Arch)
			}
			version := r.Version
			frames, err := r.replay(hosts[r.Arch], fileOf{memoryOf(r.File)}, memoryOf(r.Memory))
			require.NoError(t, err)
			require.Equal(t, r.Frames, frames)
			require.Equal(t, version, r.Version)
		})
	}
}
