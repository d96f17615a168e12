package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
)

// Unwinder is the program that walks through the frames of a language runtime, on its way into the kernel. The verifier takes up to a
// second for each: sampling begins without them.
type Unwinder struct {
	entry   runtimes.Entry
	loader  *loader
	options Options
	variant Variant
	guesses bool
	maps    map[string]*ebpf.Map // the same as the Kernel's; own descriptors
	program *ebpf.Program
}

// NewUnwinder prepares to load a runtime's. Close must follow.
func (k *Kernel) NewUnwinder(entry runtimes.Entry) (*Unwinder, error) {
	u := &Unwinder{
		entry: entry, loader: k.loader, options: k.options, variant: k.variant, guesses: k.guesses, maps: map[string]*ebpf.Map{},
	}
	for name, m := range k.maps {
		if strings.HasPrefix(name, ".") {
			continue // constants: it has its own
		}
		same, err := m.Clone()
		if err != nil {
			u.Close()
			return nil, fmt.Errorf("loading the unwinder for %s: %w", entry.FrameType, err)
		}
		u.maps[name] = same
	}
	return u, nil
}

// Load verifies the program. Any goroutine may call it.
func (u *Unwinder) Load() error {
	name := firstProgram + "_" + u.entry.Name
	spec, err := u.loader.readPrograms(u.options, u.variant, u.guesses, name)
	if err != nil {
		return err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: u.maps})
	if err != nil {
		return fmt.Errorf("loading the unwinder for %s: %w", u.entry.FrameType, explain(err))
	}
	u.program = c.DetachProgram(name)
	c.Close()
	return nil
}

// Close lets go of what was not given to a Kernel.
func (u *Unwinder) Close() error {
	var errs []error
	for _, m := range u.maps {
		errs = append(errs, m.Close())
	}
	clear(u.maps)
	if u.program != nil {
		errs = append(errs, u.program.Close())
	}
	return errors.Join(errs...)
}

// Add makes walks go through a runtime's frames from now on. It takes the program of u.
func (k *Kernel) Add(u *Unwinder) error {
	place := uint32(abi.LoopWalkProgramWALK_RUNTIME) + uint32(u.entry.ID)
	if err := k.maps["walk_programs"].Put(place, u.program); err != nil {
		return fmt.Errorf("adding the unwinder for %s: %w", u.entry.FrameType, err)
	}
	k.programs[firstProgram+"_"+u.entry.Name] = u.program
	u.program = nil
	k.Processes.walked = append(k.Processes.walked, u.entry.Name)
	return nil
}

// Walks tells whether the unwinder of a language runtime, by its name in bpf/runtimes.h, is there.
func (p *Processes) Walks(runtime string) bool { return slices.Contains(p.walked, runtime) }
