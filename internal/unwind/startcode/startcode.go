// Package startcode finds, by instruction patterns, the few places in code without call frame information that a walk
// must know: where threads and coroutines begin and the trampolines by which signal handlers return. musl's libc is built without call
// frame information, and hand-written start code often is.
//
// Patterns: musl 1.2.5, src/env/__libc_start_main.c, src/thread/pthread_create.c, src/thread/{x86_64,aarch64}/clone.s,
// src/signal/{x86_64,aarch64}/restore.s, arch/{x86_64,aarch64}/crt_arch.h. Others are named where they are looked for.
package startcode

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
	"github.com/hostprofiles/hostprofiles/internal/unwind/tablebuild"
)

const (
	// maxScan bounds how much code of one file is read.
	maxScan = 64 << 20
	// minGap is the smallest range worth reading: shorter ones are the padding between functions.
	minGap = 16
	// In libraries of moderate size the shorter ones are looked at as well, for system calls without a rule.
	maxLibrary             = 8 << 20
	minSyscall, maxSyscall = 8, 64
	// Functions of this size are looked at as the one that a context of makecontext returns to.
	minContext, maxContext = 20, 64
	// In files of the vdso's size even the shortest are searched: arm64's of Linux 5.10 has call frame information for
	// all but the trampoline, two instructions at the end of its code.
	maxVDSO = 64 << 10
	// maxGaps bounds how many ranges are read.
	maxGaps = 1 << 20
	// maxFound bounds the places of each kind; real files have less than ten.
	maxFound = 1024
	maxStubs = 1 << 16
	// stubBytes is what a stub takes, while the list grows and when it is put in order.
	stubBytes = 4 * uint64(unsafe.Sizeof(span{}))
	// maxEntry is how long the code at the entry point may be up to its first call.
	maxEntry = 128 // Free Pascal's has 80 bytes

	chunk = 256 << 10
	// before and after are what scan may look at around each position: more than the patterns have.
	before = 32
	after  = 16
)

// Stats says what was found.
type Stats struct {
	Scanned     uint64 // bytes
	Entry       bool   // the entry point has no other rule
	Starts      int    // places that call main, a thread's start function, or what clone was given
	Trampolines int    // of signal handlers
	Syscalls    int    // instructions around clone's system call
	Contexts    int    // what the functions of makecontext and of Boost's fibers return to
	Stubs       int    // jumps to imported functions
}

// span is a range of addresses that gets a rule.
type span struct {
	start, end unwind.FileAddr
	rule       unwind.Rule
}

// candidate is an indirect call whose result goes to a direct call.
type candidate struct {
	span
	target unwind.FileAddr // of the direct call
	padded bool            // nothing but padding follows it
}

// Find returns rows for those places of f's executable segments where t has no rule. Errors are those of reading, and of f's
// Budget: then the table is good as far as it goes.
func Find(f *elffile.File, t *unwind.Table) (*unwind.Table, Stats, error) {
	s := scanner{f: f, t: t, exec: f.Code()}
	if f.Arch == unwind.ArchARM64 {
		s.scan = s.scanARM64
	} else {
		s.scan = s.scanAMD64
	}
	var code uint64
	for _, g := range s.exec {
		code += g.FileSize
	}
	smallest := unwind.FileAddr(minGap)
	if code <= maxVDSO {
		smallest = minSyscall
	}
	for _, g := range s.exec {
		if err := s.segment(g, code <= maxLibrary, smallest); err != nil {
			return &unwind.Table{}, s.stats, fmt.Errorf("scanning code: %w", err)
		}
	}
	s.entry()
	found, err := s.table()
	if err = errors.Join(s.refused, err); err != nil {
		err = fmt.Errorf("collecting what was found in code: %w", err)
	}
	return found, s.stats, err
}

