package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	perfAttrSize = uint32(unsafe.Sizeof(unix.PerfEventAttr{}))
	// sidebandBytes is a ring's usual size: with its control page just what kernel.perf_event_mlock_kb allows a CPU by
	// default. On hosts with many CPUs rings are smaller, so that all of them stay a small part of the memory budget.
	sidebandBytes    = 512 << 10
	minSidebandBytes = 64 << 10

	// include/uapi/linux/perf_event.h, Linux 6.18
	miscCommExec = 1 << 13
	miscMmapData = 1 << 13
)

// EventKind is a kind of side-band record.
type EventKind uint8

// The kinds.
const (
	EventMmap EventKind = iota
	EventComm           // a thread's name was set
	EventExec           // a process executed a new program; Comm is its name
	EventFork           // a process (PID differs from PPID) or thread began
	EventExit           // a thread ended
	EventLost           // the kernel dropped Lost records here, or nobody knows how many: then Lost is 1
)

// Event is a side-band record: what became of processes and their mappings. Pids are as the collector's pid namespace
// numbers them.
type Event struct {
	Kind       EventKind
	Time       uint64 // CLOCK_MONOTONIC, ns
	PID, TID   uint32
	PPID, PTID uint32
	Comm       string

	// EventMmap: an executable mapping
	Addr, Len, Offset      uint64
	Major, Minor           uint32
	Inode, InodeGeneration uint64
	Path                   string

	Lost uint64
}

// Sideband reads mappings, names, forks and exits of all processes from per-CPU perf rings. It needs no tracefs. It is used
// by one goroutine.
type Sideband struct {
	log   *zap.Logger
	rings map[int]*sidebandRing
	// unread is what the next Read begins with: what rings that were closed still held, and what was missed.
	unread  []Event
	size    int // of a ring, bytes
	started bool
}

type sidebandRing struct {
	fd    int
	alive liveness
	mem   []byte // the control page, then the data pages
	buf   []byte
}

// OpenSideband begins recording on all online CPUs. maxBytes is what all rings together should take; each has at least 64
// KiB.
func OpenSideband(log *zap.Logger, maxBytes int) (*Sideband, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	s := &Sideband{log: log, rings: map[int]*sidebandRing{}, size: sidebandRingBytes(len(cpus), maxBytes)}
	if err := s.Follow(); err != nil {
		s.Close()
		return nil, err
	}
	s.started = true
	return s, nil
}

// sidebandRingBytes is a power of two.
func sidebandRingBytes(cpus, maxBytes int) int {
	size := sidebandBytes
	for size > minSidebandBytes && size*cpus > maxBytes {
		size /= 2
	}
	return size
}

// Follow opens rings on CPUs that came and closes those of CPUs that went. A CPU that went and came back between two
// calls gets a new ring at the next call but one at the latest: the one that it had is dead, see liveness. Whatever
// happened on a CPU between its return and the opening of its ring was not recorded, so each ring that is opened later
// than at the start counts as a loss. A CPU that fails does not keep the others from being recorded.
func (s *Sideband) Follow() error {
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	errs := cpuErrors{doing: "recording process events on"}
	for cpu, r := range s.rings {
		if !slices.Contains(cpus, cpu) || !r.alive.check(r.fd) {
			s.unread = r.read(s.unread)
			r.close()
			delete(s.rings, cpu)
		}
	}
	for _, cpu := range cpus {
		if _, ok := s.rings[cpu]; ok {
			continue
		}
		r, err := s.openRing(cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err != nil {
			errs.add(cpu, err)
			continue
		}
		s.rings[cpu] = r
		if s.started {
			s.log.Info("a CPU came online: what processes did there until now is not known", zap.Int("cpu", cpu))
			s.unread = append(s.unread, Event{Kind: EventLost, Time: monotonic(), Lost: 1})
		}
	}
	return errs.join()
}

// monotonic is the time of the records' clock.
func monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it fails for unknown clocks only
	return uint64(now.Nano())
}

// Bytes is the kernel memory of the rings.
func (s *Sideband) Bytes() int {
	n := 0
	for _, r := range s.rings {
		n += len(r.mem)
	}
	return n
}

// FDs can be polled: one becomes readable when its ring is an eighth full.
func (s *Sideband) FDs() []int {
	var fds []int
	for _, r := range s.rings {
		fds = append(fds, r.fd)
	}
	return fds
}

// Close ends the recording.
func (s *Sideband) Close() {
	for cpu, r := range s.rings {
		r.close()
		delete(s.rings, cpu)
	}
}

// Read appends every event recorded so far, in order for each CPU only.
func (s *Sideband) Read(dst []Event) []Event {
	dst = append(dst, s.unread...)
	s.unread = nil
	for _, r := range s.rings {
		dst = r.read(dst)
	}
	return dst
}

