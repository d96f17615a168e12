package engine

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// ingest merges samples and side-band events by their times. Its buffers are reused.
type ingest struct {
	arena   []byte // records, one after the other
	samples []recordRef
	spare   []byte
	events  []ebpf.Event
	sample  ebpf.Sample

	until uint64   // everything up to then was taken, CLOCK_MONOTONIC, ns
	later []func() // to be called when what happened since was taken, too
}

// maxArena is how much of a buffer is kept for the next time, in bytes.
const maxArena = 1 << 20

// recordRef is a record in the arena.
type recordRef struct {
	time    uint64
	at, end int
}

// ingest reads the rings and applies, in the order of time, everything up to the moment at which it began: samples are read
// first, so no event before them is missed. What is younger waits for the next time.
func (e *Engine) ingest() {
	in := &e.in
	e.clock.sync()
	until := e.clock.monotonic()
	e.count.RingUsedBytes = max(e.count.RingUsedBytes, uint64(e.kernel.RingFill()))
	err := e.kernel.ReadSamples(func(b []byte) {
		at := len(in.arena)
		in.arena = append(in.arena, b...)
		in.samples = append(in.samples, recordRef{ebpf.SampleTime(b), at, len(in.arena)})
	})
	if err != nil {
		e.log.Error("reading samples", zap.Error(err))
	}
	in.events = e.sideband.Read(in.events)
	slices.SortStableFunc(in.samples, func(a, b recordRef) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(in.events, func(a, b ebpf.Event) int { return cmp.Compare(a.Time, b.Time) })

	event, sample := 0, 0
	for ; sample < len(in.samples) && in.samples[sample].time <= until; sample++ {
		s := in.samples[sample]
		event = e.applyEvents(event, s.time)
		e.takeSample(in.arena[s.at:s.end])
	}
	event = e.applyEvents(event, until)
	in.carry(sample, event)
	e.ingested(until)
}

// ingested ends an ingest of what happened until a time, CLOCK_MONOTONIC, ns.
func (e *Engine) ingested(until uint64) {
	later := e.in.later
	e.in.until, e.in.later = until, nil
	for _, f := range later {
		f()
	}
}

// afterEvents calls f when everything was taken in that happened until a time that has passed, CLOCK_MONOTONIC, ns: at once, or at the
// latest at the end of settle. It is for what was read of a process, which may be another program by then.
func (e *Engine) afterEvents(time uint64, f func()) {
	if time <= e.in.until {
		f()
		return
	}
	e.in.later = append(e.in.later, f)
}

// carry drops what was taken: the samples before number sample and the events before number event.
func (in *ingest) carry(sample, event int) {
	in.spare = in.spare[:0]
	for i, s := range in.samples[sample:] {
		at := len(in.spare)
		in.spare = append(in.spare, in.arena[s.at:s.end]...)
		in.samples[i] = recordRef{s.time, at, len(in.spare)}
	}
	in.samples = in.samples[:len(in.samples)-sample]
	in.arena, in.spare = in.spare, in.arena
	if cap(in.spare) > maxArena && len(in.arena) < maxArena/2 {
		in.spare = nil // a burst is over
	}
	in.events = in.events[:copy(in.events, in.events[event:])]
}

// applyEvents applies the events from number next on that are not younger than until, and returns the number of the first
// that is.
func (e *Engine) applyEvents(next int, until uint64) int {
	in := &e.in
	for next < len(in.events) && in.events[next].Time <= until {
		e.applyEvent(&in.events[next])
		next++
	}
	return next
}

func (e *Engine) applyEvent(ev *ebpf.Event) {
	out := process.Event{Time: ev.Time, PID: ev.PID, TID: ev.TID, PPID: ev.PPID, PTID: ev.PTID, Comm: ev.Comm}
	switch ev.Kind {
	case ebpf.EventLost:
		e.count.SidebandLost += ev.Lost
		e.table.Lost()
		return
	case ebpf.EventMmap:
		out.Kind = process.EventMmap
		out.Map = process.MmapInfo{
			Start: unwind.Addr(ev.Addr), End: unwind.Addr(ev.Addr + ev.Len), Offset: unwind.FileOffset(ev.Offset),
			File: process.FileID{Major: ev.Major, Minor: ev.Minor, Inode: ev.Inode, Generation: ev.InodeGeneration},
			Path: ev.Path, Exec: true, Anonymous: process.IsAnonymous(ev.Path),
		}
	case ebpf.EventComm:
		out.Kind = process.EventComm
	case ebpf.EventExec:
		out.Kind = process.EventExec
	case ebpf.EventFork:
		out.Kind = process.EventFork
	case ebpf.EventExit:
		out.Kind = process.EventExit
	}
	e.table.Apply(&out)
}
