package ebpf

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Load verifies and loads the programs and creates the maps.
func Load(log *zap.Logger, o Options) (*Kernel, error) {
	// Needed before 5.11 only; later kernels charge maps to the memory cgroup. Failing is not an error there.
	if err := rlimit.RemoveMemlock(); err != nil {
		log.Debug("raising the memlock limit", zap.Error(err))
	}
	l := loader{read: readSpec, haveLoop: func() error { return features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop) }}
	return l.load(log, o)
}

// loader has what loading depends on.
type loader struct {
	read     func(Variant) (*ebpf.CollectionSpec, error)
	haveLoop func() error // nil if the kernel has bpf_loop, ebpf.ErrNotSupported if not
}

// variants are those that the kernel may take, the better one first.
func (l *loader) variants(o Options) ([]Variant, error) {
	if o.Variant != VariantAuto {
		return []Variant{o.Variant}, nil
	}
	// bpf_loop and bpf_task_pt_regs came with 5.17 and 5.15
	err := l.haveLoop()
	if errors.Is(err, ebpf.ErrNotSupported) {
		return []Variant{VariantTail}, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	return []Variant{VariantLoop, VariantTail}, nil
}

// part is something that can be left out of the programs, if the verifier refuses it: the rest does without.
type part struct {
	function string            // VariantLoop: the function that is it, together with what only that calls
	programs map[uint32]string // VariantTail: the programs that are it, by their places in walk_programs
	runtime  string            // in bpf/runtimes.h; empty for the guesses
	warning  string
}

const guessFunction = "guess_step"

func parts() []part {
	out := []part{{
		function: guessFunction,
		programs: map[uint32]string{
			uint32(abi.LoopWalkProgramWALK_GUESS): "on_cpu_guess", uint32(abi.LoopWalkProgramWALK_SEARCH): "on_cpu_search",
		},
		warning: "the kernel's verifier refuses the search for callers of code without unwind information: stacks go on there only" +
			" where the frame pointer tells",
	}}
	for _, r := range runtimes.All() {
		if r.Walked && r.ID != unwind.RuntimeNative {
			out = append(out, part{
				function: r.Name + "_step", runtime: r.Name,
				programs: map[uint32]string{uint32(abi.LoopWalkProgramWALK_PROGRAMS) + uint32(r.ID): "on_cpu_" + r.Name},
				warning:  "the kernel's verifier refuses the unwinder for " + r.FrameType + ": its interpreter or generated code is shown instead",
			})
		}
	}
	return out
}

// load takes what the verifier takes: of each variant all of it, or all but one part, or no part at all.
func (l *loader) load(log *zap.Logger, o Options) (*Kernel, error) {
	variants, err := l.variants(o)
	if err != nil {
		return nil, err
	}
	all := parts()
	tries := [][]part{nil}
	for i := range all {
		tries = append(tries, all[i:i+1])
	}
	tries = append(tries, all)
	for i, v := range variants {
		var first error
		for _, without := range tries {
			var k *Kernel
			k, err = l.loadVariant(log, o, v, without)
			if !rejects(err) {
				for _, p := range without {
					if err == nil {
						log.Warn(p.warning, zap.Error(first))
					}
				}
				return k, err
			}
			if first == nil {
				first = err
			}
		}
		if err = first; i+1 < len(variants) {
			log.Warn("the kernel rejected the newer variant of the walk; trying the other", zap.Error(err))
		}
	}
	return nil, err
}

// rejects tells whether an error is a verdict of the verifier's.
func rejects(err error) bool {
	var rejected *ebpf.VerifierError
	return errors.As(err, &rejected) && !errors.Is(err, unix.EPERM)
}

// walkPrograms are the tail variant's programs after the first, by their place. Those that guess are large: for a kernel whose
// verifier refuses them there is one that only follows frame pointers.
func walkPrograms(without []part) map[uint32]string {
	programs := map[uint32]string{uint32(abi.LoopWalkProgramWALK_ON): "on_cpu_next"}
	for _, p := range parts() {
		maps.Copy(programs, p.programs)
	}
	for _, p := range without {
		for place := range p.programs {
			delete(programs, place)
		}
		if p.function == guessFunction {
			programs[uint32(abi.LoopWalkProgramWALK_GUESS)] = "on_cpu_by_fp"
		}
	}
	return programs
}

// trim takes out of a variant what is not to be loaded, and what stands in for parts that are.
func trim(spec *ebpf.CollectionSpec, v Variant, without []part) error {
	if v == VariantTail {
		used := slices.Collect(maps.Values(walkPrograms(without)))
		for name, p := range spec.Programs {
			if name != "on_cpu" && !slices.Contains(used, name) {
				p.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()} // nothing calls it
			}
		}
		return nil
	}
	for _, leave := range without {
		for _, p := range spec.Programs {
			p.Instructions = withoutFunction(p.Instructions, leave.function)
		}
		if leave.function == guessFunction {
			if err := spec.Variables["guesses"].Set(uint32(0)); err != nil {
				return fmt.Errorf("leaving guesses out: %w", err)
			}
		}
	}
	return nil
}

