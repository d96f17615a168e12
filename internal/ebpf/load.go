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

// load takes what the verifier takes: of each variant all of it, or all but the search for callers.
func (l *loader) load(log *zap.Logger, o Options) (*Kernel, error) {
	variants, err := l.variants(o)
	if err != nil {
		return nil, err
	}
	for i, v := range variants {
		var k *Kernel
		if k, err = l.loadVariant(log, o, v, true); !rejects(err) {
			return k, err
		}
		if without, withoutErr := l.loadVariant(log, o, v, false); withoutErr == nil {
			log.Warn("the kernel's verifier refuses the search for callers of code without unwind information: stacks go on there only"+
				" where the frame pointer tells", zap.Error(err))
			return without, nil
		}
		if i+1 < len(variants) {
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
func walkPrograms(guesses bool) map[abi.LoopWalkProgram]string {
	if !guesses {
		return map[abi.LoopWalkProgram]string{abi.LoopWalkProgramWALK_ON: "on_cpu_next", abi.LoopWalkProgramWALK_GUESS: "on_cpu_by_fp"}
	}
	return map[abi.LoopWalkProgram]string{
		abi.LoopWalkProgramWALK_ON: "on_cpu_next", abi.LoopWalkProgramWALK_GUESS: "on_cpu_guess", abi.LoopWalkProgramWALK_SEARCH: "on_cpu_search",
	}
}

// trim takes out of a variant what is not to be loaded: what guesses, or what stands in for it.
func trim(spec *ebpf.CollectionSpec, v Variant, guesses bool) error {
	if v == VariantTail {
		used := slices.Collect(maps.Values(walkPrograms(guesses)))
		for name, p := range spec.Programs {
			if name != "on_cpu" && !slices.Contains(used, name) {
				p.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()} // nothing calls it
			}
		}
		return nil
	}
	if guesses {
		return nil
	}
	for _, p := range spec.Programs {
		p.Instructions = withoutFunction(p.Instructions, "guess_step")
	}
	if err := spec.Variables["guesses"].Set(uint32(0)); err != nil {
		return fmt.Errorf("leaving guesses out: %w", err)
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

func (l *loader) loadVariant(log *zap.Logger, o Options, v Variant, guesses bool) (*Kernel, error) {
	spec, err := l.read(v)
	if err != nil {
		return nil, err
	}
	if err := trim(spec, v, guesses); err != nil {
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
	if err := k.open(inner, o, guesses); err != nil {
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
