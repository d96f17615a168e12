package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/names"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// kernelFile is what perf calls the kernel's own code.
const kernelFile = "[kernel.kallsyms]"

// kernelReload is how often modules and BPF programs are looked for, if addresses without a name were seen.
const kernelReload = 30 * time.Second

// kernelNames names kernel addresses.
type kernelNames struct {
	kallsyms      *kallsyms.Table
	modules       map[string]*profile.Mapping // by module; "" is the kernel itself; nil has no build id
	kernelMisses  bool
	kernelRead    time.Time
	kernelReading bool
	kernelHidden  bool

	programs      ebpf.Programs
	loadedModules loadedModules
}

// kernelRead is what a worker read.
type kernelRead struct {
	table   *kallsyms.Table
	modules map[string]*profile.Mapping
}

// readKernelSymbols reads or rereads /proc/kallsyms.
func (e *Engine) readKernelSymbols() {
	if e.kernelReading {
		return
	}
	e.kernelReading = true
	e.kernelMisses = false
	old, known := e.kallsyms, e.modules
	e.jobs.submit(aboutSelf(kernelSerial, "kernel symbols"), procTimeout*5,
		func(context.Context) (any, error) { return readKernel(old, known) },
		func(v any, err error) {
			e.kernelReading, e.kernelRead = false, time.Now()
			if errors.Is(err, kallsyms.ErrHidden) {
				if e.kernelHidden {
					return // said already; it may change
				}
				e.kernelHidden = true
				e.log.Warn("kernel addresses are hidden, kernel frames stay unnamed: give the collector CAP_SYSLOG, or set" +
					" kernel.kptr_restrict to 0 or 1")
				return
			}
			if err != nil {
				e.log.Warn("reading kernel symbols", zap.Error(err))
				return
			}
			e.kernelHidden = false
			r := v.(kernelRead)
			e.kallsyms, e.modules = r.table, r.modules
			if old == nil {
				e.giver.made(kernelGarbage)
			}
		})
}

// Keys of jobs that have nothing to do with one executable, whose serials count from 1.
const (
	kernelSerial = 1<<64 - 1 - iota
	giveBackSerial
	trimSerial
)

func readKernel(old *kallsyms.Table, known map[string]*profile.Mapping) (any, error) {
	symbols, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer symbols.Close()
	var modules io.Reader // a kernel without modules has no such file
	if f, err := os.Open("/proc/modules"); err == nil {
		defer f.Close()
		modules = f
	}
	r := kernelRead{modules: map[string]*profile.Mapping{}}
	if old != nil {
		r.table, err = old.Reload(symbols, modules)
	} else {
		r.table, err = kallsyms.Parse(symbols, modules)
	}
	if errors.Is(err, kallsyms.ErrChanged) {
		return readKernel(nil, known) // a kexec or live patch: from scratch
	}
	if err != nil {
		return nil, err
	}
	r.modules[""] = kernelMapping(kernelFile, "/sys/kernel/notes", known[""])
	notes, _ := filepath.Glob("/sys/module/*/notes/.note.gnu.build-id") // the pattern is well formed
	for _, path := range notes {
		name := filepath.Base(filepath.Dir(filepath.Dir(path)))
		r.modules[name] = kernelMapping("["+name+"]", path, known[name])
	}
	return r, nil
}

// kernelMapping describes the kernel or a module; old is what it was, and stays it if nothing changed.
func kernelMapping(name, notes string, old *profile.Mapping) *profile.Mapping {
	m := profile.Mapping{File: name}
	if b, err := os.ReadFile(notes); err == nil {
		m.BuildIDGNU = kallsyms.BuildID(b)
	}
	if old != nil && *old == m {
		return old
	}
	return &m
}

// refreshKernelSymbols reads the kernel's symbols again if modules or BPF programs came or went, whose addresses may be those of
// others before, or if some address had no name.
func (e *Engine) refreshKernelSymbols(now time.Time) {
	since := now.Sub(e.kernelRead)
	modules := e.loadedModules.changed()
	if e.programs.New() {
		e.kernelMisses = true // some tools load programs all the time: they wait their turn
	}
	switch {
	case e.kernelHidden:
		if since > 10*kernelReload {
			e.readKernelSymbols()
		}
	case modules, e.kernelMisses && since > kernelReload:
		e.readKernelSymbols()
	}
}

// loadedModules notices that modules were loaded or removed.
type loadedModules struct {
	path string // of /proc/modules
	last uint64
}

// changed tells whether the modules, or where they lie, are others than at the last call. A kernel without modules never changes.
func (l *loadedModules) changed() bool {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return false
	}
	h := fnv.New64a()
	for line := range strings.Lines(string(text)) {
		// name, size, uses, users, state, address: proc_modules(5); only the first and the last tell of a change
		if f := strings.Fields(line); len(f) >= 6 {
			_, _ = io.WriteString(h, f[0]+" "+f[5]+"\n") // it never fails
		}
	}
	before := l.last
	l.last = h.Sum64()
	return l.last != before
}

// kernelLocation is where a kernel frame lies.
func (e *Engine) kernelLocation(addr uint64) profile.Location {
	l := profile.Location{Type: profile.FrameKernel, Address: addr}
	if e.kallsyms == nil {
		l.Mapping = e.modules[""] // most are the kernel's own
		return l
	}
	module, ok := e.kallsyms.Module(addr)
	if !ok {
		e.kernelMisses = true
		return l
	}
	l.Mapping = e.modules[module]
	return l
}

func (e *Engine) kernelLines(dst []unwind.Line, addr uint64) []unwind.Line {
	if e.kallsyms == nil || !e.cfg.Symbolize {
		return dst
	}
	s, ok := e.kallsyms.Lookup(addr)
	if !ok {
		return dst
	}
	return append(dst, unwind.Line{Function: names.Function(s.Name)})
}
