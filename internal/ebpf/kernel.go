// Package ebpf loads the profiler's programs and maps into the kernel, attaches them, and reads what comes back. It is
// the only package that makes bpf(2) and perf_event_open(2) calls.
package ebpf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"reflect"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
)

var errTooBig = unix.E2BIG

// minTableBytes is what the executables of a small host take.
const minTableBytes = 4 << 20

// Variant is one of the two builds of the walk, see bpf/core/drive.h.
type Variant uint8

// The variants; VariantAuto takes VariantLoop where the kernel has bpf_loop.
const (
	VariantAuto Variant = iota
	VariantLoop
	VariantTail
)

// String names the variant.
func (v Variant) String() string {
	switch v {
	case VariantLoop:
		return "loop"
	case VariantTail:
		return "tail calls"
	}
	return "auto"
}

// Options sizes what lives in the kernel.
type Options struct {
	Variant     Variant
	MaxFrames   int
	MemoryBytes int // bound of all maps together
	// For benchmarks: samples carry how long they took; the kernel's part of stacks is left out.
	Measure, NoKernelStacks bool
	PIDNamespace            uint32 // inode of the collector's pid namespace if that isn't the initial one
}

// Kernel is what is loaded. Close removes all of it; so does the end of the process.
type Kernel struct {
	log       *zap.Logger
	variant   Variant
	onCPU     *ebpf.Program
	maps      map[string]*ebpf.Map
	programs  map[string]*ebpf.Program // by their names in C
	counters  []counters
	reader    *ringbuf.Reader
	record    ringbuf.Record // reused
	Tables    *Tables
	Processes *Processes
	fixed     int // bytes of maps that don't grow

	withoutGuesses bool // see withoutGuesses
}

// Load verifies and loads the programs and creates the maps.
func Load(log *zap.Logger, o Options) (*Kernel, error) {
	// Needed before 5.11 only; later kernels charge maps to the memory cgroup. Failing is not an error there.
	if err := rlimit.RemoveMemlock(); err != nil {
		log.Debug("raising the memlock limit", zap.Error(err))
	}
	k, err := load(log, o, false)
	if o.Variant == VariantAuto && rejects(err) {
		log.Warn("the kernel rejected the newer variant of the walk; trying the other", zap.Error(err))
		o.Variant = VariantTail
		k, err = load(log, o, false)
	}
	if rejects(err) {
		if without, withoutErr := load(log, o, true); withoutErr == nil {
			log.Warn("the kernel's verifier refuses the search for callers of code without unwind information: only the simplest of"+
				" its frames are passed, and stacks end there", zap.Error(err))
			return without, nil
		}
	}
	return k, err
}

// rejects tells whether an error is a verdict of the verifier's.
func rejects(err error) bool {
	var rejected *ebpf.VerifierError
	return errors.As(err, &rejected) && !errors.Is(err, unix.EPERM)
}

// walkPrograms are the tail variant's programs after the first, by their place. Those that guess are large: a kernel whose
// verifier refuses them does without.
func walkPrograms() []string {
	return []string{
		abi.LoopWalkProgramWALK_ON: "on_cpu_next", abi.LoopWalkProgramWALK_GUESS: "on_cpu_guess", abi.LoopWalkProgramWALK_SEARCH: "on_cpu_search",
	}
}

// withoutGuesses puts programs that do nothing, and that nothing calls, in the place of those that guess; false if there are none.
func withoutGuesses(spec *ebpf.CollectionSpec) (some bool) {
	for _, name := range walkPrograms()[1:] {
		if p := spec.Programs[name]; p != nil {
			some = true
			p.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		}
	}
	return some
}

