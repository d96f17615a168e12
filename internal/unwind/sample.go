package unwind

// Runtime tells who made a frame. The same values stand in bpf/abi.h; a test compares them.
type Runtime uint8

// The runtimes of frames.
const (
	RuntimeNative Runtime = iota
	RuntimeKernel
	RuntimePython
	RuntimeHotspot
	RuntimeV8
)

// Words is how many words a frame has in a record: see RawFrame.
func (r Runtime) Words() int {
	if r == RuntimeNative || r == RuntimeKernel {
		return 1
	}
	return 2
}

// FrameFlags qualify a RawFrame.
type FrameFlags uint8

const (
	// FrameReturn: the address is a return address; the call is just before it.
	FrameReturn FrameFlags = 1 << iota
	// FrameGuessed: found by a step through code without unwind information: by a return address on the stack or by the frame
	// pointer.
	FrameGuessed
)

// RawFrame is what a walk pushed: for native and kernel frames A is the Addr and B is unused; a language runtime gives
// both words a meaning of its own; A has at most 56 bits.
type RawFrame struct {
	A, B    uint64
	Runtime Runtime
	Flags   FrameFlags
}

// Managed tells whether the frame is a language runtime's, which alone knows what A and B mean.
func (f RawFrame) Managed() bool { return f.Runtime.Words() > 1 }

// LookupAddr is the address to look symbols and rules up by: a return address may lie behind the function that called
// (a call of a noreturn function is its last instruction), so the byte before it counts. It is the only place that
// knows this.
func LookupAddr(pc Addr, isReturn bool) Addr {
	if isReturn {
		return pc - 1
	}
	return pc
}

// LookupAddr returns the address by which a native or kernel frame's symbol is found.
func (f RawFrame) LookupAddr() Addr { return LookupAddr(Addr(f.A), f.Flags&FrameReturn != 0) }

// StopReason says why a walk ended. The same values stand in bpf/abi.h; a test compares them.
type StopReason uint8

const (
	// StopRoot: the thread's outermost frame was reached; the stack is complete.
	StopRoot StopReason = iota
	// StopNoUser: a kernel thread: there is no user stack.
	StopNoUser
	// StopGone: the sample fell into exec or exit after the kernel had taken the old address space away; there is no
	// user stack any more.
	StopGone
	// StopMaxFrames: max_frames were found.
	StopMaxFrames
	// StopTailCalls: an old kernel's limit of chained programs.
	StopTailCalls
	// StopNoProcess: the process's mappings are not known.
	StopNoProcess
	// StopNoMapping: the pc is in no executable mapping.
	StopNoMapping
	// StopNoTable: the executable's unwind table is not there (yet).
	StopNoTable
	// StopNoRule: the table has no rule here, and neither the stack nor the frame pointer leads on.
	StopNoRule
	// StopMemory: stack memory could not be read.
	StopMemory
	// StopRegister: a rule needs a register whose value is lost.
	StopRegister
	// StopNoProgress: the caller's frame would lie below the current one.
	StopNoProgress
	// StopCopyEnd: the copied top of the stack ended (only for walks in user space).
	StopCopyEnd
	// StopABI: a 32-bit process or other unsupported register set.
	StopABI
	// StopStale: mappings changed under the walk.
	StopStale
	// StopRuntime: a language runtime's unwinder failed.
	StopRuntime
	// StopRingBusy: the copied top of the stack ended early, because the sample ring was filling up.
	StopRingBusy
	// StopElsewhere: the process is not in the collector's pid namespace, so nothing can be read of it.
	StopElsewhere
	// StopNoUnwindInfo: code without unwind information that no table can have any of (anonymous memory: a JIT compiler's; a
	// file that can't be read), and nothing on the stack looks like its return address.
	StopNoUnwindInfo

	StopReasons // how many there are
)

var stopNames = [StopReasons]string{
	"root", "no_user_stack", "address_space_gone", "max_frames", "tail_calls", "no_process", "no_mapping", "no_table",
	"no_rule", "memory", "register", "no_progress", "copy_end", "abi", "stale", "runtime", "ring_busy", "other_pid_namespace",
	"no_unwind_info",
}

// String returns the reason as it stands in metrics and attributes.
func (s StopReason) String() string {
	if s < StopReasons {
		return stopNames[s]
	}
	return "unknown"
}

// Complete tells whether everything that there was to walk was walked.
func (s StopReason) Complete() bool { return s == StopRoot || s == StopNoUser || s == StopGone }

// How far guesses through code without unwind information go; the same values stand in bpf/abi.h, a test compares them.
const (
	GuessWords     = 32 // of the stack, at once
	GuessMaxChunks = 2  // so many times, at most
	GuessMinChunks = 1  // with kernels without bpf_loop
	GuessMaxTries  = 8  // words of a chunk that look like return addresses
	GuessMinTries  = 3
	GuessSearches  = 64      // of the stack, in one walk
	GuessCode      = 256     // bytes of code from pc on
	GuessTokens    = 8       // instructions of a prologue or epilogue
	GuessReturns   = 8       // instructions in that code that may be returns
	GuessExits     = 4       // of them, whose epilogues are tried
	GuessNear      = 1 << 20 // bytes from a frame's stack pointer to what is believed to be part of it
)

// In what units a stack is copied for user space, in bytes, and how many of them at most; as in bpf/abi.h.
const (
	CopyChunk  = 4096
	CopyChunks = 32
)

// Memory reads a process's memory, or a copy of part of it. It fails rather than returning less than asked for.
type Memory interface {
	// Read fills b from the address a on.
	Read(a Addr, b []byte) error
}

// Registers are a frame's registers by DWARF number (amd64: 0 to 15, arm64: 0 to 31) and its pc.
type Registers struct {
	PC    Addr
	Reg   [32]uint64
	Known uint32 // bit n: Reg[n] is valid
}

// Function is a function as pprof means it.
type Function struct {
	Name       string // for people (demangled)
	SystemName string // as the symbol table has it; empty if equal to Name
	File       string
	StartLine  int
}

// Line is a place in a Function; a Location with inlined calls has several, the innermost first.
type Line struct {
	Function Function
	Line     int
	Column   int
}
