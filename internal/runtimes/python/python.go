// Package python is the plug-in for CPython: what BPF has to know of it, and its code objects.
//
// Glossary, in CPython's words: the interpreter's loop, _PyEval_EvalFrameDefault, evaluates frames. A thread has a thread state,
// which leads to the innermost frame; frames are linked to their callers. A frame has a code object, which has the name, the
// file, and a table of lines.
package python

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Runtime recognises CPython by the symbols that it has for extension modules.
type Runtime struct{}

// ID implements runtimes.Runtime.
func (Runtime) ID() unwind.Runtime { return unwind.RuntimePython }

// image is CPython in an executable.
type image struct {
	version version
	unsure  bool // it is newer than what is known, or not finished: layouts changed up to release candidates
	free    bool // built to run without the GIL
	layout  layout
	code    unwind.FileAddr // PyCode_Type
	loop    []unwind.Extent // the code of the interpreter's loop, or of the handlers that take its place, sorted
	entry   []unwind.Extent // then: the code that calls the first handler, sorted
	thread  variable        // the thread state, from 3.15 on
	current unwind.FileAddr // of pointers to thread states, see layout; 0 if there is none
	key     unwind.FileAddr
	runtime unwind.FileAddr // _PyRuntime; 0 before 3.7
	debug   []byte          // what it says of itself from 3.13 on
	// trampoline is the code that -X perf has a copy of for each function, so that perf can tell them apart; nil if there is none
	trampoline []byte
}

// frameWords is how many words BPF can read of a structure at once.
const frameWords = int(abi.LoopPythonLimitsPYTHON_FRAME_WORDS)

// Version implements runtimes.Image.
func (i *image) Version() string {
	if i.free {
		return i.version.String() + "t"
	}
	return i.version.String()
}

// Bytes implements runtimes.Image.
func (i *image) Bytes() int {
	return int(unsafe.Sizeof(*i)) + len(i.debug) + len(i.trampoline) + (len(i.loop)+len(i.entry))*int(unsafe.Sizeof(unwind.Extent{}))
}

