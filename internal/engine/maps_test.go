package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/process/procfs"
	"github.com/hostprofiles/hostprofiles/internal/profile"
)

// described is an engine without BPF that has sampled process 7, of which a directory tells what /proc would.
type described struct {
	*Engine
	p   *process.Process
	dir string
}

const describedStart = 30_000_000 // ns

func newDescribed(t *testing.T) *described {
	t.Helper()
	dir := t.TempDir()
	d := &described{dir: filepath.Join(dir, "7")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"stat":    fmt.Sprintf("7 (next) R 1%s %d 0 0\n", strings.Repeat(" 0", 17), describedStart/10_000_000),
		"maps":    "400000-401000 r-xp 00000000 08:00 2    /bin/next\n",
		"cmdline": "next\x00-v\x00",
		"cgroup":  "0::/\n",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/next", filepath.Join(d.dir, "exe")); err != nil {
		t.Fatal(err)
	}
	log := zaptest.NewLogger(t)
	d.Engine = &Engine{log: log, proc: procfs.New(dir), closer: newCloser(log), containers: containers{}}
	d.jobs = newJobs(log, d.closer)
	t.Cleanup(d.jobs.close)
	d.executables = process.NewExecutables[*executable](process.ExecutablesOptions{})
	d.table = process.NewTable(d.executables, process.Options{})
	return d
}

// sampled has the process be sampled.
func (d *described) sampled() { d.p = d.table.SampleArrived(7, d.clock.monotonic(), describedStart, 1) }

// execs is when the process begins another program, CLOCK_MONOTONIC, ns; the engine learns of it later.
func (d *described) execs(time uint64) {
	d.table.Apply(&process.Event{Kind: process.EventExec, Time: time, PID: 7, TID: 7, Comm: "next"})
}

// finish waits for what the workers read.
func (d *described) finish(t *testing.T) {
	t.Helper()
	eventually(t, "the jobs end", func() bool { d.jobs.drain(); return d.jobs.idle() })
}

// TestMapsOfTheNextProgram: mappings that were read after an exec that the engine learns of later are not those of the program before.
func TestMapsOfTheNextProgram(t *testing.T) {
	d := newDescribed(t)
	d.sampled()
	before := d.clock.monotonic()
	d.held.stacks = []*stack{{}}
	d.readMaps(d.p)
	d.finish(t)
	if d.p.Maps() == process.MapsKnown || len(d.held.woken) != 0 {
		t.Fatal("they were taken though nothing is known of what happened meanwhile")
	}
	d.execs(before)
	d.ingested(d.clock.monotonic())
	if d.p.Maps() == process.MapsKnown || d.table.Stats().MapsDiscarded != 1 {
		t.Errorf("the program before has %+v", d.p.Mappings())
	}
	if _, ok := d.held.woken[d.p]; !ok {
		t.Error("samples wait on")
	}

	for _, c := range []struct {
		name  string
		until uint64 // of the last ingest
	}{{"nothing happened", 0}, {"what happened is known", 1 << 63}} {
		d = newDescribed(t)
		d.sampled()
		d.in.until = c.until
		d.readMaps(d.p)
		d.finish(t)
		if c.until == 0 {
			d.ingested(d.clock.monotonic())
		}
		if d.p.Maps() != process.MapsKnown || len(d.p.Mappings()) != 1 || len(d.in.later) != 0 {
			t.Errorf("%s: %+v", c.name, d.p.Mappings())
		}
	}
}

// successive is a pid that another process has when its mappings were read.
type successive struct {
	starts []uint64 // at each look; 0 is gone
}

func (s *successive) Stat(uint32) (procfs.Stat, error) {
	start := s.starts[0]
	s.starts = s.starts[1:]
	if start == 0 {
		return procfs.Stat{}, procfs.ErrGone
	}
	return procfs.Stat{StartTime: start}, nil
}

func (s *successive) Maps(uint32) ([]process.MmapInfo, error) {
	return []process.MmapInfo{{Start: 0x1000, End: 0x2000}}, nil
}

// TestMapsOfAnotherProcess: the pid may be another's while its mappings are read.
func TestMapsOfAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		starts []uint64
		want   error
	}{{[]uint64{5, 5}, nil}, {[]uint64{5, 0}, nil}, {[]uint64{5, 6}, procfs.ErrGone}, {[]uint64{0}, procfs.ErrGone}} {
		r, err := readMapsOf(&successive{c.starts}, newClock(), 7)
		if !errors.Is(err, c.want) || err == nil && (len(r.maps) != 1 || r.start != 5 || r.until < r.time) {
			t.Errorf("%v: %+v, %v", c.starts, r, err)
		}
	}
}

// TestIdentityOfTheNextProgram: a process that was sampled before an exec is not named after the program that it became.
func TestIdentityOfTheNextProgram(t *testing.T) {
	const before, next = "shell /bin/shell  pod", "next /bin/next next pod"
	for _, c := range []struct {
		name string
		when func(d *described, read func()) // identifies the process, and has it begin another program
		want string
	}{
		{"no exec", func(d *described, read func()) { read() }, next},
		{"an exec before", func(d *described, read func()) {
			at := d.clock.monotonic()
			read()
			d.execs(at)
		}, before},
		{"an exec before that is known late", func(d *described, read func()) {
			at := d.clock.monotonic()
			d.in.until = 1 << 63
			read()
			d.execs(at)
		}, before},
		{"an exec after", func(d *described, read func()) {
			read()
			d.execs(d.clock.monotonic())
		}, next},
	} {
		d := newDescribed(t)
		now := d.clock.monotonic()
		d.table.Apply(&process.Event{Kind: process.EventExec, Time: now, PID: 7, TID: 7, Comm: "shell"})
		d.table.Apply(&process.Event{Kind: process.EventMmap, Time: now + 1, PID: 7, TID: 7, Map: process.MmapInfo{
			Start: 0x400000, End: 0x401000, File: process.FileID{Major: 8, Inode: 1}, Path: "/bin/shell", Exec: true,
		}})
		d.sampled()
		st := &processState{p: d.p, resource: &profile.Resource{}, cgroup: 77}
		d.containers.learn(77, "pod")
		c.when(d, func() {
			d.identify(st)
			d.finish(t)
			if d.in.until == 0 && st.identifying == 0 {
				t.Errorf("%s: a report does not wait until it is known what happened meanwhile", c.name)
			}
		})
		d.ingested(d.clock.monotonic())
		st.fallBack()
		r := st.resource
		if got := fmt.Sprintln(r.ExecutableName, r.ExecutablePath, r.Command, r.ContainerID); got != c.want+"\n" || st.identifying != 0 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
