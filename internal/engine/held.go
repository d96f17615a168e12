package engine

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/process"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// holdFor is how long a sample waits for what workers read (mappings, a table). What a slow file system has not answered by
// then stays out of the stack; the sample says so.
const holdFor = 5 * time.Second

// holder keeps samples that wait. Their memory is bounded; beyond, the oldest go on with what is known.
type holder struct {
	stacks []*stack
	bytes  int
	woken  map[any]struct{}            // what some of them waited for
	lists  map[*process.MappedFile]int // of mappings, and how many of them have each
}

// maxHeldMappings is how long a list of mappings may be that a sample keeps while it waits. Of a longer one it keeps what its frames
// lie in: a process may have a list of megabytes, and another one for each sample.
const maxHeldMappings = 1024

// wake has retry look at the samples that wait for what.
func (h *holder) wake(what any) {
	if len(h.stacks) == 0 {
		return
	}
	if h.woken == nil {
		h.woken = map[any]struct{}{}
	}
	h.woken[what] = struct{}{}
}

const (
	stackOverhead = 512
	// smallCopy is how much of a stack's copy is kept where many wait, in bytes.
	smallCopy = 16 << 10
)

func (k *stack) size() int {
	return stackOverhead + len(k.memory.Bytes) + 24*(len(k.kernel)+len(k.user))
}

// add copies a stack out of the buffers that are reused.
func (h *holder) add(e *Engine, k *stack) {
	c := *k
	c.kernel, c.user = slices.Clone(k.kernel), slices.Clone(k.user)
	if h.bytes > int(e.cfg.MemoryBytes/16) { // half of it is used: hardly a stack needs more than this
		c.memory.Trim(smallCopy)
	}
	c.memory.Bytes = slices.Clone(c.memory.Bytes)
	c.since = time.Now()
	if len(c.mappings) > maxHeldMappings {
		c.mappings = c.found()
	}
	h.stacks = append(h.stacks, &c)
	h.bytes += c.size()
	h.retain(c.mappings)
	for h.bytes > int(e.cfg.MemoryBytes/8) && len(h.stacks) > 1 {
		e.count.Evictions++
		h.finishOldest(e)
	}
}

// retain counts a list of mappings, once for all stacks that have it.
func (h *holder) retain(list []process.MappedFile) {
	if len(list) == 0 {
		return
	}
	if h.lists == nil {
		h.lists = map[*process.MappedFile]int{}
	}
	at := unsafe.SliceData(list)
	if h.lists[at]++; h.lists[at] == 1 {
		h.bytes += int(listBytes(list))
	}
}

func (h *holder) release(list []process.MappedFile) {
	if len(list) == 0 {
		return
	}
	at := unsafe.SliceData(list)
	if h.lists[at]--; h.lists[at] == 0 {
		delete(h.lists, at)
		h.bytes -= int(listBytes(list))
	}
}

// found returns the mappings that hold what was found of the stack.
func (k *stack) found() []process.MappedFile {
	pending := unwind.RawFrame{A: uint64(k.regs.PC), Flags: k.pending}
	if k.walked {
		pending = unwind.RawFrame{A: uint64(k.at.Regs.PC), Flags: k.at.Flags}
	}
	var found []*process.MappedFile
	for _, f := range append(slices.Clone(k.user), pending) {
		if f.Managed() {
			continue
		}
		if m, ok := process.FindMapping(k.mappings, f.LookupAddr()); ok {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *process.MappedFile) int { return cmp.Compare(a.Start, b.Start) })
	found = slices.Compact(found)
	out := make([]process.MappedFile, len(found))
	for i, m := range found {
		out[i] = *m
	}
	return out
}

func (h *holder) empty() bool { return len(h.stacks) == 0 }

// retry delivers what is complete by now. Only those are tried whose wait is over: behind a file system that hangs there may
// be thousands of others.
func (h *holder) retry(e *Engine) {
	if len(h.woken) == 0 {
		return
	}
	woken := h.woken
	h.woken = nil
	kept := h.stacks[:0]
	for _, k := range h.stacks {
		if _, ok := woken[k.waits]; !ok {
			kept = append(kept, k)
			continue
		}
		before, list := k.size(), k.mappings
		if e.complete(k) {
			h.bytes -= before
			h.release(list)
			e.deliver(k)
			continue
		}
		h.bytes += k.size() - before
		if k.mappings == nil {
			h.release(list)
		}
		kept = append(kept, k)
	}
	clear(h.stacks[len(kept):])
	h.stacks = kept
}

// expire finishes what has waited too long.
func (h *holder) expire(e *Engine, now time.Time) {
	for len(h.stacks) > 0 && now.Sub(h.stacks[0].since) > holdFor {
		h.finishOldest(e)
	}
}

func (h *holder) finishAll(e *Engine) {
	for len(h.stacks) > 0 {
		h.finishOldest(e)
	}
}

func (h *holder) finishOldest(e *Engine) {
	k := h.stacks[0]
	h.stacks[0] = nil
	h.stacks = h.stacks[1:]
	h.bytes -= k.size()
	h.release(k.mappings)
	e.walkLate(k)
	k.giveUp()
	e.deliver(k)
}

// giveUp ends the walk with what was found. The pending frame is known to have been there if nothing was found yet.
func (k *stack) giveUp() {
	if k.resumable && !k.walked && len(k.user) == 0 && k.regs.PC != 0 {
		k.user = append(k.user, unwind.RawFrame{A: uint64(k.regs.PC), Flags: k.pending})
	}
	k.resumable = false
}