// Detect implements runtimes.Runtime. The symbols that it looks for are there for extension modules, in stripped builds, too.
func (Runtime) Detect(f *elffile.File) (runtimes.Image, error) {
	d, err := elffile.NewDynamic(f)
	if err != nil {
		return nil, runtimes.ErrNotThis // a program without any cannot load extension modules
	}
	s := symbols{d: d}
	code := s.find("PyCode_Type")
	if code == nil {
		return nil, runtimes.ErrNotThis // nor does a damaged file hold it as far as anybody knows
	}
	i := &image{code: code.Value}
	loop, runtime := s.find("_PyEval_EvalFrameDefault"), s.find("_PyRuntime")
	if loop == nil && s.find("PyString_Type") != nil {
		loop = s.find("PyEval_EvalFrameEx") // 2.7
	}
	if s.err != nil || loop == nil || loop.Type != elf.STT_FUNC {
		return nil, cmp.Or(s.err, error(runtimes.ErrNotThis))
	}
	var finished bool
	if i.version, finished, err = s.version(f, runtime != nil); err != nil {
		return nil, err
	}
	i.unsure = i.version.major == 3 && i.version.minor > newest || !finished && i.version.minor >= 13
	var table []byte
	if runtime != nil {
		if table, i.free, err = readDebugOffsets(f, runtime.Value); err != nil && i.version.minor >= 13 {
			return nil, fmt.Errorf("CPython %s has %w: %w", i.version, err, runtimes.ErrUnsupported)
		}
	}
	var ok bool
	if i.layout, ok = layoutOf(i.version, i.free); !ok {
		return nil, fmt.Errorf("CPython %s: %w", i.Version(), runtimes.ErrUnsupported)
	}
	if table != nil {
		i.runtime, i.debug = runtime.Value, table
		err = i.layout.apply(table, i.version.minor)
	} else {
		err = i.layout.fits()
	}
	if err == nil {
		err = i.findThread(f, &s, runtime)
	}
	if err == nil {
		i.loop, err = findLoop(f, loop)
	}
	if err == nil && i.version.major == 3 && i.version.minor >= 14 {
		if handlers, err := findHandlers(f, i.loop); err == nil && len(handlers) > 0 { // other builds do without
			i.loop, i.entry = handlers, i.loop
		}
	}
	if err == nil {
		i.trampoline, err = readTrampoline(f, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("CPython %s: %w", i.Version(), err)
	}
	return i, nil
}

// symbols finds dynamic symbols until one cannot be looked up.
type symbols struct {
	d   *elffile.Dynamic
	err error
}

func (s *symbols) find(name string) *elffile.Symbol {
	if s.err != nil {
		return nil
	}
	symbol, ok, err := s.d.Lookup(name)
	if err != nil || !ok {
		s.err = err
		return nil
	}
	return &symbol
}

// version is said by Py_Version from 3.11 on. Before that, every version has brought functions with it: "New in version" of Doc/c-api.
// finished tells whether it is at least a release candidate: PY_RELEASE_LEVEL of Include/patchlevel.h.
func (s *symbols) version(f *elffile.File, runtime bool) (v version, finished bool, err error) {
	if v := s.find("Py_Version"); v != nil {
		var b [8]byte
		if err := f.ReadAddr(b[:], v.Value); err != nil {
			return version{}, false, fmt.Errorf("reading the version of CPython: %w", err)
		}
		const candidate = 0xc
		hex := binary.LittleEndian.Uint64(b[:])
		return version{int(hex >> 24 & 0xff), int(hex >> 16 & 0xff)}, hex>>4&0xf >= candidate, s.err
	}
	if !runtime {
		if s.find("PyString_Type") != nil {
			return version{2, 7}, true, s.err
		}
		return version{3, 6}, true, s.err
	}
	for _, added := range []struct {
		minor  int
		symbol string
	}{{10, "Py_NewRef"}, {9, "PyFrame_GetCode"}, {8, "PyCode_NewWithPosOnlyArgs"}} {
		if s.find(added.symbol) != nil {
			return version{3, added.minor}, true, s.err
		}
	}
	return version{3, 7}, true, s.err
}

// findThread finds what leads to a thread's state. It has to be right for threads that do not have the GIL, too.
func (i *image) findThread(f *elffile.File, s *symbols, runtime *elffile.Symbol) (err error) {
	get := s.find("PyGILState_GetThisThreadState")
	if runtime == nil {
		current := s.find("_PyThreadState_Current")
		if current == nil {
			return fmt.Errorf("no _PyThreadState_Current: %w", cmp.Or(s.err, error(runtimes.ErrUnsupported)))
		}
		i.current = current.Value
		if i.version.major == 3 && get != nil {
			i.key, _ = argumentOf(f, get) // without it, threads are known that have the GIL
		}
		return s.err
	}
	l := &i.layout
	if l.current != 0 {
		i.current = runtime.Value + unwind.FileAddr(l.current)
	}
	if l.key != 0 {
		i.key = runtime.Value + unwind.FileAddr(l.key)
		return s.err
	}
	if get == nil {
		return fmt.Errorf("no PyGILState_GetThisThreadState: %w", cmp.Or(s.err, error(runtimes.ErrUnsupported)))
	}
	i.thread, err = findVariable(f, get.Value)
	return err
}

// Attach implements runtimes.Image.
func (i *image) Attach(p *runtimes.Process) (runtimes.Instance, error) {
	t := p.Threads
	if t == nil && p.ThreadsUnknown != nil {
		return nil, fmt.Errorf("where the C library keeps what belongs to a thread: %w: %w", p.ThreadsUnknown, runtimes.ErrUnsupported)
	}
	if t == nil {
		return nil, fmt.Errorf("where the C library keeps what belongs to a thread is not known yet: %w", runtimes.ErrNotReady)
	}
	if i.unsure {
		if err := i.checkLive(p.Memory, p.Image.Bias); err != nil {
			return nil, err
		}
	}
	n := &instance{image: i, bias: p.Image.Bias, codes: newCodes()}
	l := &i.layout
	n.proc = &abi.LoopPythonProc{
		Thread: uint8(abi.LoopPythonThreadPYTHON_THREAD_NONE),
		Flags:  uint8(l.flags), Shim: uint8(l.shim), CodeTag: uint8(l.tag), Self: int32(t.Self), StateSelf: uint16(l.state.self),
		StateWords: uint8((max(l.state.self, l.state.frame) + 8) / 8), StateFrame: uint16(l.state.frame),
		CframeFrame: uint16(l.cframe.frame), CframePrevious: uint16(l.cframe.previous),
		FrameBytes: uint16(l.frame.bytes), FrameCode: uint16(l.frame.code), FramePrevious: uint16(l.frame.previous),
		FrameAt: uint16(l.frame.at), FrameOwner: uint16(l.frame.owner), FrameCopy: uint16(l.frame.copy),
		CodeNames: uint16(l.names()), CodeBytes: uint16(l.code.code), CodeCopies: uint16(l.code.copies),
	}
	behind := uint64(0)
	if l.mutexes && t.GNU && p.Arch == unwind.ArchARM64 {
		behind = 16 // pthread_mutex_t has 48 bytes there, 40 elsewhere: sysdeps/aarch64/nptl/bits/pthreadtypes-arch.h of glibc 2.36
	}
	if i.current != 0 {
		n.proc.Current = uint64(i.current) + n.bias
		if i.version.minor >= 7 && i.version.major == 3 {
			n.proc.Current += behind
		}
	}
	switch {
	case i.key != 0:
		n.proc.Key = uint64(i.key) + n.bias
		if l.flags&bareKey == 0 {
			n.proc.Key += behind
			if err := initialized(p.Memory, n.proc.Key); err != nil {
				return nil, err
			}
		}
		n.proc.Thread = uint8(abi.LoopPythonThreadPYTHON_THREAD_KEY)
		n.proc.ThreadOffset, n.proc.BlockBits, n.proc.Stride, n.proc.Value = t.Table, uint8(t.BlockBits), uint8(t.Stride), uint8(t.Value)
	case i.current == 0:
		if err := i.thread.plan(n.proc, p); err != nil {
			return nil, err
		}
	}
	if len(i.entry) > 0 {
		n.proc.Flags |= uint8(abi.LoopPythonFlagPYTHON_TAIL)
	}
	n.add(i.loop, 0)
	n.add(i.entry, 1)
	n.ranges = disjoint(n.ranges)
	return n, nil
}

// add adds code to the ranges. Frames of part 1 are not shown, and are nobody's.
func (n *instance) add(code []unwind.Extent, part uint8) {
	for _, x := range code {
		n.ranges = append(n.ranges, runtimes.Range{
			Start: unwind.Addr(uint64(x.Start) + n.bias), End: unwind.Addr(uint64(x.End) + n.bias), Part: part,
		})
	}
}

// disjoint sorts ranges, and cuts what lies in two of them off the later one.
func disjoint(all []runtimes.Range) (out []runtimes.Range) {
	slices.SortFunc(all, func(a, b runtimes.Range) int { return cmp.Compare(a.Start, b.Start) })
	end := unwind.Addr(0)
	for _, r := range all {
		if r.Start = max(r.Start, end); r.Start < r.End {
			out = append(out, r)
			end = r.End
		}
	}
	return out
}

// initialized looks at the Py_tss_t where the key for thread states should be: an int that says whether it was made, and the key
// (Include/pythread.h). ErrNotReady if the interpreter has not made it yet.
func initialized(mem unwind.Memory, at uint64) error {
	var b [8]byte
	if err := mem.Read(unwind.Addr(at), b[:]); err != nil {
		return err
	}
	made, key := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[4:])
	switch {
	case made > 1 || made == 1 && key >= uint32(abi.LoopPythonLimitsPYTHON_MAX_KEY):
		return fmt.Errorf("the key for thread states is not where it should be: %w", runtimes.ErrUnsupported)
	case made == 0:
		return fmt.Errorf("the interpreter is being started: %w", runtimes.ErrNotReady)
	}
	return nil
}

// instance is CPython in a process.
type instance struct {
	image  *image
	bias   uint64
	proc   *abi.LoopPythonProc
	ranges []runtimes.Range
	codes  *codes
}

// Symbolize implements runtimes.Instance.
func (n *instance) Symbolize(mem unwind.Memory, dst []unwind.Line, f unwind.RawFrame) ([]unwind.Line, error) {
	key := codeKey{unwind.Addr(f.A), uint32(f.B)}
	c, ok := n.codes.Get(key)
	if !ok {
		var err error
		if c, err = n.readCode(mem, key); err != nil {
			return dst, fmt.Errorf("code object at %#x: %w", f.A, err)
		}
		n.codes.Add(key, c)
	}
	if c.hidden {
		return dst, nil
	}
	p := n.image.layout.lines.find(c.lines, c.firstLine, int(int32(f.B>>32)))
	return append(dst, unwind.Line{
		Function: unwind.Function{Name: c.name, File: c.file, StartLine: c.firstLine}, Line: p.Line, Column: p.Column,
	}), nil
}

// Bytes implements runtimes.Instance.
func (n *instance) Bytes() int { return n.codes.Bytes() + n.codes.Len()*keptBytes }
