package v8

import (
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// layout is where a version has things. Offsets are in bytes, from an object's untagged address; those of a frame count down from its
// frame pointer. The constants for debuggers lack many of them, so they only correct the table.
type layout struct {
	functionShared int // in a JSFunction
	frame          struct{ array, offset int }
	shared         struct{ data, name, script, token int }
	bytecode       struct{ header, positions int }
	header         int  // before the instructions, of the object that holds them
	stream         bool // that is an InstructionStream, which leads to the Code behind its map; otherwise it is the Code
	align          uint64
	code           struct{ start, size, flags, deopt, positions int }
	kindShift      int
	kindMask       uint32
	kinds          map[uint32]codeKind
	deopt          struct{ literals, shared, positions int }
	wrapped        bool // deopt.shared leads to a SharedFunctionInfoWrapper
	scope          scopeLayout
	firstString    int  // instance types from this one on are no strings'
	plainLengths   bool // arrays' lengths are 32 bits, not Smis: src/objects/fixed-array.h
	firstOffset    int  // at which tables of positions begin
	encodings      []positionEncoding
}

// scopeLayout is how ScopeInfos are laid out, which are words one behind the other.
type scopeLayout struct {
	first     int  // offset of the first, the flags
	positions bool // the fourth and fifth are the start and the end
	modules   bool // a module has a word more
	hash      bool // many names are in a table: one word
	class     bool // a word if bit 10 of the flags is set
	receiver  bool // a word if bits 7 and 8 say so
	variable  int  // lowest of two bits of the flags: two words
	types     map[int]bool
	module    int
}

type codeKind uint8

const (
	kindUnknown codeKind = iota
	kindRegExp
	kindWasm
	kindWasmToJS
	kindJSToWasm
	kindInterpreted
	kindBaseline
	kindOptimized
)

// CodeKind of src/objects/code-kind.h, and Code::Kind of src/objects/code.h before.
var (
	kinds7  = map[uint32]codeKind{0: kindOptimized, 4: kindRegExp}
	kinds9  = map[uint32]codeKind{3: kindRegExp, 4: kindWasm, 6: kindWasmToJS, 7: kindJSToWasm, 10: kindInterpreted, 11: kindBaseline, 12: kindOptimized, 13: kindOptimized}
	kinds12 = map[uint32]codeKind{3: kindRegExp, 4: kindWasm, 6: kindWasmToJS, 7: kindJSToWasm, 9: kindInterpreted, 10: kindBaseline, 11: kindOptimized, 12: kindOptimized}
	kinds14 = map[uint32]codeKind{4: kindRegExp, 5: kindWasm, 7: kindWasmToJS, 8: kindJSToWasm, 10: kindInterpreted, 11: kindBaseline, 12: kindOptimized, 13: kindOptimized}
)

// oldest is the first major version that is known; those that are newer than the table are taken for its newest.
const oldest = 7

// layoutOf returns the layout of a version, from the sources of V8 7.8, 8.7, 10.2, 11.3, 12.4 and 15.0 and from Node's binaries of those
// in between.
func layoutOf(v version, arch unwind.Arch, c constants) (*layout, error) {
	if v.major < oldest {
		return nil, runtimes.ErrUnsupported
	}
	if size, ok := c["TaggedSize"]; ok && size != 8 {
		return nil, fmt.Errorf("compressed pointers: %w", runtimes.ErrUnsupported)
	}
	l := base()
	for _, change := range []struct {
		major int
		apply func(*layout)
	}{{8, to8}, {9, to9}, {10, to10}, {11, to11}, {12, to12}, {13, to13}, {14, to14}, {15, to15}} {
		if v.major >= change.major {
			change.apply(&l)
		}
	}
	if arch != unwind.ArchAMD64 {
		l.align = 32 // kCodeAlignment of src/common/globals.h
		if v.major == 10 {
			l.header = 96 // kHeaderPaddingSize of src/objects/code.h, 10.2, is 24, and 56 on amd64
		}
	}
	l.correct(c)
	if l.functionShared <= 0 || l.functionShared > 256 || l.shared.name <= 0 || l.shared.name > 256 || l.shared.script != l.shared.name+16 {
		return nil, fmt.Errorf("functions that look like no known version's: %w", runtimes.ErrUnsupported)
	}
	return &l, nil
}

// base is 7.8.
func base() (l layout) {
	l.functionShared = 24
	l.frame.array, l.frame.offset = 24, 32
	l.shared.data, l.shared.name, l.shared.script, l.shared.token = 8, 16, 32, 46
	l.bytecode.header, l.bytecode.positions = 54, 32
	l.header, l.align = 64, 32
	l.code.size, l.code.flags, l.code.deopt, l.code.positions = 40, 44, 16, 24
	l.kindShift, l.kindMask, l.kinds = 1, 31, kinds7
	l.deopt.literals, l.deopt.shared, l.deopt.positions = 2, 6, 7
	l.scope = scopeLayout{first: 16, receiver: true, variable: 11, module: 2, types: map[int]bool{0: true, 1: true, 2: true, 3: true}}
	l.firstString = 64
	l.encodings = []positionEncoding{signedSteps}
	return l
}

func to8(l *layout) {
	l.shared.token = 44
	l.header = 96
	l.kindMask = 15
	l.scope.module, l.scope.types = 3, map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	l.firstOffset = -1
}

func to9(l *layout) {
	l.frame.array, l.frame.offset = 32, 40
	l.code.flags = 48
	l.kindShift, l.kinds = 0, kinds9
	l.scope.first, l.scope.class, l.scope.variable = 8, true, 12
}

func to10(l *layout) {
	l.bytecode.header = 56
	l.header, l.align = 128, 64
	l.scope.receiver, l.scope.hash = false, true
	l.firstString = 128
}

func to11(l *layout) {
	l.bytecode.header = 54
	l.header, l.stream = 16, true
	l.code.start, l.code.size = 40, 56
}

func to12(l *layout) {
	l.functionShared = 32
	l.bytecode.header, l.bytecode.positions = 64, 24
	l.header = 32
	l.code.size, l.code.deopt, l.code.positions = 52, 8, 16
	l.kinds = kinds12
	l.scope.modules = true
}

func to13(l *layout) {
	l.shared.name, l.shared.script, l.shared.token = 24, 40, 52
	l.code.size, l.code.flags = 56, 52
	l.deopt.literals, l.deopt.shared, l.deopt.positions, l.wrapped = 3, 7, 8, true
	l.scope.positions = true
}

func to14(l *layout) {
	l.kinds = kinds14
	l.encodings = []positionEncoding{flagSteps, absoluteSteps, signedSteps}
}

func to15(l *layout) {
	l.plainLengths = true
	l.encodings = []positionEncoding{absoluteSteps, flagSteps}
}

// correct takes from the constants what they have.
func (l *layout) correct(c constants) {
	for name, to := range map[string]*int{
		"JSFunction__shared":                            &l.functionShared,
		"SharedFunctionInfo__name_or_scope_info":        &l.shared.name,
		"SharedFunctionInfo__script":                    &l.shared.script,
		"SharedFunctionInfo__script_or_debug_info":      &l.shared.script,
		"SharedFunctionInfo__raw_function_token_offset": &l.shared.token,
		"BytecodeArray__data":                           &l.bytecode.header,
		"InstructionStream__instruction_start":          &l.header,
	} {
		if v, ok := c.class(name); ok {
			*to = v
		}
	}
	if v, ok := c.class("Code__instruction_start"); ok {
		if l.stream {
			l.code.start = v
		} else {
			l.header = v
		}
	}
	if v, ok := c["FirstNonstringType"]; ok {
		l.firstString = v
	}
	if a, ok := c["off_fp_bytecode_array"]; ok {
		if o, ok := c["off_fp_bytecode_offset"]; ok && a < -16 && o < -16 && a >= -frameRecord && o >= -frameRecord {
			l.frame.array, l.frame.offset = -a, -o
		}
	}
}

// types are the instance types of objects; they differ in every version.
type types struct {
	shared, scopeInfo, script, bytecodeArray, code, stream, interpreterData, baselineData, debugInfo, wrapper int
	arrays, bytes, uncompiled                                                                                 []int
	// of frames
	irregexp, wasm, wasmToJS, jsToWasm []int
}

// noType is that of no object.
const noType = -1

func typesOf(c constants) (t types, err error) {
	of := func(name string) int {
		if v, ok := c.prefixed("type_" + name + "__"); ok {
			return v
		}
		return noType
	}
	those := func(find func(string) int, names ...string) (out []int) {
		for _, name := range names {
			if v := find(name); v != noType {
				out = append(out, v)
			}
		}
		return out
	}
	frame := func(name string) int {
		if v, ok := c["frametype_"+name]; ok {
			return 2 * v
		}
		return noType
	}
	t = types{
		shared: of("SharedFunctionInfo"), scopeInfo: of("ScopeInfo"), script: of("Script"), bytecodeArray: of("BytecodeArray"), code: of("Code"),
		stream: of("InstructionStream"), interpreterData: of("InterpreterData"), baselineData: of("BaselineData"), debugInfo: of("DebugInfo"),
		wrapper:    of("SharedFunctionInfoWrapper"),
		arrays:     those(of, "FixedArray", "WeakFixedArray", "TrustedFixedArray", "ProtectedFixedArray", "TrustedWeakFixedArray"),
		bytes:      those(of, "ByteArray", "TrustedByteArray"),
		uncompiled: those(of, "UncompiledDataWithoutPreparseData", "UncompiledDataWithPreparseData", "UncompiledDataWithoutPreparseDataWithJob", "UncompiledDataWithPreparseDataAndJob"),
		irregexp:   those(frame, "IrregexpFrame"),
		wasm:       those(frame, "WasmFrame", "WasmCompiledFrame"),
		wasmToJS:   those(frame, "WasmToJsFrame", "WasmToJsFunctionFrame"),
		jsToWasm:   those(frame, "JsToWasmFrame"),
	}
	for _, needed := range []int{t.shared, t.scopeInfo, t.script, t.bytecodeArray, t.code} {
		if needed == noType {
			return t, fmt.Errorf("no instance types: %w", runtimes.ErrUnsupported)
		}
	}
	return t, nil
}

// bytecodeSizes are how many bytes bytecodes have with their operands, by how much these are scaled: kBytecodeSizes of
// src/interpreter/bytecodes.cc.
type bytecodeSizes [3][]uint8

// mostBytecodes bounds how many there are, some 200.
const mostBytecodes = 256

func readBytecodeSizes(f *elffile.File, s *elffile.Symbol) (out bytecodeSizes, err error) {
	if s == nil || s.Size == 0 || s.Size > 3*4*mostBytecodes || s.Size%3 != 0 {
		return out, nil // only baseline code's lines need them
	}
	b := make([]byte, s.Size)
	if err := f.ReadAddr(b, s.Value); err != nil {
		return out, fmt.Errorf("reading the sizes of bytecodes: %w", err)
	}
	if len(b) >= 4*3*100 { // ints, up to 8.4
		for i := range len(b) / 4 {
			b[i] = uint8(binary.LittleEndian.Uint32(b[4*i:]))
		}
		b = b[:len(b)/4]
	}
	n := len(b) / 3
	for i := range out {
		out[i] = b[i*n : (i+1)*n]
	}
	return out, nil
}
