// Package v8 is the plug-in for V8, as it is in Node.js: what BPF has to know of it, and what functions its frames are of.
//
// Glossary, in V8's words: a function has a SharedFunctionInfo, which has its name, its Script and, once it was called, its bytecode;
// closures of it (JSFunction) share that. Ignition interprets the bytecode; Sparkplug makes baseline code of it, one piece for each
// bytecode; Maglev and TurboFan optimize, and put callees in place of their calls. Builtins are V8's own functions and stubs, compiled
// when V8 was built and embedded into the file: the blob. Objects are referred to by their address + 1 (tagged); a small
// integer (Smi) stands in the upper half of a word. An object's first word is its map, which has its instance type.
//
// Everything is reached from the words on the stack: isolates and contexts are not looked at. The garbage collector moves objects while
// they are read: each hop is checked by the instance type that it leads to, and what cannot be believed is not shown.
package v8

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Runtime recognises V8 by the constants that it has for debuggers.
type Runtime struct{}

// ID implements runtimes.Runtime.
func (Runtime) ID() unwind.Runtime { return unwind.RuntimeV8 }

// image is V8 in an executable.
type image struct {
	version  version
	layout   *layout
	types    types
	sizes    bytecodeSizes
	builtins builtins
	back     unwind.FileAddr // behind the interpreter's only call of a handler
}

// Version implements runtimes.Image.
func (i *image) Version() string { return i.version.String() }

// Bytes implements runtimes.Image.
func (i *image) Bytes() (n int) {
	const imageBytes, builtinBytes = 4096, int(unsafe.Sizeof(builtin{}))
	for j := range i.builtins.sorted {
		n += builtinBytes + len(i.builtins.sorted[j].name)
	}
	return n + imageBytes
}

// Detect implements runtimes.Runtime.
func (Runtime) Detect(f *elffile.File) (runtimes.Image, error) {
	s, err := findSymbols(f)
	if err != nil {
		return nil, err
	}
	i := &image{}
	if i.version, err = s.version(f); err != nil {
		return nil, err
	}
	if i.layout, err = layoutOf(i.version, f.Arch, s.constants); err == nil {
		i.types, err = typesOf(s.constants)
	}
	if err == nil {
		i.sizes, err = readBytecodeSizes(f, s.sizes)
	}
	if err == nil && len(s.builtins) == 0 {
		s.builtins, err = findBuiltins(f, i.version)
	}
	if err == nil {
		i.builtins, err = s.embedded()
	}
	if err == nil {
		i.back, err = i.builtins.interpreterReturn(f)
	}
	if err != nil {
		return nil, fmt.Errorf("V8 %s: %w", i.version, err)
	}
	return i, nil
}

// Attach implements runtimes.Image.
func (i *image) Attach(*runtimes.Process) (runtimes.Instance, error) {
	l := i.layout
	return &instance{
		image: i, scripts: newScripts(),
		proc: &abi.LoopV8Proc{
			CodeHeader: uint8(l.header), CodeAlign: uint8(bits.TrailingZeros64(l.align)),
			InterpreterReturn: uint64(i.back), FunctionShared: uint16(l.functionShared), SharedNames: uint16(l.shared.name),
			ArraySlot: uint8((frameRecord - l.frame.array) / 8), OffsetSlot: uint8((frameRecord - l.frame.offset) / 8),
		},
	}, nil
}

// frameRecord is how many bytes of a frame BPF reads below its frame record.
const frameRecord = 8 * (int(abi.LoopV8LimitsV8SLOTS) - 2)

// instance is V8 in a process.
type instance struct {
	image   *image
	proc    *abi.LoopV8Proc
	blobs   []runtimes.Mapping // that hold builtins
	scripts *scripts
	samples [3]sample // of builtins, as the file has them
	// codeMap is the map of all objects that hold generated code, once one was seen. It is in memory that nothing moves in, and that all
	// isolates of a process share (src/heap/read-only-heap.h).
	codeMap uint64
}

