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
	"golang.org/x/sys/unix"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/profile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/kallsyms"
)

// kernelFile is what perf calls the kernel's own code.
const kernelFile = "[kernel.kallsyms]"

const (
	// kernelReload is how often modules and BPF programs are looked for, if addresses without a name were seen.
	kernelReload = 30 * time.Second
	// kernelRetry is after how long reading the kernel's symbols is tried again that failed.
	kernelRetry = 5 * time.Second
	// kernelTimeout bounds it: the kernel writes the text for some 10 ms, for many seconds on a machine that is emulated or has no
	// CPU left.
	kernelTimeout = 2 * time.Minute
	// kernelShare of a core is what reading them again takes while modules or BPF programs come and go, in the long run; kernelCredit may
	// be used at once, for some dozen times.
	kernelShare  = 0.01
	kernelCredit = 500 * time.Millisecond
)

// kernelNames names kernel addresses.
type kernelNames struct {
	kallsyms        *kallsyms.Table
	kernelInfo      map[string]kernelInfo    // by module; "" is the kernel itself
	kernelObjects   map[string]*kernelObject // those that were sampled
	kernelByMapping map[*profile.Mapping]*kernelObject
	kernelSerials   uint64 // given out

	kernelMissed  map[uint64]struct{}        // pages with addresses that no symbol covers
	kernelUnnamed map[uint64]*unnamedAddress // addresses without a name, for as long as a report may be about them
	kernelMisses  bool                       // there are such addresses, or may be
	kernelNew     bool                       // one was in another page than those before
	kernelChanged bool                       // modules are others than those that were read
	kernelRead    time.Time                  // when it was
	kernelCPU     allowance                  // for doing so again
	kernelReading bool
	kernelOwed    bool     // reports wait for another one, which follows the one that is under way
	kernelOwes    question // of these reports
	kernelHidden  bool

	programs      programs
	programsPoll  uint64 // when they were looked at
	programsStale bool   // some were loaded since the symbols were read: they may lie where others did
	programsLater bool   // some were loaded since the reading began that is under way
	loadedModules loadedModules
	files         kernelFiles
}

// programs tells of BPF programs that were loaded: see ebpf.Programs.
type programs interface {
	New() bool
	Hidden() bool
}

// kernelFiles are where the kernel says what it is made of.
type kernelFiles struct {
	symbols, modules, notes, sysModule string
}

func runningKernel() kernelFiles {
	return kernelFiles{symbols: "/proc/kallsyms", modules: "/proc/modules", notes: "/sys/kernel/notes", sysModule: "/sys/module"}
}

// kernelRead is what a worker read.
type kernelRead struct {
	table *kallsyms.Table
	info  map[string]kernelInfo
}

// openKernelNames begins to find out what the kernel's addresses are.
func (e *Engine) openKernelNames(files kernelFiles) {
	e.kernelNames = kernelNames{
		files:           files,
		kernelInfo:      map[string]kernelInfo{"": {mapping: kernelMapping(kernelFile, files.notes)}},
		kernelObjects:   map[string]*kernelObject{},
		kernelByMapping: map[*profile.Mapping]*kernelObject{},
		kernelMissed:    map[uint64]struct{}{},
		kernelUnnamed:   map[uint64]*unnamedAddress{},
		programs:        &ebpf.Programs{},
		loadedModules:   loadedModules{path: files.modules, sys: files.sysModule},
		kernelCPU:       newAllowance(kernelShare, kernelCredit, kernelCredit),
	}
	e.loadedModules.changed()
	e.readKernelSymbols()
}