func load(log *zap.Logger, o Options, noGuesses bool) (*Kernel, error) {
	spec, variant, err := loadSpec(o.Variant)
	if err != nil {
		return nil, err
	}
	if noGuesses && !withoutGuesses(spec) {
		return nil, fmt.Errorf("%w: there is nothing to leave out", errors.ErrUnsupported)
	}
	if err := resize(spec, o); err != nil {
		return nil, err
	}
	inner := spec.Maps["slabs"].InnerMap.Copy()
	objects := newObjects(variant)
	if err := spec.LoadAndAssign(objects, nil); err != nil {
		return nil, explain(err)
	}
	k := &Kernel{log: log, variant: variant, maps: map[string]*ebpf.Map{}, programs: map[string]*ebpf.Program{},
		withoutGuesses: noGuesses}
	k.assign(reflect.ValueOf(objects).Elem())
	if err := k.open(inner, o); err != nil {
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

func loadSpec(v Variant) (*ebpf.CollectionSpec, Variant, error) {
	if v == VariantAuto {
		v = VariantLoop
		// bpf_loop and bpf_task_pt_regs came with 5.17 and 5.15
		if err := features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop); err != nil {
			if !errors.Is(err, ebpf.ErrNotSupported) {
				return nil, v, explain(err)
			}
			v = VariantTail
		}
	}
	var spec *ebpf.CollectionSpec
	var err error
	if v == VariantLoop {
		spec, err = abi.LoadLoop()
	} else {
		spec, err = abi.LoadTail()
	}
	if err != nil {
		return nil, v, fmt.Errorf("reading the BPF object: %w", err)
	}
	return spec, v, nil
}

// resize sets what C leaves to user space: map sizes by CPUs and budget, and constants.
func resize(spec *ebpf.CollectionSpec, o Options) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting CPUs: %w", err)
	}
	spec.Maps["scratches"].MaxEntries = uint32(cpus)
	spec.Maps["cpu_counters"].MaxEntries = uint32(cpus)
	ring := ringBytes(cpus, o.MemoryBytes)
	spec.Maps["ring"].MaxEntries = uint32(ring)
	// a mapping is 56 bytes, a process some 110 with the hash's own share
	spec.Maps["mappings"].MaxEntries = uint32(max(4096, o.MemoryBytes/64/64))
	spec.Maps["processes"].MaxEntries = uint32(max(1024, o.MemoryBytes/128/128))
	flag := func(on bool) uint32 {
		if on {
			return 1
		}
		return 0
	}
	for name, value := range map[string]uint32{
		"measure_duration": flag(o.Measure),
		"kernel_stacks":    flag(!o.NoKernelStacks),
		"max_frames":       uint32(o.MaxFrames),
		"ring_wake_bytes":  uint32(ring / 16),
		"ring_copy_bytes":  uint32(ring / 2),
		"pid_ns_inode":     o.PIDNamespace,
		// THREAD_SIZE: asm/page_64_types.h on x86 and asm/memory.h on arm64, Linux 5.10 (without KASAN)
		"kernel_stack_bytes": uint32(max(16384, kernelStackPages*unix.Getpagesize())),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// ringBytes is a power of two: 2 MiB a CPU, within an eighth of the budget.
func ringBytes(cpus, budget int) int {
	want := max(1<<18, min(cpus<<21, budget/8))
	return 1 << (bits.Len(uint(want)) - 1)
}

func (k *Kernel) open(inner *ebpf.MapSpec, o Options) (err error) {
	if k.counters, err = arrayMemory[counters](k.maps["cpu_counters"]); err != nil {
		return err
	}
	if k.reader, err = ringbuf.NewReader(k.maps["ring"]); err != nil {
		return fmt.Errorf("opening the sample ring: %w", err)
	}
	if k.Processes, err = newProcesses(k.maps["processes"], k.maps["mappings"]); err != nil {
		return err
	}
	for name, m := range k.maps {
		if name != "slabs" {
			k.fixed += mapBytes(m)
		}
	}
	forTables := o.MemoryBytes - k.fixed
	if forTables < minTableBytes {
		return fmt.Errorf("%w: of the memory budget's half for the kernel, %d KiB are left for unwind tables on this host with its"+
			" many CPUs, and %d KiB are needed: raise limits.memory_mib", errors.ErrUnsupported, forTables>>10, minTableBytes>>10)
	}
	if k.Tables, err = newTables(k.maps["slabs"], inner, k.maps["rules"], forTables); err != nil {
		return err
	}
	if next, ok := k.maps["walk_programs"]; ok {
		for place, name := range walkPrograms() {
			if k.withoutGuesses && name != "on_cpu_next" {
				continue
			}
			if err := next.Put(uint32(place), k.programs[name]); err != nil {
				return fmt.Errorf("chaining the walk's programs: %w", err)
			}
		}
	}
	return nil
}

// mapBytes estimates a map's kernel memory.
func mapBytes(m *ebpf.Map) int {
	if info, err := m.Info(); err == nil {
		if n, ok := info.Memlock(); ok && n > 0 {
			return int(n)
		}
	}
	return int(m.MaxEntries()) * int(m.KeySize()+m.ValueSize())
}

// explain makes the error of a refused load say what to do.
func explain(err error) error {
	var ve *ebpf.VerifierError
	switch {
	case errors.As(err, &ve) && !errors.Is(ve.Cause, unix.EPERM): // that is no verdict of the verifier's
		return &rejectedError{ve}
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return fmt.Errorf("loading BPF programs needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN): %w", err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: this kernel lacks something that is needed (5.10 or newer, with BTF): %w", errors.ErrUnsupported, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: this kernel has no BTF (CONFIG_DEBUG_INFO_BTF): %w", errors.ErrUnsupported, err)
	}
	return fmt.Errorf("loading BPF programs: %w", err)
}

// rejectedError says that the verifier did not take a program. The system call's EACCES or EINVAL is not part of it: no
// privilege is missing.
type rejectedError struct{ cause *ebpf.VerifierError }

func (e *rejectedError) Error() string {
	return fmt.Sprintf("the kernel's verifier rejected a program: %v", e.cause)
}

// Is tells that waiting does not help.
func (e *rejectedError) Is(target error) bool { return target == errors.ErrUnsupported }

// As gives the verifier's log.
func (e *rejectedError) As(target any) bool {
	if t, ok := target.(**ebpf.VerifierError); ok {
		*t = e.cause
		return true
	}
	return false
}

// Variant tells which build of the walk runs.
func (k *Kernel) Variant() Variant { return k.variant }

// Counts returns the sampling events that a program ran for, and those whose record found no room in the ring.
func (k *Kernel) Counts() (taken, lostRing uint64) {
	for i := range k.counters {
		t, l := loadCounters(&k.counters[i])
		taken += t
		lostRing += l
	}
	return taken, lostRing
}

// RingBytes is the sample ring's capacity; RingFill how much of it is in use.
func (k *Kernel) RingBytes() int { return k.reader.BufferSize() }

// RingFill is how many bytes of the sample ring wait to be read.
func (k *Kernel) RingFill() int { return k.reader.AvailableBytes() }

// RingFD can be polled, edge-triggered: it becomes readable when the ring is a sixteenth full.
func (k *Kernel) RingFD() int { return k.maps["ring"].FD() }

// MapBytes is the kernel memory of all maps.
func (k *Kernel) MapBytes() int { return k.fixed + k.Tables.Bytes() }

// Close takes everything out of the kernel. Perf events must be closed before.
func (k *Kernel) Close() error {
	var errs []error
	if k.reader != nil {
		errs = append(errs, k.reader.Close())
	}
	if k.Tables != nil {
		k.Tables.close()
	}
	if k.Processes != nil {
		k.Processes.close()
	}
	unmapArray(k.counters)
	k.counters = nil
	for _, p := range k.programs {
		errs = append(errs, p.Close())
	}
	for _, m := range k.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
