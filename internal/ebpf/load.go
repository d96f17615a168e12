package ebpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
)

// firstProgram is what the samples' events run.
const firstProgram = "on_cpu"

// Load verifies and loads the programs and creates the maps. The unwinders of language runtimes come later: see Unwinder.
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

const (
	// guessFunction is what is left out of VariantLoop where the verifier refuses the guesses, together with what only that calls.
	guessFunction = "guess_step"
	noGuesses     = "the kernel's verifier refuses the search for callers of code without unwind information: stacks go on there only" +
		" where the frame pointer tells"
)

// load takes what the verifier takes: of each variant all of it, or all but the guesses.
func (l *loader) load(log *zap.Logger, o Options) (*Kernel, error) {
	variants, err := l.variants(o)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i++ { // there is one at least
		v := variants[i]
		k, first := l.loadVariant(log, o, v, true)
		if !rejects(first) {
			return k, first
		}
		k, err := l.loadVariant(log, o, v, false)
		if err == nil {
			log.Warn(noGuesses, zap.Error(first))
		}
		if !rejects(err) {
			return k, err
		}
		if i+1 == len(variants) {
			return nil, first
		}
		log.Warn("the kernel rejected the newer variant of the walk; trying the other", zap.Error(first))
	}
}

// rejects tells whether an error is a verdict of the verifier's.
func rejects(err error) bool {
	var rejected *ebpf.VerifierError
	return errors.As(err, &rejected) && !errors.Is(err, unix.EPERM)
}

// walkPrograms are the programs after the first that a variant begins with, by their place. Those that guess are large: for a kernel
// whose verifier refuses them there is one that only follows frame pointers.
func walkPrograms(v Variant, guesses bool) map[uint32]string {
	switch {
	case v == VariantLoop:
		return nil
	case guesses:
		return map[uint32]string{
			uint32(abi.LoopWalkProgramWALK_ON): "on_cpu_next", uint32(abi.LoopWalkProgramWALK_GUESS): "on_cpu_guess",
			uint32(abi.LoopWalkProgramWALK_SEARCH): "on_cpu_search",
		}
	}
	return map[uint32]string{
		uint32(abi.LoopWalkProgramWALK_ON): "on_cpu_next", uint32(abi.LoopWalkProgramWALK_GUESS): "on_cpu_by_fp",
	}
}

// readPrograms decodes a variant's object for some of its programs.
func (l *loader) readPrograms(o Options, v Variant, guesses bool, programs ...string) (*ebpf.CollectionSpec, error) {
	spec, err := l.read(v)
	if err != nil {
		return nil, err
	}
	if err := resize(spec, o); err != nil {
		return nil, err
	}
	if v == VariantLoop && !guesses {
		if err := spec.Variables["guesses"].Set(uint32(0)); err != nil {
			return nil, fmt.Errorf("leaving guesses out: %w", err)
		}
		for _, p := range spec.Programs {
			p.Instructions = withoutFunction(p.Instructions, guessFunction)
		}
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(programs, name) })
	return spec, fixVariables(spec)
}

// fixVariables writes the values of global variables into their sections, and lets go of the variables: the library would map them into
// memory, until the garbage collector finds them unused, and as long the kernel keeps them.
func fixVariables(spec *ebpf.CollectionSpec) error {
	for name, v := range spec.Variables {
		section := spec.Maps[v.SectionName]
		if section == nil || len(section.Contents) != 1 {
			return fmt.Errorf("setting %s: its section has no contents", name)
		}
		data, ok := section.Contents[0].Value.([]byte)
		if !ok || uint64(v.Offset)+uint64(len(v.Value)) > uint64(len(data)) {
			return fmt.Errorf("setting %s: its section has another form", name)
		}
		data = slices.Clone(data) // the object's
		copy(data[v.Offset:], v.Value)
		section.Contents[0].Value = data
	}
	spec.Variables = nil
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
	more := walkPrograms(v, guesses)
	spec, err := l.readPrograms(o, v, guesses, append(slices.Collect(maps.Values(more)), firstProgram)...)
	if err != nil {
		return nil, err
	}
	inner := spec.Maps["slabs"].InnerMap.Copy()
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, explain(err)
	}
	k := &Kernel{log: log, loader: l, options: o, variant: v, guesses: guesses, maps: c.Maps, programs: c.Programs, onCPU: c.Programs[firstProgram]}
	if err := k.open(inner, o, more); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
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
