package v8

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Names of code that is no function.
const (
	nameRegExp   = "(regular expression)"
	nameWasm     = "(WebAssembly function)"
	nameWasmToJS = "(WebAssembly to JavaScript)"
	nameJSToWasm = "(JavaScript to WebAssembly)"
)

// frame is what BPF says of one.
type frame struct {
	kind  abi.LoopV8Frame
	at    uint64 // SharedFunctionInfo or pc
	pc    uint64 // 0 of an interpreted one
	exact bool   // pc is no return address
	check uint32
	low   uint32 // the place in the bytecode, or the type
}

func decodeFrame(f unwind.RawFrame) (d frame) {
	kind := f.A >> abi.LoopV8FrameV8FRAME_SHIFT
	d.exact = kind&uint64(abi.LoopV8FrameV8FRAME_EXACT) != 0
	d.kind = abi.LoopV8Frame(kind &^ uint64(abi.LoopV8FrameV8FRAME_EXACT))
	d.at = f.A & (1<<abi.LoopV8FrameV8FRAME_SHIFT - 1)
	d.low, d.check = uint32(f.B), uint32(f.B>>32)
	switch d.kind {
	case abi.LoopV8FrameV8FRAME_FUNCTION:
		d.pc = f.B & (1<<abi.LoopV8FrameV8PC_BITS - 1)
		d.check = uint32(f.B >> abi.LoopV8FrameV8PC_BITS)
	case abi.LoopV8FrameV8FRAME_CODE:
		d.pc = d.at
	}
	return d
}

// lookup is where in the code the frame is: a return address belongs to the call before it.
func (f *frame) lookup() uint64 { return uint64(unwind.LookupAddr(unwind.Addr(f.pc), !f.exact)) }

// Symbolize implements runtimes.Instance.
func (n *instance) Symbolize(mem unwind.Memory, dst []unwind.Line, raw unwind.RawFrame) ([]unwind.Line, error) {
	f := decodeFrame(raw)
	h := n.heap(mem)
	lines := dst
	switch f.kind {
	case abi.LoopV8FrameV8FRAME_INTERPRETED:
		lines = h.interpreted(dst, &f)
	case abi.LoopV8FrameV8FRAME_FUNCTION:
		lines = h.compiled(dst, &f)
	case abi.LoopV8FrameV8FRAME_CODE:
		lines = h.bare(dst, &f)
	default:
		h.stale("kind of frame", f.at)
	}
	if h.err == nil && f.kind != abi.LoopV8FrameV8FRAME_CODE {
		// what was read belongs together only if it is still there
		again := n.heap(mem)
		again.sampledAs(&f)
		h.err = again.err
	}
	if h.err != nil {
		return dst, fmt.Errorf("frame of V8 %s at %#x: %w", n.image.version, f.at, h.err)
	}
	return lines, nil
}

// sampledAs checks that a frame's function, and its code if that is generated, is what it was when it was sampled.
func (h *heap) sampledAs(f *frame) bool {
	o := h.object(f.at, "function", h.n.image.types.shared)
	got, mask := h.sharedCheck(o), ^uint32(0)
	if f.kind == abi.LoopV8FrameV8FRAME_FUNCTION {
		mask = 0xffff
		if _, blob := h.n.builtin(unwind.Addr(f.lookup())); !blob {
			got = h.codeCheck(got, f.pc)
		}
	}
	if h.err == nil && got&mask != f.check {
		h.fail(fmt.Errorf("another function: %w", runtimes.ErrStale))
	}
	return h.err == nil
}

// interpreted is a frame of the interpreter.
func (h *heap) interpreted(dst []unwind.Line, f *frame) []unwind.Line {
	if !h.sampledAs(f) {
		return dst
	}
	g := h.function(f.at)
	if h.err != nil {
		return dst
	}
	at := -1
	if array := h.bytecode(g.data|1, 0); array != 0 && h.err == nil {
		// the interpreter counts from the array's tagged address
		if offset := int(int32(f.low)) - (h.n.image.layout.bytecode.header - 1); offset >= 0 {
			at = h.bytecodePosition(array, offset)
		}
	}
	return append(dst, g.line(at))
}

