package hostbpf_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/ebpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
	"github.com/hostprofiles/hostprofiles/internal/unwind/reference"
)

// chain is a process n frames deep, all of them in one function; its outermost frame is a root.
func chain(arch unwind.Arch, n int) *tape.Tape {
	const frame = 0x400 // a return address, whose rule is for the byte before
	p := &tape.Tape{Arch: arch, MaxFrames: 1024}
	sp, rule := uint8(unwind.AMD64RSP), unwind.Rule{CFA: unwind.CFAReg, Reg: unwind.AMD64RSP, Offset: 24, RAOffset: -1}
	p.Registers.Known = 0xffff
	if arch == unwind.ArchARM64 {
		sp, rule.Reg, p.Registers.Known = unwind.ARM64SP, unwind.ARM64SP, 0xffffffff
	}
	table := &unwind.Table{
		Rows:  []unwind.Row{{Start: 0x1100, Rule: 1}, {Start: 0x1800, Rule: 2}, {Start: 0x1900}},
		Rules: []unwind.Rule{{}, rule, {CFA: unwind.CFARoot}},
	}
	p.Mappings = []tape.Mapping{{Mapping: unwind.Mapping{Start: codeAt, End: codeAt + 0x1000, Bias: codeAt - 0x1000}, Table: table}}
	var stack []byte
	for i := 1; i < n; i++ {
		ra := uint64(codeAt + frame)
		if i == n-1 {
			ra = codeAt + 0x850
		}
		stack = binary.LittleEndian.AppendUint64(stack, 1)
		stack = binary.LittleEndian.AppendUint64(stack, 2)
		stack = binary.LittleEndian.AppendUint64(stack, ra)
	}
	p.Memory.Add(stackAt, stack)
	p.Registers.PC, p.Registers.Reg[sp] = codeAt+frame, stackAt
	return p
}

func each(t *testing.T, f func(t *testing.T, arch unwind.Arch, v hostbpf.Variant, h *hostbpf.Host)) {
	for _, arch := range []unwind.Arch{unwind.ArchAMD64, unwind.ArchARM64} {
		for v, h := range startHosts(t, arch) {
			t.Run(fmt.Sprint(arch, v), func(t *testing.T) { f(t, arch, v, h) })
		}
	}
}