// segment scans the parts of a segment that have no rule and smallest bytes or more; small asks for system calls in very
// small parts too.
func (s *scanner) segment(g unwind.Segment, small bool, smallest unwind.FileAddr) error {
	var code unwind.FileAddr // where what has a rule began
	for lo, hi := range tablebuild.Uncovered(s.t, g.VAddr, g.VAddr+unwind.FileAddr(min(g.FileSize, g.MemSize))) {
		size := hi - lo
		if small && code != 0 && lo-code >= minContext && lo-code <= maxContext {
			s.context(code)
		}
		code = hi
		if size < minSyscall || size < smallest && !small {
			continue
		}
		if s.gaps++; s.gaps > maxGaps {
			return nil
		}
		if small && size <= maxSyscall && s.clone(lo, hi) || size < smallest {
			continue
		}
		if err := s.gap(lo, hi); err != nil {
			return err
		}
	}
	return nil
}

type scanner struct {
	f     *elffile.File
	t     *unwind.Table
	exec  []unwind.Segment
	gaps  int
	stats Stats
	// scan looks for patterns at the positions from up to to in b, which is the code at the address at.
	scan func(b []byte, at unwind.FileAddr, from, to int)

	space      []byte
	candidates []candidate
	spans      []span // that need no more evidence once there is a trampoline
	trampoline []span
	syscalls   []span
	contexts   []span
	stubs      []span
	refused    error // why there are not more of them
	entrySpan  span
}

// gap scans one range, in chunks that overlap so that patterns may span them.
func (s *scanner) gap(lo, hi unwind.FileAddr) error {
	from := 0
	for {
		n := min(uint64(hi-lo), chunk)
		if s.stats.Scanned+n > maxScan {
			return nil
		}
		s.stats.Scanned += n
		b := s.buf(int(n))
		if err := s.f.ReadAddr(b, lo); err != nil {
			if errors.Is(err, elffile.ErrTruncated) || errors.Is(err, elffile.ErrNoData) {
				return nil // the headers promise more than there is
			}
			return err
		}
		if lo+unwind.FileAddr(n) >= hi {
			s.scan(b, lo, from, len(b))
			return nil
		}
		s.scan(b, lo, from, len(b)-after)
		lo += chunk - after - before
		from = before
	}
}

// buf is a buffer of n bytes, at most a chunk, that is used again and again.
func (s *scanner) buf(n int) []byte {
	if s.space == nil {
		s.space = make([]byte, chunk)
	}
	return s.space[:n]
}

func (s *scanner) foundTrampoline(start, end unwind.FileAddr) {
	if len(s.trampoline) < maxFound {
		// The handler returns to the start, and return addresses are looked up by the byte before.
		s.trampoline = append(s.trampoline, span{start - 1, end, unwind.Rule{CFA: unwind.CFASignal}})
	}
}

func (s *scanner) foundStart(start, end unwind.FileAddr) {
	if len(s.spans) < maxFound {
		s.spans = append(s.spans, span{start, end, rootRule()})
	}
}

func (s *scanner) foundCandidate(c candidate) {
	if c.rule = rootRule(); len(s.candidates) < maxFound {
		s.candidates = append(s.candidates, c)
	}
}

func rootRule() unwind.Rule { return unwind.Rule{CFA: unwind.CFARoot} }

// clone looks for what glibc's clone, clone3 and vfork for amd64 leave without a rule: the system call and the return
// after it, which the parent executes like any other code, but the child on a new stack (glibc 2.41,
// sysdeps/unix/sysv/linux/x86_64/{clone,clone3}.S). The rule before holds on for the parent.
func (s *scanner) clone(lo, hi unwind.FileAddr) (ok bool) {
	if s.f.Arch != unwind.ArchAMD64 || len(s.syscalls) >= maxFound {
		return false
	}
	b := s.buf(int(hi - lo))
	if s.f.ReadAddr(b, lo) != nil || b[0] != 0x0f || b[1] != 0x05 || b[len(b)-1] != 0xc3 {
		return false
	}
	r := s.t.Lookup(lo - 1)
	if r.CFA != unwind.CFAReg || r.Reg != unwind.AMD64RSP {
		return false
	}
	s.syscalls = append(s.syscalls, span{lo, hi, r})
	return true
}

