package layout

import (
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// constants returns the values of a file's constants by the names of their types and their own.
func constants(t *testing.T, paths ...string) map[string]map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// Constants need no imports: that some are missing does not matter.
	config := types.Config{Error: func(error) {}, Importer: importer.Default()}
	pkg, _ := config.Check("p", fset, files, nil)
	out := map[string]map[string]int64{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			continue
		}
		of := "" // no type
		if named, ok := c.Type().(*types.Named); ok {
			of = named.Obj().Name()
		}
		if c.Val().Kind() != constant.Int {
			continue
		}
		v, ok := constant.Int64Val(c.Val())
		if !ok {
			t.Fatalf("%s has no value", name)
		}
		if out[of] == nil {
			out[of] = map[string]int64{}
		}
		out[of][name] = v
	}
	return out
}

// plain is a name as C and Go have in common: CFA_GO_SWITCH and CFAGoSwitch are the same.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// TestEnums compares what package unwind declares with bpf/abi.h, name by name.
func TestEnums(t *testing.T) {
	// bpf2go prefixes names with that of the object and of the enum.
	c := constants(t, "../../ebpf/abi/loop_x86_bpfel.go")
	arm := constants(t, "../../ebpf/abi/loop_arm64_bpfel.go")
	g := constants(t, "../rule.go", "../sample.go", "../addr.go")
	for _, tt := range []struct {
		enum, typ string
		onlyC     []string // not part of what Go has a type for
		onlyGo    []string
	}{
		{enum: "LoopCfaKind", typ: "CFAKind"},
		{enum: "LoopRaKind", typ: "RAKind"},
		{enum: "LoopCfaNote", typ: "CFANote"},
		{enum: "LoopSaveKind", typ: "SaveKind"},
		{enum: "LoopStopReason", typ: "StopReason", onlyGo: []string{"stopreasons"}}, // the count
		{enum: "LoopRuntime", typ: "Runtime"},
		{enum: "LoopFrameWord", typ: "FrameFlags", onlyC: []string{"frameaddrbits", "frameflagbits"}},
	} {
		inC, inGo := map[string]int64{}, map[string]int64{}
		for name, v := range c[tt.enum] {
			if arm[tt.enum][name] != v {
				t.Errorf("%s is %d on amd64, %d on arm64", name, v, arm[tt.enum][name])
			}
			inC[plain(strings.TrimPrefix(name, tt.enum))] = v
		}
		for name, v := range g[tt.typ] {
			inGo[plain(name)] = v
		}
		for _, name := range tt.onlyC {
			delete(inC, name)
		}
		for _, name := range tt.onlyGo {
			delete(inGo, name)
		}
		if len(inC) < 2 {
			t.Errorf("%s has %d constants", tt.enum, len(inC))
		}
		for name, v := range inC {
			if other, ok := inGo[name]; !ok || other != v {
				t.Errorf("%s is %d in bpf/abi.h, %d (%v) in package unwind", name, v, other, ok)
			}
		}
		for name := range inGo {
			if _, ok := inC[name]; !ok {
				t.Errorf("%s of unwind.%s is not in bpf/abi.h's %s", name, tt.typ, tt.enum)
			}
		}
	}
}

// TestLimits compares how far guesses go, and what a stack is copied in.
func TestLimits(t *testing.T) {
	inGo := constants(t, "../rule.go", "../sample.go", "../addr.go")[""]
	for _, file := range []string{"loop_x86", "loop_arm64"} {
		n := 0
		for name, v := range constants(t, "../../ebpf/abi/"+file+"_bpfel.go")["LoopLimits"] {
			name = plain(strings.TrimPrefix(name, "LoopLimits"))
			if !strings.HasPrefix(name, "guess") && name != "copychunk" && name != "copychunks" {
				continue
			}
			n++
			for other, w := range inGo {
				if plain(other) == name && v != w {
					t.Errorf("%s is %d in bpf/abi.h, %d in package unwind", other, v, w)
				}
				if plain(other) == name {
					n--
				}
			}
		}
		if n != 0 {
			t.Errorf("%s: %d limits are not in package unwind", file, n)
		}
	}
}