func take(t *testing.T, h *hostbpf.Host, s *hostbpf.Sample, mem unwind.Memory) *hostbpf.Record {
	t.Helper()
	r, err := h.Take(s, mem)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDepths: as many frames as are wanted, whatever the number of programs that it takes.
func TestDepths(t *testing.T) {
	each(t, func(t *testing.T, arch unwind.Arch, _ hostbpf.Variant, h *hostbpf.Host) {
		for _, n := range []int{2, 3, 30, 31, 32, 33, 34, 500, 1022, 1023, 1024, 1025, 1026, 1030, 3000} {
			for _, limit := range []int{1, 64, 1024} {
				p := chain(arch, n)
				if err := h.Load(p.Mappings); err != nil {
					t.Fatal(err)
				}
				if err := h.Constant("max_frames", uint32(limit)); err != nil {
					t.Fatal(err)
				}
				r := take(t, h, &hostbpf.Sample{Registers: p.Registers}, &p.Memory)
				want, frames := unwind.StopRoot, n
				if n > limit {
					want, frames = unwind.StopMaxFrames, limit
				}
				if r.StopReason() != want || len(r.Frames) != frames {
					t.Errorf("%d frames, at most %d: got %d, stop %v", n, limit, len(r.Frames), r.StopReason())
				}
			}
		}
	})
}

// TestStates: what the thread is doing decides whether there is anything to walk.
func TestStates(t *testing.T) {
	const kthread, ioWorker, userWorker, exiting = 0x200000, 0x10, 0x4000, 0x4 // include/linux/sched.h, Linux 6.12
	root := func(s *hostbpf.Sample) *hostbpf.Sample { return s }
	tests := []struct {
		name   string
		change func(*hostbpf.Sample) *hostbpf.Sample
		frames int
		stop   unwind.StopReason
		copied bool
	}{
		{"user mode", root, 5, unwind.StopRoot, false},
		{"kernel mode", func(s *hostbpf.Sample) *hostbpf.Sample { s.Kernel = []uint64{1, 2, 3}; return s }, 5, unwind.StopRoot, false},
		{"kernel thread", func(s *hostbpf.Sample) *hostbpf.Sample {
			s.Kernel, s.TaskFlags, s.NoMM = []uint64{1, 2}, kthread, true
			return s
		}, 0, unwind.StopNoUser, false},
		{"I/O worker", func(s *hostbpf.Sample) *hostbpf.Sample { s.Kernel, s.TaskFlags = []uint64{1}, ioWorker; return s }, 0,
			unwind.StopNoUser, false},
		{"user worker", func(s *hostbpf.Sample) *hostbpf.Sample { s.Kernel, s.TaskFlags = []uint64{1}, userWorker; return s }, 0,
			unwind.StopNoUser, false},
		{"exiting, address space there", func(s *hostbpf.Sample) *hostbpf.Sample { s.TaskFlags = exiting; return s }, 5,
			unwind.StopRoot, false},
		{"32-bit", func(s *hostbpf.Sample) *hostbpf.Sample { s.Compat = true; return s }, 0, unwind.StopABI, false},
		{"unknown process", func(s *hostbpf.Sample) *hostbpf.Sample { s.Unknown = true; return s }, 0, unwind.StopNoProcess, true},
		{"gone", func(s *hostbpf.Sample) *hostbpf.Sample {
			s.Unknown, s.NoMM, s.Kernel = true, true, []uint64{9}
			return s
		}, 0, unwind.StopGone, false},
		{"in exec", func(s *hostbpf.Sample) *hostbpf.Sample { s.Unknown, s.InExec = true, true; return s }, 0, unwind.StopGone, false},
	}
	each(t, func(t *testing.T, arch unwind.Arch, v hostbpf.Variant, h *hostbpf.Host) {
		p := chain(arch, 5)
		if err := h.Load(p.Mappings); err != nil {
			t.Fatal(err)
		}
		for _, tt := range tests {
			if tt.name == "user worker" && v == hostbpf.Tail { // kernels that it is for do not have them
				tt.frames, tt.stop = 5, unwind.StopRoot
			}
			s := tt.change(&hostbpf.Sample{Registers: p.Registers})
			r := take(t, h, s, &p.Memory)
			if len(r.Frames) != tt.frames || r.StopReason() != tt.stop || r.HasCopy != tt.copied || !slices.Equal(r.Kernel, s.Kernel) {
				t.Errorf("%s: %d frames, stop %v at line %d, copy %v, kernel frames %v", tt.name, len(r.Frames), r.StopReason(),
					r.StopLine, r.HasCopy, r.Kernel)
			}
			if r.StopLine == 0 && r.StopReason() != unwind.StopRoot {
				t.Errorf("%s: it is not said where the walk stopped", tt.name)
			}
		}
	})
}

// TestCopies: how much of the stack goes to user space, and that it is the stack.
func TestCopies(t *testing.T) {
	const page = unwind.CopyChunk / 8
	type holes [][2]int // of the stack, in words: first, number
	each(t, func(t *testing.T, arch unwind.Arch, _ hostbpf.Variant, h *hostbpf.Host) {
		for _, tt := range []struct {
			words, skip int
			holes       holes // never touched
			fill        uint64
			want        int    // bytes
			chunks      uint32 // of them
		}{
			{32 * page, 0, nil, 0, 15 * 4096, 0x7fff},
			{32 * page, 3, nil, 0, 16*4096 - 24, 0xffff},           // up to a page's end
			{32 * page, page - 1, nil, 0, 8 + 15*4096, 0xffff},     // a word, and pages
			{32 * page, 0, nil, 1<<17 + 1, 4 * 4096, 0xf},          // the ring is a quarter of a half full
			{32 * page, 0, nil, 1<<18 + 1, 4096, 0x1},              // half of a half
			{32 * page, page - 1, nil, 1<<18 + 1, 8 + 4096, 0x3},   //
			{32 * page, 0, nil, 1<<19 + 1, 0, 0},                   // it is over half full
			{2 * page, 0, nil, 0, 2 * 4096, 0x3},                   // up to the end
			{2*page - 1, 0, nil, 0, 4096, 0x1},                     // page by page
			{3, 2, nil, 0, 0, 0},                                   //
			{32 * page, 0, holes{{0, page}}, 0, 15 * 4096, 0xfffe}, // room that was made just now
			{32 * page, 500, holes{{500, 12}}, 0, 15 * 4096, 0xfffe},
			{32 * page, 0, holes{{0, 8 * page}}, 0, 15 * 4096, 0x7fff00},
			{32 * page, 0, holes{{0, 8*page + 1}}, 0, 0, 0}, // too much
			{32 * page, 0, holes{{0, page}}, 1<<18 + 1, 4096, 0x2},
			{32 * page, 0, holes{{0, page}}, 1<<19 + 1, 0, 0},
			{page + 100, 0, holes{{0, page}}, 0, 0, 0},
			{5 * page, 0, holes{{2 * page, 1}}, 0, 4 * 4096, 0x1b}, // a buffer, not used to its end
			{5 * page, 7, holes{{2 * page, 1}}, 0, 4*4096 - 56, 0x1b},
			{40 * page, 0, holes{{page, 8 * page}, {10 * page, 8 * page}, {19 * page, 8 * page}}, 0, 8 * 4096, 0xf8040201},
			{40 * page, 0, holes{{page, 9 * page}}, 0, 4096, 0x1},
		} {
			p := chain(arch, 2)
			stack := make([]byte, 8*tt.words)
			for i := range tt.words {
				binary.LittleEndian.PutUint64(stack[8*i:], uint64(i)*0x0101010101)
			}
			p.Memory = tape.Memory{}
			at := tt.skip
			for _, hole := range append(tt.holes, [2]int{tt.words}) {
				if hole[0] > at {
					p.Memory.Add(stackAt+8*unwind.Addr(at), stack[8*at:8*hole[0]])
				}
				at = hole[0] + hole[1]
			}
			sp := unwind.AMD64RSP
			if arch == unwind.ArchARM64 {
				sp = unwind.ARM64SP
			}
			p.Registers.Reg[sp] = stackAt + 8*uint64(tt.skip)
			if err := h.Load(p.Mappings); err != nil {
				t.Fatal(err)
			}
			r := take(t, h, &hostbpf.Sample{Registers: p.Registers, Unknown: true, RingFill: tt.fill}, &p.Memory)
			if !r.HasCopy || len(r.Stack) != tt.want || r.Copied != tt.chunks {
				t.Errorf("%+v: copy %v of %d bytes, chunks %#x", tt, r.HasCopy, len(r.Stack), r.Copied)
			}
			checkCopy(t, r, stackAt+8*unwind.Addr(tt.skip), &p.Memory)
			got := r.Registers
			for i := range got.Reg {
				if p.Registers.Known&(1<<i) != 0 && got.Reg[i] != p.Registers.Reg[i] {
					t.Errorf("%+v: register %d is %#x", tt, i, got.Reg[i])
				}
			}
			if got.PC != p.Registers.PC || got.Known != p.Registers.Known || r.PendingFlags != 0 {
				t.Errorf("%+v: pc %#x, known %#x, flags %v", tt, got.PC, got.Known, r.PendingFlags)
			}
		}
	})
}

// checkCopy reads all that may be in a record's copy of the stack at an address, a word at a time: it is there or missing as memory is, as
// far as the copy goes.
func checkCopy(t *testing.T, r *hostbpf.Record, at unwind.Addr, mem unwind.Memory) {
	t.Helper()
	c := reference.StackCopy{At: at, Chunks: r.Copied, Bytes: r.Stack}
	n := 0
	for a := at; a < at+34*unwind.CopyChunk; a += 8 {
		var got, want [8]byte
		err := c.Read(a, got[:])
		if err == nil {
			n += 8
			err = mem.Read(a, want[:])
		} else if errors.Is(err, reference.ErrCopyEnd) {
			continue
		}
		if err != nil || got != want {
			t.Fatalf("the copy at %#x has %x at %#x, memory %x: %v", at, got, a, want, err)
		}
	}
	if n != len(r.Stack) {
		t.Errorf("%d of %d bytes can be read", n, len(r.Stack))
	}
}

// TestFullRing: what finds no room is counted.
func TestFullRing(t *testing.T) {
	each(t, func(t *testing.T, arch unwind.Arch, _ hostbpf.Variant, h *hostbpf.Host) {
		p := chain(arch, 5)
		if err := h.Load(p.Mappings); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			full := i%3 == 0
			if r := take(t, h, &hostbpf.Sample{Registers: p.Registers, RingFull: full}, &p.Memory); (r == nil) != full {
				t.Errorf("sample %d, ring full: %v: record %v", i, full, r)
			}
		}
		if taken, lost := h.Counts(); taken != 10 || lost != 4 {
			t.Errorf("%d taken, %d lost", taken, lost)
		}
	})
}

