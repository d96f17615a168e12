// Package hotspot is the plug-in for HotSpot, the Java virtual machine of OpenJDK: what BPF has to know of it, and its methods.
//
// Glossary, in HotSpot's words: a Method has a ConstMethod, which holds its bytecodes and the table of their lines, and leads to the
// ConstantPool of its class, where names are. The index of a bytecode in them is a bci. The code cache consists of heaps, these of blocks;
// in a block is a CodeBlob: an nmethod, which is a method's compiled code, or a stub. An nmethod has PcDescs, which lead from an
// offset in its code to a scope: a method and a bci, and the scope that it was inlined into, its sender.
//
// The virtual machine says itself what lies where, for debuggers: in tables that it exports, vmStructs.
package hotspot

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Runtime recognises HotSpot by the tables that it exports.
type Runtime struct{}

// ID implements runtimes.Runtime.
func (Runtime) ID() unwind.Runtime { return unwind.RuntimeHotspot }

// image is HotSpot in an executable: libjvm.so, or a launcher that it is linked into.
type image struct{ at [variables]unwind.FileAddr }

// Version implements runtimes.Image. Which one it is the virtual machine says when it runs, and errors do.
func (*image) Version() string { return "HotSpot" }

// Bytes implements runtimes.Image.
func (i *image) Bytes() int { return int(unsafe.Sizeof(*i)) }

// Detect implements runtimes.Runtime. The symbols are there for debuggers, in stripped builds, too.
func (Runtime) Detect(f *elffile.File) (runtimes.Image, error) {
	d, err := elffile.NewDynamic(f)
	if err != nil {
		return nil, runtimes.ErrNotThis
	}
	i := &image{}
	for n, name := range variableNames() {
		s, ok, err := d.Lookup(name)
		if err != nil {
			return nil, err
		}
		if !ok && n == 0 {
			return nil, runtimes.ErrNotThis
		}
		if !ok {
			return nil, fmt.Errorf("HotSpot without %s: %w", name, runtimes.ErrUnsupported)
		}
		i.at[n] = s.Value
	}
	return i, nil
}

// Attach implements runtimes.Image.
func (i *image) Attach(p *runtimes.Process) (runtimes.Instance, error) {
	v, err := readVM(p.Memory, i.at, p.Image.Bias)
	if err != nil {
		return nil, err
	}
	l, err := v.layout()
	if err != nil {
		return nil, err
	}
	n := &instance{layout: l, arch: p.Arch, methods: newMethods()}
	if err := n.look(p.Memory); err != nil {
		return nil, err
	}
	return n, nil
}

// What virtual threads need comes into being a little later than the rest, and not every virtual machine makes it: it is looked for again after
// a pause, each twice as long as the one before.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 16 * firstPause
)

// instance is HotSpot in a process.
type instance struct {
	layout  *layout
	arch    unwind.Arch
	proc    *abi.LoopHotspotProc
	ranges  []runtimes.Range
	whole   bool      // nothing more will be found out
	last    time.Time // look into the process
	pause   time.Duration
	methods *methods
}

// look finds out what BPF has to know.
func (n *instance) look(mem unwind.Memory) error {
	c, err := n.layout.readCache(mem)
	if err != nil {
		return err
	}
	proc, err := n.layout.plan(c, n.arch)
	if err != nil {
		return err
	}
	n.last = time.Now()
	n.pause = max(firstPause, 2*n.pause)
	n.whole = !n.layout.virtualThreads || proc.BarrierHigh != 0 || n.pause > lastPause
	if n.proc != nil && *proc == *n.proc {
		return nil
	}
	n.proc, n.ranges = proc, nil
	for _, h := range c.heaps {
		n.ranges = append(n.ranges, runtimes.Range{Start: h.low, End: h.high})
	}
	return nil
}

// Plan implements runtimes.Instance.
func (n *instance) Plan(mem unwind.Memory, _ []runtimes.Mapping) (runtimes.Plan, error) {
	if !n.whole && time.Since(n.last) >= n.pause {
		if err := n.look(mem); err != nil {
			return runtimes.Plan{}, err
		}
	}
	plan := runtimes.Plan{Proc: n.proc, Ranges: n.ranges, Fixed: n.whole}
	if !n.whole {
		plan.Again = n.pause
	}
	return plan, nil
}

// Kinds of frames, and where the first word has them.
const (
	addrBits   = uint(abi.LoopHotspotLimitsHOTSPOT_ADDR_BITS)
	methodBits = uint(abi.LoopHotspotLimitsHOTSPOT_METHOD_BITS)
	noBCI      = int(abi.LoopHotspotLimitsHOTSPOT_NO_BCI)
	kindLeaf   = uint64(abi.LoopHotspotKindHOTSPOT_LEAF)
)

// Symbolize implements runtimes.Instance.
func (n *instance) Symbolize(mem unwind.Memory, dst []unwind.Line, f unwind.RawFrame) ([]unwind.Line, error) {
	at, kind := unwind.Addr(f.A&(1<<addrBits-1)), f.A>>addrBits
	switch abi.LoopHotspotKind(kind &^ kindLeaf) {
	case abi.LoopHotspotKindHOTSPOT_COMPILED:
		return n.compiled(mem, dst, place{at, uint32(f.B >> 32), uint32(f.B), kind&kindLeaf != 0})
	case abi.LoopHotspotKindHOTSPOT_INTERPRETED:
		cm, bci := unwind.Addr(f.B&(1<<methodBits-1)), int(f.B>>methodBits)
		m, err := n.method(mem, at, cm)
		if err != nil {
			return dst, fmt.Errorf("method at %#x: %w", uint64(at), err)
		}
		return append(dst, m.line(bci)), nil
	case abi.LoopHotspotKindHOTSPOT_STUB:
		name, err := readName(mem, unwind.Addr(f.B))
		if err != nil {
			return dst, fmt.Errorf("stub at %#x: %w", uint64(at), err)
		}
		return append(dst, unwind.Line{Function: unwind.Function{Name: name}}), nil
	}
	return dst, fmt.Errorf("a frame of the kind %d: %w", kind, runtimes.ErrStale)
}

// Bytes implements runtimes.Instance.
func (n *instance) Bytes() int { return n.methods.Bytes() + n.methods.Len()*methodBytes }
