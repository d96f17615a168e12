// Package ebpf loads the profiler's programs and maps into the kernel, attaches them, and reads what comes back. It is
// the only package that makes bpf(2) and perf_event_open(2) calls.
package ebpf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
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
	loader    *loader
	options   Options
	variant   Variant
	guesses   bool // callers of code without unwind information are searched for
	onCPU     *ebpf.Program
	maps      map[string]*ebpf.Map
	programs  map[string]*ebpf.Program // by their names in C
	counters  []counters
	reader    *ringbuf.Reader
	record    ringbuf.Record // reused
	Tables    *Tables
	Processes *Processes
	fixed     int // bytes of maps that don't grow
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
	for name, m := range spec.Maps {
		if strings.HasSuffix(name, runtimeMapSuffix) { // a 256th for each
			m.MaxEntries = uint32(max(256, o.MemoryBytes/256/int(m.ValueSize+64)))
		}
	}
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

// open makes the maps usable; chained are the programs after the first, by their place.
func (k *Kernel) open(inner *ebpf.MapSpec, o Options, chained map[uint32]string) (err error) {
	if k.counters, err = arrayMemory[counters](k.maps["cpu_counters"]); err != nil {
		return err
	}
	if k.reader, err = ringbuf.NewReader(k.maps["ring"]); err != nil {
		return fmt.Errorf("opening the sample ring: %w", err)
	}
	if k.Processes, err = newProcesses(k.maps["processes"], k.maps["mappings"], k.runtimeMaps()); err != nil {
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
	for place, name := range chained {
		if err := k.maps["walk_programs"].Put(place, k.programs[name]); err != nil {
			return fmt.Errorf("chaining the walk's programs: %w", err)
		}
	}
	return nil
}

// runtimeMapSuffix ends the names of the maps that tell of language runtimes in processes, behind the runtime's.
const runtimeMapSuffix = "_procs"

// runtimeMaps are those of the runtimes.
func (k *Kernel) runtimeMaps() map[string]*ebpf.Map {
	out := map[string]*ebpf.Map{}
	for name, m := range k.maps {
		if runtime, ok := strings.CutSuffix(name, runtimeMapSuffix); ok {
			out[runtime] = m
		}
	}
	return out
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
