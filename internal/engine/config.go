// Package engine is the way of a sample from the kernel to the next consumer: one goroutine owns all state, workers read
// what belongs to targets.
package engine

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/hostprofiles/hostprofiles/internal/symbolize/debugfile"
	"github.com/hostprofiles/hostprofiles/internal/symbolize/debuginfod"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Config says what to profile and within which bounds. The receiver has validated it.
type Config struct {
	OnCPUEnabled   bool
	OnCPUFrequency int           // Hz per CPU
	ReportInterval time.Duration // between two calls of the Sink
	MaxFrames      int           // user frames per sample
	Symbolize      bool
	SourceLines    bool                // look lines and inlined calls up in debug information; only if Symbolize is set
	Debuginfod     *debuginfod.Options // servers of debug information; nil for none
	ThreadIDs      bool                // put thread.id on samples (more distinct samples)
	MemoryBytes    uint64
	PayloadBytes   int    // bound of one pprofile.Profiles, marshalled
	Version        string // of the instrumentation scope
}

// ErrCrashed is wrapped by the last status of an engine that has ended by a defect; another one may be started.
var ErrCrashed = errors.New("profiling has stopped by a defect")

// ErrPermanent is wrapped by a Sink's error if the payload would be refused again.
var ErrPermanent = errors.New("refused for good")

// Sink takes one payload, with the number of samples in it, and must not change it. It is called from one goroutine at a
// time. After an error it is called with the payload again for up to a minute, unless the error wraps ErrPermanent; then the
// samples count as lost with the reason "refused".
type Sink func(ctx context.Context, p pprofile.Profiles, samples int) error

// LossReason says why a sample that was taken is in no profile.
type LossReason uint8

// The reasons; taken = delivered + the sum over them.
const (
	LostRingFull  LossReason = iota // no room in the ring from kernel to user space
	LostRefused                     // the next consumer returned an error
	LostShutdown                    // the deadline of Shutdown passed
	LostMemory                      // the memory budget was spent
	LostMalformed                   // a record that could not be decoded
	LostTooLarge                    // a single sample larger than payload_bytes
	LostQueueFull                   // the next consumer was too slow: its queue had no room
	LostCrash                       // the engine ended by a defect of its own

	LossReasons // how many there are
)

var lossNames = [LossReasons]string{"ring_full", "refused", "shutdown", "memory", "malformed", "too_large", "queue_full", "crash"}

// String returns the reason as it stands in metrics.
func (r LossReason) String() string {
	if r < LossReasons {
		return lossNames[r]
	}
	return "unknown"
}

// Stats is a snapshot of the engine's counters since Start (cumulative) and of its sizes (current).
type Stats struct {
	// Cumulative.
	Taken         uint64 // sampling events that a program ran for
	Delivered     uint64 // samples that the Sink accepted
	Lost          [LossReasons]uint64
	KernelSkipped uint64                     // events for which the kernel ran no program
	Stops         [unwind.StopReasons]uint64 // stacks by stop reason
	Frames        map[string]uint64          // frames by runtime (profile.frame.type)
	UnwindErrors  map[UnwindError]uint64     // failed steps
	TablesBuilt   uint64                     // unwind tables
	TableErrors   [TableErrors]uint64        // attempts that left an executable without a table, or without part of it
	TableTime     time.Duration              // spent building tables
	SymbolHits    uint64                     // (executable, address) found in the cache
	SymbolMisses  uint64
	SymbolErrors  uint64                    // executables whose symbols could not be read, or not all
	DebugInfo     [debugfile.Sources]uint64 // executables whose debug information was looked for, by where it was found
	Debuginfod    [FetchResults]uint64      // files of debug information that were wanted of servers
	DebugErrors   uint64                    // batches of look-ups in debug information that failed, in whole or in part
	SidebandLost  uint64                    // mapping and process records that the kernel dropped
	WorkerTimeout uint64                    // reads from targets that passed their deadline
	WorkerPanics  uint64                    // reads from targets that ended in a panic
	WorkerRefused [Refusals]uint64          // reads from targets that were not tried
	UserWalks     uint64                    // samples whose walk was finished in user space
	RuntimeErrors uint64                    // language runtimes, in executables or processes, that frames could not be had of

	// Current.
	MapBytes        uint64 // kernel memory of BPF maps and perf rings
	RingBytes       uint64 // capacity of the sample ring
	RingUsedBytes   uint64 // highest fill seen in the last one to two minutes
	HeapBytes       uint64 // bytes in the engine's own caches
	Processes       uint64
	Executables     uint64
	WorkerStuck     uint64 // reads from targets that hang
	DebuginfodBytes uint64 // in the cache of what servers sent
	FilesUnclosed   uint64 // files of targets that are open because none of their file system can be closed
	Evictions       uint64 // things dropped to stay in the memory budget (cumulative)
}

// UnwindError identifies a kind of failed step.
type UnwindError struct {
	Runtime string
	Reason  string
	Line    int // of the C code below bpf/ at which it failed; 0 if user space finished the walk
}