// TestNamespaces: pids are those of the collector's pid namespace, if the process is visible there.
func TestNamespaces(t *testing.T) {
	each(t, func(t *testing.T, arch unwind.Arch, _ hostbpf.Variant, h *hostbpf.Host) {
		p := chain(arch, 2)
		if err := h.Load(p.Mappings); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			collector, level, inode uint32
			pid, tid                uint32
		}{
			{0, 0, 0, 4711, 4712}, // the initial one
			{0, 2, 77, 4711, 4712},
			{77, 1, 77, 5, 6},
			{77, 4, 77, 5, 6},
			{78, 3, 77, 0, 0}, // another container's
			{77, 0, 77, 0, 0}, // the host's
		} {
			if err := h.Constant("pid_ns_inode", tt.collector); err != nil {
				t.Fatal(err)
			}
			r := take(t, h, &hostbpf.Sample{Registers: p.Registers, NSLevel: tt.level, NSInode: tt.inode, NSPID: 5, NSTID: 6}, &p.Memory)
			if r.NsPid != tt.pid || r.NsTid != tt.tid || r.Pid != 4711 || r.Tid != 4712 {
				t.Errorf("%+v: %d and %d, outside %d and %d", tt, r.NsPid, r.NsTid, r.Pid, r.Tid)
			}
		}
	})
}

