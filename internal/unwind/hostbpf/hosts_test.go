package hostbpf_test

import (
	"fmt"
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

// compare walks a tape with the reference walker and with both variants, and says what differs. The hosts have the tape's
// mappings. What is returned is for newer kernels.
func compare(t testing.TB, h hosts, p *tape.Tape, mem unwind.Memory) (frames []unwind.RawFrame, stop unwind.StopReason) {
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
		w.Old = v == hostbpf.Tail
		frames, stop = w.Walk(&p.Registers, p.Arch, mem, code, nil, p.MaxFrames)
		if gotStop == unwind.StopTailCalls && len(got) > 16 && len(got) <= len(frames) { // each guess takes one
			frames, stop = frames[:len(got)], gotStop
		}
		if gotStop != stop || !slices.Equal(got, frames) {
			t.Errorf("%s on %v (stopped at line %d: %v):\n%s, the reference walker:\n%s", v, p.Arch, r.StopLine, r.StopReason(),
				show(code, got, gotStop), show(code, frames, stop))
		}
	}
	return frames, stop
}
