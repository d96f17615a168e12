package hostbpf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/hostbpf/tape"
)

// timeout is generous: a sample takes microseconds.
const timeout = 60 * time.Second

// maxAnswer bounds what the program may send at once: a record has less than 64 KiB.
const maxAnswer = 1 << 20

// Host is a running host build. It is used by one goroutine.
type Host struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	in     *bufio.Writer
	out    *bufio.Reader
	stderr bytes.Buffer
	taken  uint64
	lost   uint64
	calls  uint64
	old    bool // it searches less, see reference.Walker
	plain  bool // it does not search at all
}

// Start builds the program if need be and runs it.
func Start(arch unwind.Arch, v Variant) (*Host, error) {
	program, err := build(arch, v)
	if err != nil {
		return nil, err
	}
	h := &Host{cmd: exec.Command(program), old: v == Tail}
	// Looking for leaks at the end takes ptrace, which containers forbid.
	h.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", "UBSAN_OPTIONS=print_stacktrace=1")
	h.cmd.Stderr = &h.stderr
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("connecting to the host build: %w", err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the host build: %w", err)
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the host build: %w", err)
	}
	h.in, h.out = bufio.NewWriterSize(h.stdin, 1<<16), bufio.NewReaderSize(stdout, 1<<16)
	return h, nil
}

// Close ends the program; the error says how it ended if that was not as it should.
func (h *Host) Close() error {
	h.stdin.Close()
	if err := h.cmd.Wait(); err != nil {
		return fmt.Errorf("the host build ended: %w\n%s", err, &h.stderr)
	}
	return nil
}

// message is struct message of bpf/host/messages.h.
type message struct {
	Name  [24]byte
	Index uint64
	Size  uint64
}

// sampleMessage is struct host_sample.
type sampleMessage struct {
	PC            uint64
	Reg           [32]uint64
	ThreadPointer uint64
	StartTime     uint64
	Time          uint64
	RingFill      uint64

	PID, TID, NSPID, NSTID uint32
	NSLevel, NSInode       uint32
	ExecID                 uint32
	CPU                    uint32
	TaskFlags              uint32
	KernelFrames           uint32

	KernelMode, Compat, NoMM, InExec, RingFull, Ask bool
	_                                               [2]byte
}

func (h *Host) send(name string, index uint64, payload any) error {
	size := 0
	if payload != nil {
		if size = binary.Size(payload); size < 0 {
			return fmt.Errorf("sending %s to the host build: not of a fixed size", name)
		}
	}
	m := message{Index: index, Size: uint64(size)}
	copy(m.Name[:], name)
	err := binary.Write(h.in, binary.NativeEndian, &m)
	if err == nil && payload != nil {
		err = binary.Write(h.in, binary.NativeEndian, payload)
	}
	if err != nil {
		return h.died(fmt.Errorf("sending %s to the host build: %w", name, err))
	}
	return nil
}

func (h *Host) receive() (name string, index uint64, payload []byte, err error) {
	var m message
	if err = binary.Read(h.out, binary.NativeEndian, &m); err != nil {
		return "", 0, nil, h.died(fmt.Errorf("waiting for the host build: %w", err))
	}
	name = string(bytes.TrimRight(m.Name[:], "\x00"))
	if m.Size > maxAnswer {
		return "", 0, nil, fmt.Errorf("the host build's %s has %d bytes", name, m.Size)
	}
	if name == "read" { // it says how much to read, nothing follows
		return name, m.Index, make([]byte, m.Size), nil
	}
	payload = make([]byte, m.Size)
	if _, err = io.ReadFull(h.out, payload); err != nil {
		return "", 0, nil, h.died(fmt.Errorf("reading the host build's %s: %w", name, err))
	}
	return name, m.Index, payload, nil
}

// died adds what the program said last: a sanitizer's report.
func (h *Host) died(err error) error {
	return errors.Join(err, h.Close())
}

// Constant sets one of the constants that user space sets before loading.
func (h *Host) Constant(name string, value uint32) error { return h.send(name, uint64(value), nil) }

// Guesses has the program guess callers, as it does from the start, or by the frame pointer's record alone.
func (h *Host) Guesses(on bool) error {
	h.plain = !on
	if on {
		return h.Constant("guesses", 1)
	}
	return h.Constant("guesses", 0)
}

// Counts are the events taken and those lost because the ring was full, over the Host's life.
func (h *Host) Counts() (taken, lost uint64) { return h.taken, h.lost }

// Calls are the lookups in maps and the reads of user memory that the last sample took: its cost.
func (h *Host) Calls() int { return int(h.calls) }

// sendMemory makes memory known, so that the program need not ask for it.
func (h *Host) sendMemory(m *tape.Memory) error {
	for _, r := range m.Ranges() {
		if err := h.send("memory", uint64(r.Addr), r.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// take sends a sample and serves the program's questions until its record is there; nil if the ring had no room.
func (h *Host) take(s *sampleMessage, kernel []uint64, mem unwind.Memory) ([]byte, error) {
	if err := h.send("forget", 0, nil); err != nil {
		return nil, err
	}
	if known, ok := mem.(*tape.Memory); ok {
		if err := h.sendMemory(known); err != nil {
			return nil, err
		}
	} else {
		s.Ask = true
	}
	payload, err := binary.Append(nil, binary.NativeEndian, s)
	if err != nil {
		return nil, fmt.Errorf("encoding a sample: %w", err)
	}
	for _, k := range kernel {
		payload = binary.NativeEndian.AppendUint64(payload, k)
	}
	if err := h.send("sample", 0, payload); err != nil {
		return nil, err
	}
	watchdog := time.AfterFunc(timeout, func() { _ = h.cmd.Process.Kill() })
	defer watchdog.Stop()
	return h.serve(mem)
}

func (h *Host) serve(mem unwind.Memory) (record []byte, err error) {
	for {
		if err := h.in.Flush(); err != nil {
			return nil, h.died(fmt.Errorf("writing to the host build: %w", err))
		}
		name, index, payload, err := h.receive()
		if err != nil {
			return nil, err
		}
		switch name {
		case "read":
			if mem.Read(unwind.Addr(index), payload) != nil {
				payload = nil
			}
			if err := h.send("data", 0, payload); err != nil {
				return nil, err
			}
		case "record":
			if record != nil {
				return nil, errors.New("the host build made two records of one sample")
			}
			record = payload
		case "done":
			h.calls = index
			return record, h.count(payload, record != nil)
		default:
			return nil, fmt.Errorf("the host build says %q", name)
		}
	}
}

// count checks that the sample is in exactly one of the counters.
func (h *Host) count(payload []byte, recorded bool) error {
	cpus := make([]abi.LoopCounters, len(payload)/binary.Size(abi.LoopCounters{}))
	if _, err := binary.Decode(payload, binary.NativeEndian, cpus); err != nil {
		return fmt.Errorf("decoding the host build's counters: %w", err)
	}
	var taken, lost uint64
	for _, c := range cpus {
		taken += c.Taken
		lost += c.LostRing
	}
	wantLost := h.lost
	if !recorded {
		wantLost++
	}
	if taken != h.taken+1 || lost != wantLost {
		return fmt.Errorf("after %d samples, %d of them lost, and one more (recorded: %v) %d were taken and %d lost",
			h.taken, h.lost, recorded, taken, lost)
	}
	h.taken, h.lost = taken, lost
	return nil
}