// compiled is a frame of a function that runs otherwise.
func (h *heap) compiled(dst []unwind.Line, f *frame) []unwind.Line {
	if !h.sampledAs(f) {
		return dst
	}
	g := h.function(f.at)
	if h.err != nil {
		return dst
	}
	if b, blob := h.n.builtin(unwind.Addr(f.lookup())); blob {
		switch {
		case g.script == nil:
			return append(dst, b.line()) // a function that is built in
		case !b.glue() && f.exact:
			return append(dst, b.line(), g.line(-1))
		}
		return append(dst, g.line(-1))
	}
	c := h.findCode(f.lookup())
	switch {
	case c == nil && f.exact: // another compiler's, perhaps, with the frame of its caller
		h.stale("code of the function", f.pc)
		return dst
	case c == nil:
		return append(dst, g.line(-1))
	case c.kind == kindBaseline:
		at := h.baselinePosition(g, c, f)
		if h.err != nil {
			return dst
		}
		return append(dst, g.line(at))
	case c.kind == kindOptimized:
		lines, outer := h.inlined(dst, c, int(f.lookup()-c.start))
		if h.err == nil && outer&^3 != f.at&^3 {
			h.stale("code of the function", f.pc)
		}
		return lines
	case c.name() != "":
		return append(dst, unwind.Line{Function: unwind.Function{Name: c.name()}})
	}
	return append(dst, g.line(-1))
}

// baselinePosition is where in the script a frame of baseline code is; -1 if that is not known.
func (h *heap) baselinePosition(g *function, c *code, f *frame) int {
	l := h.n.image.layout
	own, other := h.bytecode(h.field(c.at, l.code.deopt), 0), h.bytecode(g.data|1, 0)
	if own == 0 && g.dataTyp == h.n.image.types.baselineData && h.field(g.data, 8)&^3 == c.at { // 9.4: src/objects/shared-function-info.tq
		own = other
	}
	if own != 0 && other != 0 && own != other {
		h.stale("code of the function", f.pc)
		return -1
	}
	if own == 0 {
		return -1
	}
	length := smi(h.field(own, 8))
	if h.err != nil || length <= 0 || length > maxTable {
		return -1
	}
	bytecodes := make([]byte, length)
	if err := h.mem.Read(unwind.Addr(own+uint64(l.bytecode.header)), bytecodes); err != nil {
		h.fail(err)
		return -1
	}
	table := h.bytes(h.field(c.at, l.code.positions), "places of bytecodes")
	offset, ok := h.n.image.sizes.bytecodeOf(table, bytecodes, int(f.pc-c.start), f.exact)
	if !ok {
		return -1
	}
	return h.bytecodePosition(own, offset)
}

// bare is a frame of which BPF knows no function: stubs, WebAssembly, regular expressions, and functions before they have a frame.
func (h *heap) bare(dst []unwind.Line, f *frame) []unwind.Line {
	if b, blob := h.n.builtin(unwind.Addr(f.lookup())); blob {
		if b.glue() && !f.exact || b.handler {
			return dst
		}
		return append(dst, b.line())
	}
	if h.codeCheck(0, f.pc) != f.check || h.err != nil {
		h.stale("sampled code", f.pc)
		return dst
	}
	t := &h.n.image.types
	for _, known := range []struct {
		types []int
		name  string
	}{{t.irregexp, nameRegExp}, {t.wasm, nameWasm}, {t.wasmToJS, nameWasmToJS}, {t.jsToWasm, nameJSToWasm}} {
		if marker := int(uint16(f.low)); marker != 0 && slices.Contains(known.types, marker) {
			return append(dst, unwind.Line{Function: unwind.Function{Name: known.name}})
		}
	}
	c := h.findCode(f.lookup())
	switch {
	case c == nil:
		h.stale("code", f.pc)
	case c.kind == kindOptimized:
		dst, _ = h.inlined(dst, c, int(f.lookup()-c.start))
	case c.name() != "":
		return append(dst, unwind.Line{Function: unwind.Function{Name: c.name()}})
	default:
		h.stale("function", f.pc)
	}
	return dst
}

// name is what code is called that is no function's.
func (c *code) name() string {
	switch c.kind {
	case kindRegExp:
		return nameRegExp
	case kindWasm:
		return nameWasm
	case kindWasmToJS:
		return nameWasmToJS
	case kindJSToWasm:
		return nameJSToWasm
	}
	return ""
}

// line is a builtin's: by the name of its symbol, which everybody else shows.
func (b *builtin) line() unwind.Line {
	return unwind.Line{Function: unwind.Function{Name: builtinPrefix + b.name}}
}

// glue tells whether a builtin only leads from one function to another: where it is a caller, it is not shown.
func (b *builtin) glue() bool {
	for _, prefix := range []string{
		"JSEntry", "JSConstructEntry", "JSRunMicrotasksEntry", "CEntry_", "InterpreterEntryTrampoline", "InterpreterPush", "InterpreterEnterAt",
		"JSConstructStub", "JSBuiltinsConstructStub", "ArgumentsAdaptor", "Adaptor", "CallApiCallback", "Baseline", "Construct", "Call", "CompileLazy",
		"InterpreterOnStackReplacement",
	} {
		if strings.HasPrefix(b.name, prefix) {
			return true
		}
	}
	return b.handler
}