// readKernelSymbols reads or rereads /proc/kallsyms. Reports wait for it, as for other symbols.
func (e *Engine) readKernelSymbols() {
	if e.kernelReading {
		return
	}
	e.kernelReading = true
	e.followPrograms() // those are read
	e.kernelMisses, e.kernelChanged, e.programsLater = false, false, false
	of := e.kernelOwes
	if !e.kernelOwed {
		of = e.symbols.ask()
	}
	e.kernelOwed = false
	old, files, cpu := e.kallsyms, e.files, &cpuTime{}
	e.jobs.submit(aboutSelf(kernelSerial, "kernel symbols"), kernelTimeout,
		func(context.Context) (any, error) {
			defer cpu.start()()
			return files.read(old)
		},
		func(v any, err error) {
			e.symbols.answer(of)
			if old != nil {
				e.kernelCPU.spend(cpu.soFar())
			}
			now := time.Now()
			e.kernelReading, e.kernelRead = false, now
			defer e.payReading(now)
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
				e.kernelMisses = true // what was to be found out is still not known
				e.log.Warn("reading kernel symbols", zap.Error(err))
				return
			}
			e.kernelHidden = false
			r := v.(kernelRead)
			e.kallsyms = r.table
			e.kernelIs(r.info, now)
			e.programsStale = e.programsLater
			clear(e.kernelMissed)
			e.nameUnnamed()
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
	unwinderSerial // and below, by runtime
)

// read reads all; of old, if it is not nil, what can't have changed is kept.
func (k kernelFiles) read(old *kallsyms.Table) (any, error) {
	symbols, err := os.Open(k.symbols)
	if err != nil {
		return nil, fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer symbols.Close()
	var modules io.Reader // a kernel without modules has no such file
	if f, err := os.Open(k.modules); err == nil {
		defer f.Close()
		modules = f
	}
	r := kernelRead{info: map[string]kernelInfo{}}
	if old != nil {
		r.table, err = old.Reload(symbols, modules)
	} else {
		r.table, err = kallsyms.Parse(symbols, modules)
	}
	if errors.Is(err, kallsyms.ErrChanged) {
		return k.read(nil) // a kexec or live patch: from scratch
	}
	if err != nil {
		return nil, err
	}
	r.table = r.table.WithSizes(ebpf.ProgramSizes())
	r.info[""] = kernelInfo{kernelMapping(kernelFile, k.notes), r.table.Sum("")}
	for _, name := range r.table.Modules() {
		// What is no module, as BPF programs, has no notes.
		notes := filepath.Join(k.sysModule, filepath.Base(name), "notes", ".note.gnu.build-id")
		r.info[name] = kernelInfo{kernelMapping("["+name+"]", notes), r.table.Sum(name)}
	}
	return r, nil
}

// kernelMapping describes the kernel or a module.
func kernelMapping(name, notes string) profile.Mapping {
	m := profile.Mapping{File: name}
	if b, err := os.ReadFile(notes); err == nil {
		m.BuildIDGNU = kallsyms.BuildID(b)
	}
	return m
}

// refreshKernelSymbols reads the kernel's symbols again if modules or BPF programs came or went, whose addresses may be those of
// others before, or if some address had no name.
func (e *Engine) refreshKernelSymbols(now time.Time) {
	since := now.Sub(e.kernelRead)
	e.followPrograms()
	switch {
	case e.kernelHidden:
		if since > 10*kernelReload {
			e.readKernelSymbols()
		}
	case e.kernelMisses && since > kernelReload, e.kallsyms == nil && since > kernelRetry:
		e.readKernelSymbols()
	}
	e.followModules(now)
}

// followModules reads the kernel's symbols again if modules came or went. It is called every second: what was loaded where
// another module was before has the other's names until then.
func (e *Engine) followModules(now time.Time) {
	if e.loadedModules.changed() {
		e.kernelChanged = true
	}
	e.readChanged(now)
}

// followKernel does so at once if an address was sampled that no symbol covers: one of a module or a BPF program that was loaded a
// moment ago, mostly.
func (e *Engine) followKernel(now time.Time) {
	if e.kernelNew {
		e.kernelNew = false
		e.followPrograms()
		if e.loadedModules.changed() || e.programsStale {
			e.kernelChanged = true
		}
	}
	e.readChanged(now)
}

// followPrograms looks for BPF programs that were loaded. Some tools load them all the time: as long as none is sampled, they wait
// their turn.
func (e *Engine) followPrograms() {
	if e.programs.New() {
		e.programsStale, e.programsLater, e.kernelMisses = true, true, true
	}
}

// knowsPrograms tells whether what is known of BPF programs can be right: what lies at an address is another one soon, as the kernel
// puts them where there is room. It looks once for all samples of a poll.
func (e *Engine) knowsPrograms() bool {
	if e.programsPoll != e.polls {
		e.programsPoll = e.polls
		e.followPrograms()
	}
	if e.programsStale {
		e.kernelChanged = true
	}
	return !e.programsStale
}

func (e *Engine) readChanged(now time.Time) {
	switch {
	case !e.kernelChanged || e.kallsyms == nil:
	case e.kernelReading:
		e.oweReading()
	case now.Sub(e.kernelRead) > kernelReload || e.kernelCPU.some(now):
		e.readKernelSymbols()
	}
}

// oweReading has reports wait for the reading after the one that is under way, which may have begun before what was sampled was there.
func (e *Engine) oweReading() {
	if !e.kernelOwed {
		e.kernelOwed, e.kernelOwes = true, e.symbols.ask()
	}
}

// payReading begins the reading that reports wait for besides the one that is over, or has them wait no longer.
func (e *Engine) payReading(now time.Time) {
	if !e.kernelOwed {
		return
	}
	if e.readChanged(now); e.kernelOwed {
		e.kernelOwed = false
		e.symbols.answer(e.kernelOwes)
	}
}

// loadedModules notices that modules were loaded or removed.
type loadedModules struct {
	path string // of /proc/modules
	sys  string // /sys/module
	last uint64
}

// changed tells whether the modules, or where they lie, are others than at the last call. A kernel without modules never changes. One
// that was removed and loaded again has another directory in sysfs, whose inode numbers are given in turn (Linux 6.1, fs/kernfs/dir.c,
// __kernfs_new_node).
func (l *loadedModules) changed() bool {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return false
	}
	h := fnv.New64a()
	for line := range strings.Lines(string(text)) {
		// name, size, uses, users, state, address (Linux 6.1, kernel/module/procfs.c, m_show); uses and state tell of no change
		if f := strings.Fields(line); len(f) >= 6 {
			var st unix.Stat_t
			_ = unix.Stat(filepath.Join(l.sys, filepath.Base(f[0])), &st) // 0 where it can't be seen
			_, _ = fmt.Fprintln(h, f[0], f[1], f[5], st.Ino)              // it never fails
		}
	}
	before := l.last
	l.last = h.Sum64()
	return l.last != before
}

// bpfModule is what /proc/kallsyms has BPF programs in: Linux 6.12, kernel/kallsyms.c, get_ksym_bpf.
const bpfModule = "bpf"

// maxMissed bounds how many addresses without symbols are remembered, and how many pages with such.
const maxMissed = 4096

// kernelLocation is where a kernel frame lies.
func (e *Engine) kernelLocation(addr uint64) profile.Location {
	l := profile.Location{Type: profile.FrameKernel, Address: addr}
	if e.kallsyms == nil {
		l.Mapping = e.kernelObject("").mapping // most are the kernel's own
		return l
	}
	module, ok := e.kallsyms.Module(addr)
	if !ok {
		e.kernelMisses = true
		e.noteUnnamed(addr)
		e.knowsPrograms()
		page := addr / uint64(pageSize)
		if _, known := e.kernelMissed[page]; !known && len(e.kernelMissed) < maxMissed {
			e.kernelMissed[page] = struct{}{}
			e.kernelNew = true
		}
		return l
	}
	if module == bpfModule {
		if !e.knowsPrograms() {
			return l // the report knows
		}
		if e.programs.Hidden() {
			e.kernelMisses = true // it may be another program by now
		}
	}
	o := e.kernelObject(module)
	l.Mapping = o.mapping
	e.nameKernel(o, addr)
	return l
}
