package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

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

// refreshKernelSymbols looks for new modules and BPF programs if some address had no name.
func (e *Engine) refreshKernelSymbols(now time.Time) {
	since := now.Sub(e.kernelRead)
	if e.kernelMisses && since > kernelReload || e.kernelHidden && since > 10*kernelReload {
		e.readKernelSymbols()
	}
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
