package v8

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// Programs that have V8 without its constants for debuggers have functions for addons of Node's, and V8's version as a text, which ends
// with the name of who has embedded it: Deno by its Rust package, Electron.
const (
	addonSymbol     = "napi_create_function"
	rustVersion     = "-rusty\x00"
	electronVersion = "-electron."
	versionBytes    = 24 // more than the numbers of a version take
)

// embedderSymbols tells of V8 in another program than Node.js.
func embedderSymbols(f *elffile.File, d *elffile.Dynamic) (*symbols, error) {
	if _, ok, err := d.Lookup(addonSymbol); err != nil || !ok {
		return nil, cmp.Or(err, error(runtimes.ErrNotThis))
	}
	v, rust, err := embeddedVersion(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for V8's version: %w", err)
	case v == (version{}):
		return nil, runtimes.ErrNotThis // Bun, for one, has another engine
	case !rust:
		return nil, fmt.Errorf("V8 %s of Electron, with compressed pointers: %w", v, runtimes.ErrUnsupported)
	}
	c := rustConstants(v)
	if c == nil {
		return nil, fmt.Errorf("V8 %s without constants for debuggers: %w", v, runtimes.ErrUnsupported)
	}
	return &symbols{constants: c, embedder: v}, nil
}

// embeddedVersion finds the text; zero if there is none.
func embeddedVersion(f *elffile.File) (v version, rust bool, err error) {
	finder := blobFinder{file: f, scanned: maxScanned, compared: maxCompared}
	err = finder.scan(constantSection, versionBytes+len(electronVersion), func(_ unwind.FileAddr, b []byte) bool {
		for _, suffix := range []string{rustVersion, electronVersion} {
			for from := 0; v == (version{}); {
				i := bytes.Index(b[from:], []byte(suffix))
				if i < 0 {
					break
				}
				v = parseVersion(b[max(0, from+i-versionBytes) : from+i])
				rust = v != (version{}) && suffix == rustVersion
				from += i + 1
			}
		}
		return v == (version{})
	})
	return v, rust, err
}

// parseVersion reads the first two of the four numbers that a text ends with; zero if it does not.
func parseVersion(b []byte) (v version) {
	b = b[len(bytes.TrimRight(b, "0123456789.")):]
	var n [4]int
	parts := bytes.Split(b, []byte("."))
	if len(parts) != len(n) {
		return version{}
	}
	for i, part := range parts {
		var err error
		if n[i], err = strconv.Atoi(string(part)); err != nil || len(part) > 5 {
			return version{}
		}
	}
	return version{n[0], n[1]}
}

// rustConstants are those that Deno's builds would have; nil for a version that nobody has looked at. 15.0: objects of Deno 2.9.6 on amd64.
func rustConstants(v version) constants {
	if v != (version{15, 0}) {
		return nil
	}
	c := constants{"TaggedSize": 8, "FirstNonstringType": 128}
	for name, instance := range map[string]int{
		"DebugInfo": 153, "Script": 166,
		"UncompiledDataWithPreparseData": 174, "UncompiledDataWithPreparseDataAndJob": 175,
		"UncompiledDataWithoutPreparseData": 176, "UncompiledDataWithoutPreparseDataWithJob": 177,
		"BytecodeArray": 185, "Code": 186, "InterpreterData": 187, "InstructionStream": 192, "ProtectedFixedArray": 193,
		"SharedFunctionInfoWrapper": 195, "TrustedByteArray": 196, "TrustedFixedArray": 197, "TrustedWeakFixedArray": 199,
		"ScopeInfo": 276, "SharedFunctionInfo": 278,
	} {
		c["type_"+name+"__"] = instance
	}
	for name, frame := range map[string]int{"IrregexpFrame": 23, "WasmFrame": 24, "WasmToJsFrame": 25, "JsToWasmFrame": 26} { // src/execution/frames.h
		c["frametype_"+name] = frame
	}
	return c
}