// sample is the beginning of a builtin.
type sample [32]byte

// Outdated tells whether BPF has to be told of something that has turned up since Plan.
func (n *instance) Outdated() bool { return n.proc.CodeMap != n.codeMap }

// Plan implements runtimes.Instance: all anonymous executable memory is V8's. Its builtins are run where the file has them, or where
// V8 has mapped that part of the file once more, to be near its generated code, or where it has copied them to, if it cannot map them
// (CodeRange::RemapEmbeddedBuiltins of src/heap/code-range.cc, 11.3): without /proc, for one.
func (n *instance) Plan(mem unwind.Memory, mappings []runtimes.Mapping) (runtimes.Plan, error) {
	if n.Outdated() {
		proc := *n.proc // the one before is BPF's
		proc.CodeMap = n.codeMap
		n.proc = &proc
	}
	p := runtimes.Plan{Proc: n.proc}
	n.blobs = nil
	original := slices.IndexFunc(mappings, func(m runtimes.Mapping) bool {
		return len(n.image.builtins.sorted) > 0 && m.Image && m.Contains(m.Addr(n.image.builtins.start()))
	})
	for _, m := range mappings {
		switch {
		case m.Anonymous && original >= 0 && n.copied(mem, mappings[original], &m):
			p.Ranges = n.blob(p.Ranges, m, m.Bias)
			if end := m.Addr(n.image.builtins.end); end < m.End {
				p.Ranges = append(p.Ranges, runtimes.Range{Start: end, End: m.End, Part: uint8(abi.LoopV8PartV8GENERATED)})
			}
		case m.Anonymous:
			p.Ranges = append(p.Ranges, runtimes.Range{Start: m.Start, End: m.End, Part: uint8(abi.LoopV8PartV8GENERATED)})
		case m.Image:
			p.Ranges = n.blob(p.Ranges, m, 0)
		}
	}
	return p, nil
}

// blob adds the builtins' code in a mapping to ranges; bias is that of code that the mapping does not know its file of.
func (n *instance) blob(ranges []runtimes.Range, m runtimes.Mapping, bias uint64) []runtimes.Range {
	before := len(ranges)
	for _, r := range n.image.builtins.parts {
		r.Start, r.End = max(m.Addr(unwind.FileAddr(r.Start)), m.Start), min(m.Addr(unwind.FileAddr(r.End)), m.End)
		if r.Start < r.End {
			r.Bias = bias
			ranges = append(ranges, r)
		}
	}
	if len(ranges) > before {
		n.blobs = append(n.blobs, m)
	}
	return ranges
}

// copied tells whether a mapping begins with a copy of the builtins, and sets its bias then.
func (n *instance) copied(mem unwind.Memory, original runtimes.Mapping, m *runtimes.Mapping) bool {
	b := &n.image.builtins
	if m.End-m.Start < unwind.Addr(b.end-b.start()) {
		return false
	}
	bias := uint64(m.Start) - uint64(b.start())
	for i, of := range []builtin{b.sorted[0], b.sorted[len(b.sorted)/2], b.sorted[len(b.sorted)-1]} {
		there := &n.samples[i]
		if *there == (sample{}) && mem.Read(original.Addr(of.start), there[:]) != nil {
			return false
		}
		var here sample
		if mem.Read(unwind.Addr(uint64(of.start)+bias), here[:]) != nil || here != *there {
			return false
		}
	}
	m.Bias = bias
	return true
}

// builtin is the builtin whose code an address is in.
func (n *instance) builtin(pc unwind.Addr) (b *builtin, blob bool) {
	i := slices.IndexFunc(n.blobs, func(m runtimes.Mapping) bool { return m.Contains(pc) })
	if i < 0 {
		return nil, false
	}
	return n.image.builtins.at(n.blobs[i].FileAddr(pc))
}

// Bytes implements runtimes.Instance.
func (n *instance) Bytes() int {
	return n.scripts.Bytes() + len(n.blobs)*int(unsafe.Sizeof(runtimes.Mapping{}))
}
