package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// spoil makes the verifier refuse a function, wherever it is called.
func spoil(spec *ebpf.CollectionSpec, function string) {
	for _, p := range spec.Programs {
		i := slices.IndexFunc(p.Instructions, func(ins asm.Instruction) bool { return ins.Symbol() == function })
		if i >= 0 { // nothing was ever put into the register
			p.Instructions = slices.Insert(p.Instructions, i+1, asm.LoadMem(asm.R0, asm.R9, 0, asm.DWord))
		}
	}
}

// TestFallbacks has kernels that lack bpf_loop, and verifiers that refuse some functions: what can be loaded is, what cannot is not
// tried again, and the log says what is missing.
func TestFallbacks(t *testing.T) {
	needsBPF(t)
	const other = "the kernel rejected the newer variant of the walk; trying the other"
	for _, tt := range []struct {
		name    string
		variant Variant
		old     bool     // no bpf_loop
		spoilt  []string // functions
		loads   []Variant
		got     Variant // the last of loads that was taken
		guesses bool
		logged  []string
		refused bool
	}{
		{name: "a new kernel", loads: []Variant{VariantLoop}, got: VariantLoop, guesses: true},
		{name: "an old kernel that refuses the guesses", old: true, spoilt: []string{"on_cpu_guess"},
			loads: []Variant{VariantTail, VariantTail}, got: VariantTail, logged: []string{noGuesses}},
		{name: "an old kernel that refuses all", old: true, spoilt: []string{"on_cpu_next"},
			loads: []Variant{VariantTail, VariantTail}, refused: true},
		{name: "a new kernel that refuses the guesses", spoilt: []string{"guess_step"},
			loads: []Variant{VariantLoop, VariantLoop}, got: VariantLoop, logged: []string{noGuesses}},
		{name: "or what only they call", spoilt: []string{"grade"},
			loads: []Variant{VariantLoop, VariantLoop}, got: VariantLoop, logged: []string{noGuesses}},
		{name: "or the loop", spoilt: []string{"walk_native"},
			loads: []Variant{VariantLoop, VariantLoop, VariantTail}, got: VariantTail, guesses: true, logged: []string{other}},
		{name: "no other than the loop is wanted", variant: VariantLoop, spoilt: []string{"walk_native"},
			loads: []Variant{VariantLoop, VariantLoop}, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			var loads []Variant
			l := loader{
				read: func(v Variant) (*ebpf.CollectionSpec, error) {
					loads = append(loads, v)
					spec, err := readSpec(v)
					for _, f := range tt.spoilt {
						spoil(spec, f)
					}
					return spec, err
				},
				haveLoop: func() error {
					if tt.old {
						return ebpf.ErrNotSupported
					}
					return nil
				},
			}
			k, err := l.load(zap.New(core), Options{Variant: tt.variant, MaxFrames: 128, MemoryBytes: 64 << 20})
			if !slices.Equal(loads, tt.loads) {
				t.Errorf("loaded %v, want %v", loads, tt.loads)
			}
			var logged []string
			for _, e := range logs.All() {
				logged = append(logged, e.Message)
			}
			if !slices.Equal(logged, tt.logged) {
				t.Errorf("the log says %q, want %q", logged, tt.logged)
			}
			if rejects(err) != tt.refused || (err == nil) == tt.refused {
				t.Fatalf("%+v", err)
			}
			if err != nil {
				return
			}
			defer k.Close()
			if k.Variant() != tt.got {
				t.Errorf("%v is loaded, want %v", k.Variant(), tt.got)
			}
			if tt.got == VariantTail {
				err := k.maps["walk_programs"].Lookup(uint32(abi.LoopWalkProgramWALK_SEARCH), new(uint32))
				if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) || (err == nil) != tt.guesses {
					t.Errorf("the program that searches: %v", err)
				}
			}
		})
	}
}

// TestUnwinders loads the unwinder of each language runtime into kernels of both kinds, with and without guesses. One that the verifier
// refuses is missing alone.
func TestUnwinders(t *testing.T) {
	needsBPF(t)
	for _, v := range []Variant{VariantLoop, VariantTail} {
		for _, guesses := range []bool{true, false} {
			t.Run(fmt.Sprint(v, ", guesses: ", guesses), func(t *testing.T) {
				l := &loader{read: func(v Variant) (*ebpf.CollectionSpec, error) {
					spec, err := readSpec(v)
					spoil(spec, "python_step") // VariantLoop
					spoil(spec, "on_cpu_python")
					return spec, err
				}}
				k, err := l.loadVariant(zap.NewNop(), Options{Variant: v, MaxFrames: 128, MemoryBytes: 64 << 20}, v, guesses)
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				for _, entry := range runtimes.All()[unwind.RuntimePython:] {
					u, err := k.NewUnwinder(entry)
					if err != nil {
						t.Fatal(err)
					}
					err = u.Load()
					if refused := entry.ID == unwind.RuntimePython; rejects(err) != refused || (err == nil) == refused {
						t.Errorf("%s: %v", entry.Name, err)
					}
					err = k.Processes.PutRuntime(ProcessID{PID: 1}, entry.Name, procOf[entry.Name])
					if !errors.Is(err, errors.ErrUnsupported) {
						t.Errorf("%s before there is an unwinder for it: %v", entry.Name, err)
					}
					if u.program != nil {
						if err := k.Add(u); err != nil {
							t.Error(err)
						}
						if err := k.Processes.PutRuntime(ProcessID{PID: 1}, entry.Name, procOf[entry.Name]); err != nil {
							t.Errorf("telling BPF of %s: %v", entry.Name, err)
						}
					}
					if err := u.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

var procOf = map[string]any{"python": &abi.LoopPythonProc{}, "hotspot": &abi.LoopHotspotProc{}, "v8": &abi.LoopV8Proc{}}