// openRing takes a smaller ring where other users of perf rings have left too little of the memory that the kernel allows
// for them.
func (s *Sideband) openRing(cpu int) (r *sidebandRing, err error) {
	for size := s.size; size >= minSidebandBytes/2; size /= 2 {
		r, err = openSidebandRing(cpu, size)
		if !errors.Is(err, errLocked) {
			return r, err
		}
	}
	return nil, err
}

// errLocked does not wrap EPERM: it is no missing privilege, and passes when others give memory back.
var errLocked = errors.New("no memory for perf rings is left: raise the sysctl kernel.perf_event_mlock_kb, or give CAP_IPC_LOCK")

func openSidebandRing(cpu, bytes int) (*sidebandRing, error) {
	page := unix.Getpagesize()
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Size:        perfAttrSize,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED, // see liveness
		Wakeup:      uint32(bytes / 8),
		Clockid:     unix.CLOCK_MONOTONIC,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening a perf event: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, page+bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EPERM {
		err = errLocked
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping a perf ring: %w", err)
	}
	return &sidebandRing{fd: fd, mem: mem}, nil
}

func (r *sidebandRing) close() {
	_ = unix.Munmap(r.mem)
	unix.Close(r.fd)
}

func (r *sidebandRing) control() *unix.PerfEventMmapPage {
	return (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
}

// read decodes the records between tail and head. The kernel never overwrites what is not read; it counts what it dropped
// in a later record.
func (r *sidebandRing) read(dst []Event) []Event {
	c := r.control()
	data := r.mem[unix.Getpagesize():]
	mask := uint64(len(data) - 1)
	head, tail := atomic.LoadUint64(&c.Data_head), c.Data_tail
	for head-tail >= 8 {
		size := uint64(binary.NativeEndian.Uint16(data[(tail+6)&mask:]))
		if size < 8 || size > head-tail {
			// not what the kernel writes: give up what is there, and say so
			dst = append(dst, Event{Kind: EventLost, Lost: 1})
			tail = head
			break
		}
		dst = appendEvent(dst, r.contiguous(data, tail, size))
		tail += size
	}
	atomic.StoreUint64(&c.Data_tail, tail)
	return dst
}

// contiguous returns the size bytes at position at, copied if they wrap around.
func (r *sidebandRing) contiguous(data []byte, at, size uint64) []byte {
	from := at & uint64(len(data)-1)
	if from+size <= uint64(len(data)) {
		return data[from : from+size]
	}
	r.buf = append(r.buf[:0], data[from:]...)
	return append(r.buf, data[:size-uint64(len(r.buf))]...)
}

// appendEvent decodes one record (struct perf_event_header and what follows it, man perf_event_open). The last 24 bytes are
// the sample_id that sample_type asks for: pid, tid, time, cpu.
func appendEvent(dst []Event, b []byte) []Event {
	const header, id = 8, 24
	ne := binary.NativeEndian
	kind, misc := ne.Uint32(b), ne.Uint16(b[4:])
	if len(b) < header+id {
		return dst
	}
	e := Event{Time: ne.Uint64(b[len(b)-16:])}
	body := b[header : len(b)-id]
	switch {
	case kind == unix.PERF_RECORD_MMAP2 && len(body) >= 64 && misc&miscMmapData == 0:
		e.Kind = EventMmap
		e.PID, e.TID = ne.Uint32(body), ne.Uint32(body[4:])
		e.Addr, e.Len, e.Offset = ne.Uint64(body[8:]), ne.Uint64(body[16:]), ne.Uint64(body[24:])
		e.Major, e.Minor = ne.Uint32(body[32:]), ne.Uint32(body[36:])
		e.Inode, e.InodeGeneration = ne.Uint64(body[40:]), ne.Uint64(body[48:])
		e.Path = cString(body[64:])
	case kind == unix.PERF_RECORD_COMM && len(body) >= 8:
		e.Kind = EventComm
		if misc&miscCommExec != 0 {
			e.Kind = EventExec
		}
		e.PID, e.TID = ne.Uint32(body), ne.Uint32(body[4:])
		e.Comm = cString(body[8:])
	case (kind == unix.PERF_RECORD_FORK || kind == unix.PERF_RECORD_EXIT) && len(body) >= 24:
		e.Kind = EventFork
		if kind == unix.PERF_RECORD_EXIT {
			e.Kind = EventExit
		}
		e.PID, e.PPID, e.TID, e.PTID = ne.Uint32(body), ne.Uint32(body[4:]), ne.Uint32(body[8:]), ne.Uint32(body[12:])
	case kind == unix.PERF_RECORD_LOST && len(body) >= 16:
		e.Kind, e.Lost = EventLost, ne.Uint64(body[8:])
	default:
		return dst
	}
	return append(dst, e)
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
