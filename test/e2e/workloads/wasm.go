package workloads

import "slices"

// Threeway returns a WebAssembly module whose export rounds, of type (i32) -> i32, burns 60/30/10 % of its CPU in hotSixty,
// hotThirty and hotTen, which it reaches through callSixty, callThirty and callTen. Its argument is how often each of its ten
// calls goes round. The binary format is that of the WebAssembly specification 2.0, chapter 5.
func Threeway() []byte {
	names := []string{"hotSixty", "hotThirty", "hotTen", "callSixty", "callThirty", "callTen", "rounds"}
	const calls, rounds = 3, 6 // indexes of functions
	var bodies [][]byte
	for range calls {
		bodies = append(bodies, burn())
	}
	for i := range byte(calls) {
		// return hot(n) + 1
		bodies = append(bodies, []byte{0, localGet, 0, call, i, i32Const, 1, i32Add, end})
	}
	body := []byte{0, i32Const, 0}
	for _, which := range []byte{0, 1, 0, 0, 1, 0, 2, 0, 1, 0} {
		body = append(body, localGet, 0, call, calls+which, i32Add)
	}
	bodies = append(bodies, append(body, end))

	types := vector([]byte{0x60, 1, i32, 1, i32})
	functions := []byte{byte(len(bodies))}
	functions = append(functions, make([]byte, len(bodies))...) // all of type 0
	exports := vector(append(name("rounds"), 0, rounds))
	var code [][]byte
	for _, b := range bodies {
		code = append(code, sized(b))
	}
	var named [][]byte
	for i, n := range names {
		named = append(named, append([]byte{byte(i)}, name(n)...))
	}
	functionNames := append([]byte{1}, sized(vector(named...))...)

	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range []struct {
		id   byte
		data []byte
	}{{1, types}, {3, functions}, {7, exports}, {10, vector(code...)}, {0, append(name("name"), functionNames...)}} {
		module = append(module, s.id)
		module = append(module, sized(s.data)...)
	}
	return module
}

// Instructions, and the type of 32-bit integers.
const (
	block, loop, brIf, br, end       = 0x02, 0x03, 0x0d, 0x0c, 0x0b
	call, localGet, localSet         = 0x10, 0x20, 0x21
	i32Const, i32GeU, i32Add, i32Mul = 0x41, 0x4f, 0x6a, 0x6c
	empty, i32                       = 0x40, 0x7f
)

// burn is the body of a function: x = n; for (i = 0; i < n; i++) x = x * 1664525 + 1013904223; return x.
func burn() []byte {
	return slices.Concat(
		[]byte{1, 2, i32}, // locals x and i: 1 and 2
		[]byte{localGet, 0, localSet, 1, block, empty, loop, empty},
		[]byte{localGet, 2, localGet, 0, i32GeU, brIf, 1},
		[]byte{localGet, 1, i32Const}, signed(1664525), []byte{i32Mul, i32Const}, signed(1013904223), []byte{i32Add, localSet, 1},
		[]byte{localGet, 2, i32Const, 1, i32Add, localSet, 2, br, 0, end, end, localGet, 1, end},
	)
}

// signed encodes a number as signed LEB128.
func signed(v int32) []byte {
	for b := []byte(nil); ; v >>= 7 {
		if v>>6 == 0 || v>>6 == -1 {
			return append(b, byte(v&0x7f))
		}
		b = append(b, byte(v&0x7f|0x80))
	}
}

// unsigned encodes a number as unsigned LEB128.
func unsigned(v int) (b []byte) {
	for ; v > 0x7f; v >>= 7 {
		b = append(b, byte(v&0x7f|0x80))
	}
	return append(b, byte(v))
}

func sized(b []byte) []byte { return append(unsigned(len(b)), b...) }

func name(s string) []byte { return sized([]byte(s)) }

func vector(elements ...[]byte) []byte {
	return append(unsigned(len(elements)), slices.Concat(elements...)...)
}
