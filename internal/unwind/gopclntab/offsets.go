package gopclntab

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/hostprofiles/hostprofiles/internal/unwind"
)

// Offsets are what a walk needs to get from Go's system stack to the stack of the goroutine that it works for: offsets
// in the runtime's structs g and m (runtime/runtime2.go), in bytes, and where the current g is.
//
// The current g is in the register GReg in all Go code except for the first instructions after a signal or a call from
// C; C code need not preserve it for longer than its own calls. It is also in thread-local storage: on amd64 always, on
// arm64 in programs with cgo only.
type Offsets struct {
	GReg uint8 // DWARF register number: r14, x28

	TLSG   int64           // of g from the thread pointer; 0 if it is not known
	TLSGot unwind.FileAddr // if not 0, TLSG is the process's word at this address (libraries with initial-exec TLS)

	GStackHi uint32 // g.stack.hi
	GM       uint32 // g.m
	GSchedSP uint32 // g.sched.sp
	GSchedPC uint32 // g.sched.pc
	GSchedBP uint32 // g.sched.bp: the frame pointer
	GSchedLR uint32 // g.sched.lr: the link register, for arm64
	MCurg    uint32 // m.curg: the goroutine that the thread runs
	MG0      uint32 // m.g0: the goroutine of the system stack
	MGSignal uint32 // m.gsignal: that of the signal stack
}

// layout is the part of Offsets that depends on the version of Go.
type layout struct {
	since    int // minor version
	schedBP  uint32
	schedLR  uint32
	currentG uint32 // m.curg
	signalG  uint32 // m.gsignal
}

// layouts were taken from the DWARF of programs built by each version from 1.18 to 1.27 (see TestVersions). Go 1.25
// dropped gobuf.ret, which stands before lr and bp, and once in m too (morebuf).
var layouts = []layout{
	{since: 25, schedBP: 96, schedLR: 88, currentG: 184, signalG: 72},
	{since: 18, schedBP: 104, schedLR: 96, currentG: 192, signalG: 80},
}

// Offsets returns the offsets for the file's version of Go; a newer version than the last known is taken to be like it.
// It returns ErrUnknownVersion if the version is not recorded or too old.
func (t *Table) Offsets() (Offsets, error) {
	v, ok := parseVersion(t.version)
	if !ok {
		return Offsets{}, fmt.Errorf("finding offsets for %q: %w", t.version, ErrUnknownVersion)
	}
	for _, l := range layouts {
		if v.minor < l.since {
			continue
		}
		o := Offsets{
			GReg: 14, GStackHi: 8, GM: 48, GSchedSP: 56, GSchedPC: 64,
			GSchedBP: l.schedBP, GSchedLR: l.schedLR, MCurg: l.currentG, MG0: 0,
			MGSignal: l.signalG,
		}
		if t.arch == unwind.ArchARM64 {
			o.GReg = 28
		}
		t.threadLocal(&o)
		return o, nil
	}
	return Offsets{}, fmt.Errorf("finding offsets for %q: %w", t.version, ErrUnknownVersion)
}

// threadLocal reads from the code of a function that begins with an access to g in thread-local storage where that is:
// symbols may be gone, and the linker settles the offset when it links.
func (t *Table) threadLocal(o *Offsets) {
	name := "runtime.morestack"
	if t.arch == unwind.ArchARM64 {
		name = "runtime.save_g"
	}
	fn, ok := t.asmFunction(name)
	if !ok {
		return
	}
	at := t.text + unwind.FileAddr(fn.entry)
	code := t.mem.bytes(at, int(min(64, fn.end-fn.entry)))
	if t.arch == unwind.ArchAMD64 {
		o.threadLocalAMD64(code, at)
	} else {
		o.threadLocalARM64(code, at)
	}
}

// asmFunction finds an assembly function by name.
func (t *Table) asmFunction(name string) (function, bool) {
	for i := range t.nfunc {
		fn, ok := t.function(i)
		if !ok {
			break
		}
		if fn.flags&flagAsm == 0 {
			continue
		}
		if got, _ := t.name(fn.name); got == name {
			return fn, true
		}
	}
	return function{}, false
}

// threadLocalAMD64 decodes one of
//
//	mov reg, fs:[disp32]                      executables
//	mov rcx, imm32; mov reg, fs:[rcx+disp8]   position-independent executables
//	mov rcx, [rip+disp32]; mov reg, fs:[rcx]  libraries
func (o *Offsets) threadLocalAMD64(b []byte, at unwind.FileAddr) {
	disp := func(i int) int64 { return int64(int32(binary.LittleEndian.Uint32(b[i:]))) }
	switch {
	case len(b) < 16:
	case b[0] == 0x64 && b[1]&0xfb == 0x48 && b[2] == 0x8b && b[3]&0xc7 == 0x04 && b[4] == 0x25:
		o.TLSG = disp(5)
	case !(b[7] == 0x64 && b[8]&0xfb == 0x48 && b[9] == 0x8b && b[10]&7 == 1):
	case bytes.HasPrefix(b, []byte{0x48, 0xc7, 0xc1}):
		o.TLSG = disp(3)
		if b[10]>>6 == 1 {
			o.TLSG += int64(int8(b[11]))
		}
	case bytes.HasPrefix(b, []byte{0x48, 0x8b, 0x0d}):
		o.TLSGot = at + 7 + unwind.FileAddr(disp(3))
	}
}

// threadLocalARM64 decodes, behind "mrs x0, tpidr_el0", one of
//
//	movz x27, #imm, lsl #n; movk x27, #imm...   executables
//	adrp x27, page; ldr x27, [x27, #imm]        libraries
func (o *Offsets) threadLocalARM64(b []byte, at unwind.FileAddr) {
	const (
		mrsTP          = 0xd53bd040
		movz, movk     = 0xd2800000 | 27, 0xf2800000 | 27
		immMask        = 0xffff<<5 | 3<<21
		adrp, adrpMask = 0x90000000 | 27, 0x9f00001f
		ldr            = 0xf9400000 | 27<<5 | 27
	)
	found := false
	for i := uint64(0); i+4 <= uint64(len(b)); i += 4 {
		ins := arm64Ins(b, i)
		imm := int64(ins>>5&0xffff) << (16 * (ins >> 21 & 3))
		next := arm64Ins(b, i+4)
		switch {
		case ins == mrsTP:
			found = true
		case !found:
		case ins&^uint32(immMask) == movz:
			o.TLSG = imm
		case ins&^uint32(immMask) == movk:
			o.TLSG |= imm
		case ins&adrpMask == adrp && next&^uint32(imm12Mask) == ldr:
			page := int64(int32(ins<<8)>>13)<<2 | int64(ins>>29&3)
			o.TLSGot = (at+unwind.FileAddr(i))&^0xfff + unwind.FileAddr(page<<12) + unwind.FileAddr(next>>10&0xfff*8)
			return
		default:
			return
		}
	}
}
