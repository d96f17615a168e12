package hostbpf_test

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

// hosts are both variants for one architecture.
type hosts map[hostbpf.Variant]*hostbpf.Host

func startHosts(t testing.TB, arch unwind.Arch) hosts {
	t.Helper()
	h := hosts{}
	for _, v := range hostbpf.Variants() {
		host, err := hostbpf.Start(arch, v)
		if err != nil {
			t.Fatal(err)
		}
		h[v] = host
		t.Cleanup(func() {
			if err := host.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return h
}

func load(t testing.TB, h hosts, mappings []tape.Mapping) {
	t.Helper()
	for v, host := range h {
		if err := host.Load(mappings); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
}

// rule is the one by which the caller of a frame is found.
func rule(code tape.Code, f unwind.RawFrame) unwind.Rule {
	c, _, ok := code.Find(f.LookupAddr())
	if !ok {
		return unwind.Rule{}
	}
	return c.Table.Lookup(c.Mapping.FileAddr(f.LookupAddr()))
}

// show writes frames one a line.
func show(code tape.Code, frames []unwind.RawFrame, stop unwind.StopReason) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "  %#x %d %d %v\n", f.A, f.Runtime, f.Flags, rule(code, f))
	}
	fmt.Fprintf(&b, "  %v\n", stop)
	return b.String()
}

// guessedFrames counts those that were guessed.
func guessedFrames(frames []unwind.RawFrame) (n int) {
	for _, f := range frames {
		if f.Flags&unwind.FrameGuessed != 0 {
			n++
		}
	}
	return n
}

// explained tells whether the tail variant has used its 33 tail calls up: a guess takes one, its search another, and the third goes on
// two steps later; 31 other steps take one.
func explained(frames []unwind.RawFrame) bool {
	return 3*(guessedFrames(frames)+1)+len(frames)/31 >= 33
}

// maxCalls bounds how often BPF looks something up or reads memory for a walk of so many frames, of which so many were guessed.
func maxCalls(mappings, frames, guesses int) int {
	const rule, call, programs = 9, 2, 2 * 34 // slab, page, row and block of a table, and the rule; two reads; each program's own
	mapping := bits.Len(uint(mappings)) + 1
	grade := 2*(mapping+rule+call) + mapping + 5
	scan := unwind.GuessMaxChunks * (2 + unwind.GuessWords*(mapping+call) + unwind.GuessMaxTries*grade)
	byCode := 6 + unwind.GuessExits*(2+grade)
	byFP := 6 + grade + mapping + rule + call
	step := mapping + rule + 20 // the most with Go's stack switches
	guesses++                   // the last one may have failed
	return programs + 20 + (frames+1)*step + guesses*(byCode+byFP) + min(guesses, unwind.GuessSearches)*scan
}

// compare walks a tape with the reference walker and with both variants, and says what differs. The hosts have the tape's
// mappings. What is returned is for newer kernels.
func compare(t testing.TB, h hosts, p *tape.Tape, mem unwind.Memory) (frames []unwind.RawFrame, stop unwind.StopReason) {
	t.Helper()
	return compareWalks(t, h, p, mem, false)
}

// comparePlain is compare without guesses other than by the frame pointer.
func comparePlain(t testing.TB, h hosts, p *tape.Tape, mem unwind.Memory) (frames []unwind.RawFrame, stop unwind.StopReason) {
	t.Helper()
	for _, on := range []bool{false, true} {
		for _, host := range h {
			if err := host.Guesses(on); err != nil {
				t.Fatal(err)
			}
		}
		if !on {
			frames, stop = compareWalks(t, h, p, mem, true)
		}
	}
	return frames, stop
}

func compareWalks(t testing.TB, h hosts, p *tape.Tape, mem unwind.Memory, plain bool) (frames []unwind.RawFrame, stop unwind.StopReason) {
	t.Helper()
	code := tape.Code(p.Mappings)
	s := &hostbpf.Sample{Registers: p.Registers, ThreadPointer: p.ThreadPointer}
	for _, v := range []hostbpf.Variant{hostbpf.Tail, hostbpf.Loop} {
		if err := h[v].Constant("max_frames", uint32(p.MaxFrames)); err != nil {
			t.Fatal(err)
		}
		r, err := h[v].Take(s, mem)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		got, gotStop := r.Finish(s, p.Arch, code, mem, p.MaxFrames)
		w := code.Walker(p.Arch, &p.Registers, p.ThreadPointer, mem)
		w.Old, w.Plain = v == hostbpf.Tail, plain
		frames, stop = w.Walk(&p.Registers, p.Arch, mem, code, nil, p.MaxFrames)
		if calls, most := h[v].Calls(), maxCalls(len(p.Mappings), len(got), guessedFrames(got)); calls > most {
			t.Errorf("%s on %v: %d lookups and reads for %d frames, more than %d", v, p.Arch, calls, len(got), most)
		}
		if v == hostbpf.Tail && gotStop == unwind.StopTailCalls && len(got) <= len(frames) && explained(got) {
			frames, stop = frames[:len(got)], gotStop
		}
		if gotStop != stop || !slices.Equal(got, frames) {
			t.Errorf("%s on %v (stopped at line %d: %v):\n%s, the reference walker:\n%s", v, p.Arch, r.StopLine, r.StopReason(),
				show(code, got, gotStop), show(code, frames, stop))
		}
	}
	return frames, stop
}