// withoutFunction takes a function out of a program whose calls of it are never reached, and all that only it calls: verifiers before
// 6.8 look at global functions that nothing calls.
func withoutFunction(program asm.Instructions, name string) asm.Instructions {
	functions, current := map[string]asm.Instructions{}, ""
	var order []string
	for _, ins := range program {
		if s := ins.Symbol(); s != "" {
			current, order = s, append(order, s)
		}
		if ins.IsFunctionCall() && ins.Reference() == name {
			ins = asm.Mov.Imm(asm.R0, 0).WithSource(ins.Source())
		}
		functions[current] = append(functions[current], ins)
	}
	kept := map[string]bool{}
	var keep func(string)
	keep = func(f string) {
		if kept[f] {
			return
		}
		kept[f] = true
		for _, ins := range functions[f] {
			if _, ok := functions[ins.Reference()]; ok && ins.IsFunctionReference() {
				keep(ins.Reference())
			}
		}
	}
	keep(order[0])
	var out asm.Instructions
	for _, f := range order {
		if kept[f] {
			out = append(out, functions[f]...)
		}
	}
	return out
}

func (l *loader) loadVariant(log *zap.Logger, o Options, v Variant, without []part) (*Kernel, error) {
	spec, err := l.read(v)
	if err != nil {
		return nil, err
	}
	if err := trim(spec, v, without); err != nil {
		return nil, err
	}
	if err := resize(spec, o); err != nil {
		return nil, err
	}
	inner := spec.Maps["slabs"].InnerMap.Copy()
	objects := newObjects(v)
	if err := spec.LoadAndAssign(objects, nil); err != nil {
		return nil, explain(err)
	}
	k := &Kernel{log: log, variant: v, maps: map[string]*ebpf.Map{}, programs: map[string]*ebpf.Program{}}
	k.assign(reflect.ValueOf(objects).Elem())
	if err := k.open(inner, o, without); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// newObjects holds a variant's programs and maps. Its global variables are left out: the library maps those that are asked
// for into memory, until the garbage collector finds them unused, and as long the kernel keeps them.
func newObjects(v Variant) any {
	if v == VariantLoop {
		return &struct {
			abi.LoopPrograms
			abi.LoopMaps
		}{}
	}
	return &struct {
		abi.TailPrograms
		abi.TailMaps
	}{}
}

// assign takes programs and maps out of a struct that bpf2go has generated; their names in C are its fields' tags.
func (k *Kernel) assign(objects reflect.Value) {
	for i := range objects.NumField() {
		name := objects.Type().Field(i).Tag.Get("ebpf")
		switch o := objects.Field(i).Interface().(type) {
		case *ebpf.Map:
			k.maps[name] = o
		case *ebpf.Program:
			k.programs[name] = o
			if name == "on_cpu" {
				k.onCPU = o
			}
		default:
			k.assign(objects.Field(i))
		}
	}
}

// readSpec decodes a variant's object.
func readSpec(v Variant) (spec *ebpf.CollectionSpec, err error) {
	if v == VariantLoop {
		spec, err = abi.LoadLoop()
	} else {
		spec, err = abi.LoadTail()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object: %w", err)
	}
	return spec, nil
}