// TestDecode: what package ebpf reads out of a record is what was in it.
func TestDecode(t *testing.T) {
	each(t, func(t *testing.T, arch unwind.Arch, _ hostbpf.Variant, h *hostbpf.Host) {
		p := chain(arch, 40)
		if err := h.Load(p.Mappings); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*hostbpf.Sample{
			{},
			{Kernel: []uint64{0xffffffff81000001, 0xffffffff81000002}},
			{Unknown: true},
			{Unknown: true, RingFill: 1 << 20, Kernel: []uint64{0xffffffff81000001}},
		} {
			s.Registers = p.Registers
			r := take(t, h, s, &p.Memory)
			var d ebpf.Sample
			if err := d.Decode(r.Raw); err != nil {
				t.Fatal(err)
			}
			kernel := d.Kernel(nil)
			if !slices.Equal(d.User(nil), r.Frames) || d.Stop != r.StopReason() || d.HasCopy != r.HasCopy || len(kernel) != len(s.Kernel) ||
				d.KernelMode != (len(s.Kernel) > 0) || d.Time != r.Time || d.CPU != 1 || string(d.Comm()) != "host" {
				t.Errorf("%+v: decoded %+v", s, d)
			}
			for i, f := range kernel {
				if f.A != s.Kernel[i] || f.Runtime != unwind.RuntimeKernel || (f.Flags == unwind.FrameReturn) != (i > 0) {
					t.Errorf("kernel frame %d: %+v", i, f)
				}
			}
			if at, chunks, stack := d.Stack(); arch == ebpf.Arch && r.HasCopy && (at != stackAt || chunks != r.Copied || !slices.Equal(stack, r.Stack) || d.Registers != r.Registers) {
				t.Errorf("the copy is decoded as %d bytes at %#x", len(stack), at)
			}
			for n := range len(r.Raw) { // cut short, it is malformed or has less, and nothing worse
				_ = d.Decode(r.Raw[:n])
			}
		}
	})
}
