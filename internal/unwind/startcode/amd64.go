package startcode

import (
	"bytes"
	"encoding/binary"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// rt_sigreturn is system call 15: mov $15,%rax or %eax, then syscall.
var (
	sigreturnRAX = []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}
	sigreturnEAX = []byte{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}
	// exitAfterCall is how clone.s goes on: mov %eax,%edi; xor %eax,%eax; mov $60,%al; syscall.
	exitAfterCall = []byte{0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05}
)

func (s *scanner) scanAMD64(b []byte, at unwind.FileAddr, from, to int) {
	for i := max(from, 2); i < to; i++ {
		switch {
		case b[i] == 0x05 && b[i-1] == 0x0f:
			s.syscallAMD64(b[:i+1], at)
		case b[i] == 0xe8 && i+5 <= len(b):
			s.directCall(b, i, at)
		case b[i] == 0x25 && b[i-1] == 0xff:
			s.stubAMD64(b, i-1, at)
		case b[i] == 0x68:
			s.lazyAMD64(b, i, at)
		case b[i] == 0xf4:
			s.fiberAMD64(b[:i+1], at)
		}
	}
}

// fiberAMD64 looks at a hlt, the last instruction of b: whether it ends what a fiber of Boost.Context's returns to, behind the jump to its
// function: jmp *%rbx; maybe endbr64; xor %rdi,%rdi; call _exit; hlt (Boost 1.74 and 1.90, src/asm/make_x86_64_sysv_elf_gas.S).
func (s *scanner) fiberAMD64(b []byte, at unwind.FileAddr) {
	const call, clear, landing, jump = 5, "\x48\x31\xff", "\xf3\x0f\x1e\xfa", "\xff\xe3"
	first := len(b) - 1 - call - len(clear)
	if first < 0 || b[len(b)-1-call] != 0xe8 || string(b[first:first+len(clear)]) != clear {
		return
	}
	start := len(bytes.TrimSuffix(b[:first], []byte(landing)))
	if bytes.HasSuffix(b[:start], []byte(jump)) {
		s.foundContext(at+unwind.FileAddr(start), at+unwind.FileAddr(len(b)))
	}
}

// syscallAMD64 looks at a syscall instruction, the last one of b.
func (s *scanner) syscallAMD64(b []byte, at unwind.FileAddr) {
	end := at + unwind.FileAddr(len(b))
	for _, p := range [][]byte{sigreturnRAX, sigreturnEAX} {
		if bytes.HasSuffix(b, p) {
			s.foundTrampoline(end-unwind.FileAddr(len(p)), end)
			return
		}
	}
	if bytes.HasSuffix(b, exitAfterCall) {
		call := b[:len(b)-len(exitAfterCall)]
		if n := indirectCall(call); n > 0 {
			s.foundStart(at+unwind.FileAddr(len(call)-n), end)
		}
	}
}

// directCall looks at the call at b[i] and whether it passes on an indirect call's result: mov %eax,%edi, mov %rax,%rdi
// or movslq %eax,%rdi between the two.
func (s *scanner) directCall(b []byte, i int, at unwind.FileAddr) {
	n := 0
	for _, m := range [][]byte{{0x48, 0x89, 0xc7}, {0x48, 0x8b, 0xf8}, {0x48, 0x63, 0xf8}, {0x89, 0xc7}, {0x8b, 0xf8}} {
		if bytes.HasSuffix(b[:i], m) {
			n = len(m)
			break
		}
	}
	if n == 0 {
		return
	}
	size := indirectCall(b[:i-n])
	if size == 0 {
		return
	}
	end := at + unwind.FileAddr(i+5)
	target := end + unwind.FileAddr(int64(int32(binary.LittleEndian.Uint32(b[i+1:]))))
	if !s.executable(target) {
		return
	}
	s.foundCandidate(candidate{span: span{start: at + unwind.FileAddr(i-n-size), end: end}, target: target})
}

// indirectCall is the length of the indirect call that b ends with (ff /2 with a register or memory operand), 0 if it
// does not. Calls through RIP-relative addresses go to imported functions and do not count.
func indirectCall(b []byte) int {
	for n := 2; n <= 7 && n <= len(b); n++ {
		c := b[len(b)-n:]
		if c[0] != 0xff || c[1]&0x38 != 0x10 {
			continue
		}
		mod, rm, size := c[1]>>6, c[1]&7, 2
		if mod != 3 && rm == 4 {
			if n < 3 {
				continue
			}
			size++
			if mod == 0 && c[2]&7 == 5 {
				size += 4
			}
		}
		switch {
		case mod == 0 && rm == 5:
			continue
		case mod == 1:
			size++
		case mod == 2:
			size += 4
		}
		if size == n {
			if p := len(b) - n - 1; p >= 0 && b[p] == 0x41 { // with one of the registers from r8 on
				n++
			}
			return n
		}
	}
	return 0
}

// firstCallAMD64 is where the first call in b ends, or b's length: where the start code's frame can be the caller.
func firstCallAMD64(b []byte) int {
	for i := range b {
		switch {
		case b[i] == 0xe8 && i+5 <= len(b):
			return i + 5
		case b[i] == 0xff && i+6 <= len(b) && b[i+1] == 0x15:
			return i + 6
		}
	}
	return len(b)
}
