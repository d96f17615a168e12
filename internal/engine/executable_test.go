package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/process"
)

// newFileEngine makes an engine without BPF that knows one executable, which process 1 has mapped.
func newFileEngine(t *testing.T) (*Engine, *process.Executable[*executable]) {
	t.Helper()
	log := zaptest.NewLogger(t)
	e := &Engine{cfg: testConfig(), log: log, count: newStats()}
	e.closer = newCloser(log)
	e.jobs = newJobs(log, e.closer)
	e.symbols, e.lines, e.spills = newSymbolizer(), newLineFinder(), newSpills()
	e.debugLimits = newDebugLimits(e.cfg.MemoryBytes)
	e.fetches, _ = newFetches(nil) // without servers it can't fail
	e.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	e.withFile = map[*executable]*process.Executable[*executable]{}
	m := &process.MmapInfo{Start: 0x1000, End: 0x2000, File: process.FileID{Major: 8, Minor: 1, Inode: 1}, Path: "/bin/program"}
	x := e.executables.Of(e.executables.Acquire(m, 1))
	e.executables.StartOpening(x)
	e.executables.Opened(x, process.Identity{Size: 1})
	payload := &executable{symbols: newExecutableSymbols(), debug: newDebugInfo(), file: &source{}, serial: x.Serial}
	payload.file.file.Store(openedFile(t))
	e.executables.SetPayload(x, payload, executableBytes)
	e.withFile[payload] = x
	t.Cleanup(func() {
		e.jobs.close()
		e.closeExecutables()
		e.closer.wait(closeWait)
	})
	return e, x
}

func openedFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "program"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFailedCheck cannot look at an executable again that is open: it serves on, nothing is counted, and its file is opened at once
// when it is wanted after it was closed.
func TestFailedCheck(t *testing.T) {
	e, x := newFileEngine(t)
	st := &processState{}
	e.states, e.dirty = map[*process.Process]*processState{nil: st}, map[*processState]struct{}{}
	for range 10 {
		e.executables.Tick()
		e.executables.Acquire(&process.MmapInfo{Start: 0x1000, End: 0x2000, File: x.File.ID, Path: x.File.Path}, 1)
		if e.executables.StartChecking(x) {
			e.opened(x, nil, errors.New("gone"))
		}
	}
	if x.State() != process.Ready || !x.Payload.file.open() || x.Err() != nil || e.count.TableErrors != newStats().TableErrors || len(e.dirty) != 0 {
		t.Errorf("state %d, %v, errors %v, %d processes told", x.State(), x.Err(), e.count.TableErrors, len(e.dirty))
	}
	if n := e.executables.Stats().OpenFailures; n != 0 {
		t.Errorf("%d failures", n)
	}
	if e.executables.StartChecking(x) {
		t.Error("tried again in the same tick")
	}
	e.closeFile(x)
	e.executables.Reopen(x)
	if !e.executables.StartOpening(x) {
		t.Error("it waits though it is wanted")
	}
	e.states = nil
	if e.opened(x, nil, errors.New("gone")); e.count.TableErrors == newStats().TableErrors || e.executables.TakeWanted(x) {
		t.Error("that names cannot be read is not counted")
	}
}

// TestCheckedFileIsClosed checks an executable whose file was closed: where there are as many open as may be, it is kept open only if
// somebody wants it.
func TestCheckedFileIsClosed(t *testing.T) {
	e, x := newFileEngine(t)
	e.closeFile(x)
	check := func(want bool) {
		t.Helper()
		e.reopened(x, &loaded{same: true, file: openedFile(t)})
		if _, counted := e.withFile[x.Payload]; x.Payload.file.open() != want || counted != want {
			t.Errorf("open: %v, counted: %v", x.Payload.file.open(), counted)
		}
	}
	check(false)
	e.maxFiles = 1
	check(true)
	e.closeFile(x)
	e.maxFiles = 0
	x.Payload.debug.wanted = append(x.Payload.debug.wanted, 1)
	check(true)
	e.closeFile(x)
	e.executables.Reopen(x)
	check(true)
	e.closeFile(x)
	check(false)
}
