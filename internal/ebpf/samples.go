package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

const (
	sampleBytes    = int(unsafe.Sizeof(sample{}))
	registersBytes = int(unsafe.Sizeof(registers{}))
)

// ErrMalformed: a record doesn't hold what its head says.
var ErrMalformed = errors.New("malformed sample record")

// Sample is a view of one record; it is valid as long as the bytes it was decoded from.
type Sample struct {
	Time         uint64 // CLOCK_MONOTONIC, ns
	Weight       uint64
	ID           ProcessID // by the initial pid namespace
	TID          uint32
	PID          uint32 // in the collector's pid namespace; 0 if not visible there
	NSTID        uint32
	CPU          uint32
	Cgroup       uint64 // id of the control group in the unified hierarchy; 1 is the root
	KernelMode   bool
	KernelThread bool // a thread of the kernel's own
	Stop         unwind.StopReason
	StopLine     uint16
	// FailedRuntime is one whose frames are missing, though its code was there; native if none's are. FailedLine is where in the
	// C code that was found out.
	FailedRuntime unwind.Runtime
	FailedLine    uint16
	Duration      time.Duration // of the program, with Options.Measure
	// HasCopy: user space can finish the walk from Registers and the copied stack, of which there is less with CopyFull, or nothing: the ring
	// was filling up.
	HasCopy, CopyFull           bool
	Registers                   unwind.Registers // of the pending frame, with HasCopy
	PendingReturn, PendingGuess bool

	comm   []byte
	kernel []byte
	user   []byte
	copied []byte
	chunks uint32 // that are in copied
}

// Comm is the thread's name.
func (s *Sample) Comm() []byte { return s.comm }

// Kernel appends the kernel frames, leaf first.
func (s *Sample) Kernel(dst []unwind.RawFrame) []unwind.RawFrame {
	for i := 0; i+8 <= len(s.kernel); i += 8 {
		f := unwind.RawFrame{A: binary.NativeEndian.Uint64(s.kernel[i:]), Runtime: unwind.RuntimeKernel}
		if i > 0 {
			f.Flags = unwind.FrameReturn
		}
		dst = append(dst, f)
	}
	return dst
}

// User appends the user frames that BPF found, leaf first.
func (s *Sample) User(dst []unwind.RawFrame) []unwind.RawFrame {
	for b := s.user; len(b) >= 8; {
		w := binary.NativeEndian.Uint64(b)
		head := w >> uint(abi.LoopFrameWordFRAME_ADDR_BITS)
		f := unwind.RawFrame{
			A:       w & (1<<uint(abi.LoopFrameWordFRAME_ADDR_BITS) - 1),
			Runtime: unwind.Runtime(head >> uint(abi.LoopFrameWordFRAME_FLAG_BITS)),
			Flags:   unwind.FrameFlags(head & (1<<uint(abi.LoopFrameWordFRAME_FLAG_BITS) - 1)),
		}
		if b = b[8:]; f.Runtime.Words() > 1 && len(b) >= 8 {
			f.B, b = binary.NativeEndian.Uint64(b), b[8:]
		}
		dst = append(dst, f)
	}
	return dst
}

// Stack is the copied top of the user stack, as reference.StackCopy has it: at is the pending frame's stack pointer rounded down to 8.
func (s *Sample) Stack() (at unwind.Addr, chunks uint32, b []byte) {
	return unwind.Addr(s.Registers.Reg[StackPointer] &^ 7), s.chunks, s.copied
}

// ReadSamples hands every record that is in the ring now to fn, which must not keep b.
func (k *Kernel) ReadSamples(fn func(b []byte)) error {
	k.reader.SetDeadline(time.Unix(1, 0)) // in the past: don't wait
	for {
		err := k.reader.ReadInto(&k.record)
		switch {
		case err == nil:
			fn(k.record.RawSample)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return fmt.Errorf("reading samples: %w", err)
		}
	}
}

// SampleTime is the time of the record in b, without decoding the rest; 0 if it's too short.
func SampleTime(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// Decode makes s a view of the record in b.
func (s *Sample) Decode(b []byte) error {
	if len(b) < sampleBytes {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	var h sample
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), sampleBytes), b)
	rest := b[sampleBytes:]
	kernel, user := 8*int(h.KernelWords), 8*int(h.UserWords)
	if kernel+user > len(rest) || h.Stop >= uint8(unwind.StopReasons) {
		return fmt.Errorf("%w: %d words in %d bytes", ErrMalformed, h.KernelWords+h.UserWords, len(b))
	}
	*s = Sample{
		Time: h.Time, Weight: h.Weight,
		ID:  ProcessID{PID: h.Pid, StartTime: h.StartTime, ExecID: h.ExecId},
		TID: h.Tid, PID: h.NsPid, NSTID: h.NsTid, CPU: h.Cpu, Cgroup: h.Cgroup,
		Duration:     time.Duration(h.Duration),
		KernelThread: h.Flags&uint8(abi.LoopSampleFlagSAMPLE_KERNEL_THREAD) != 0,
		KernelMode:   h.Flags&uint8(abi.LoopSampleFlagSAMPLE_KERNEL_MODE) != 0,
		Stop:         unwind.StopReason(h.Stop), StopLine: h.StopLine,
		FailedRuntime: unwind.Runtime(h.FailedRuntime), FailedLine: h.FailedLine,
		kernel: rest[:kernel], user: rest[kernel : kernel+user],
		comm: b[sampleBytes-len(h.Comm) : sampleBytes],
	}
	for i, c := range s.comm {
		if c == 0 {
			s.comm = s.comm[:i]
			break
		}
	}
	s.CopyFull = h.Flags&uint8(abi.LoopSampleFlagSAMPLE_COPY_FULL) != 0
	rest = rest[kernel+user:]
	if h.Flags&uint8(abi.LoopSampleFlagSAMPLE_COPY) == 0 || len(rest) == 0 {
		return nil
	}
	s.chunks = h.Copied
	return s.decodeCopy(rest, int(h.CopyBytes))
}

func (s *Sample) decodeCopy(b []byte, copied int) error {
	if len(b) < registersBytes+copied {
		return fmt.Errorf("%w: a copy of %d bytes in %d", ErrMalformed, copied, len(b))
	}
	var r registers
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r)), registersBytes), b)
	s.Registers.PC = unwind.Addr(r.Pc)
	s.Registers.Reg = r.Reg
	s.Registers.Known = r.Known
	s.PendingReturn = r.Flags&uint32(abi.LoopFrameWordFRAME_RETURN) != 0
	s.PendingGuess = r.Flags&uint32(abi.LoopFrameWordFRAME_GUESSED) != 0
	s.copied = b[registersBytes : registersBytes+copied]
	s.HasCopy = true
	return nil
}

func loadCounters(c *counters) (taken, lostRing uint64) {
	return atomic.LoadUint64(&c.Taken), atomic.LoadUint64(&c.LostRing)
}