// contextAMD64 is how glibc's __start_context for amd64 begins: mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi (glibc 2.36,
// sysdeps/unix/sysv/linux/x86_64/__start_context.S).
const contextAMD64 = "\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85\xff"

// context looks for the function whose beginning makecontext puts below a coroutine as its return address: nothing called the
// coroutine from there, so it is its first function. Return addresses are looked up by the byte before, which is padding.
func (s *scanner) context(start unwind.FileAddr) {
	if s.f.Arch != unwind.ArchAMD64 || len(s.contexts) >= maxFound {
		return
	}
	b := s.buf(len(contextAMD64))
	if s.f.ReadAddr(b, start) == nil && string(b) == contextAMD64 {
		s.foundContext(start, start)
	}
}

// foundContext notes what a coroutine returns to, and where that code ends: nothing has called the coroutine. Return addresses are looked up
// by the byte before.
func (s *scanner) foundContext(start, end unwind.FileAddr) {
	if len(s.contexts) < maxFound {
		s.contexts = append(s.contexts, span{start - 1, end, rootRule()})
	}
}

// executable tells whether a lies in an executable segment.
func (s *scanner) executable(a unwind.FileAddr) bool {
	for _, g := range s.exec {
		if a >= g.VAddr && uint64(a-g.VAddr) < g.MemSize {
			return true
		}
	}
	return false
}

// entry marks the code from the entry point to its first call.
func (s *scanner) entry() {
	lo := s.f.Entry
	if lo == 0 || !s.executable(lo) || s.t.Lookup(lo).CFA != unwind.CFANone {
		return
	}
	for _, hi := range tablebuild.Uncovered(s.t, lo, lo+maxEntry) {
		b := make([]byte, hi-lo)
		for len(b) > 0 && s.f.ReadAddr(b, lo) != nil {
			b = b[:len(b)-1]
		}
		var n int
		if s.f.Arch == unwind.ArchARM64 {
			n = firstBranchARM64(b)
		} else {
			n = firstCallAMD64(b)
		}
		if n > 0 {
			s.entrySpan, s.stats.Entry = span{lo, lo + unwind.FileAddr(n), rootRule()}, true
		}
		return
	}
}

// table puts together what there is evidence for. The patterns of thread starts are ordinary code elsewhere, so they
// count only in a libc without call frame information, which shows in a signal trampoline or an entry point that have
// none either.
func (s *scanner) table() (*unwind.Table, error) {
	all := slices.Clone(s.trampoline)
	s.stats.Trampolines = len(all)
	if len(all) > 0 || s.stats.Entry {
		noReturn := map[unwind.FileAddr]bool{}
		for _, c := range s.candidates {
			noReturn[c.target] = noReturn[c.target] || c.padded
		}
		all = append(all, s.spans...)
		for _, c := range s.candidates {
			// arm64's pattern is just two calls, so there the second one must not return.
			if s.f.Arch == unwind.ArchAMD64 || noReturn[c.target] {
				all = append(all, c.span)
			}
		}
	}
	s.stats.Starts = len(all) - s.stats.Trampolines
	if s.stats.Entry {
		all = append(all, s.entrySpan)
	}
	s.stats.Syscalls, s.stats.Contexts = len(s.syscalls), len(s.contexts)
	all = append(append(append(all, s.syscalls...), s.stubs...), s.contexts...)
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	b := tablebuild.Builder{Budget: s.f.Budget()}
	var end unwind.FileAddr
	for _, x := range all {
		if x.start = max(x.start, end); x.start >= x.end {
			continue
		}
		_ = b.Add(x.start, x.rule) // what there is no room for shows in Err
		_ = b.Add(x.end, unwind.Rule{})
		end = x.end
	}
	t := b.Table(end)
	return t, b.Err()
}
