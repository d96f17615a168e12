package python

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"github.com/hostprofiles/hostprofiles/internal/ebpf/abi"
	"github.com/hostprofiles/hostprofiles/internal/runtimes"
	"github.com/hostprofiles/hostprofiles/internal/unwind"
	"github.com/hostprofiles/hostprofiles/internal/unwind/elffile"
)

// From 3.15 on a thread-local variable, _Py_tss_gilstate, has what the key for thread states had: Python/pystate.c, 3.15.2. It has no
// symbol in stripped builds, so that the function which returns it has to tell where it is.

// variable is how code finds a thread-local variable.
type variable struct {
	kind   variableKind
	offset int64           // of the variable from the thread pointer, or in what is found otherwise
	slot   unwind.FileAddr // of the words in the process that say where
}

type variableKind uint8

const (
	variableFixed      variableKind = iota // at an offset from the thread pointer
	variableOffset                         // the slot has the offset (initial-exec)
	variableModule                         // the slot has the module's number and the offset in its block (tls_index)
	variableDescriptor                     // the slot has a resolver and its argument (TLSDESC)
)

const (
	accessorBytes        = 128
	accessorInstructions = 24
)

// findVariable decodes the function at an address, which returns a thread-local variable.
func findVariable(f *elffile.File, at unwind.FileAddr) (v variable, err error) {
	code, ok := readCode(f, at), false
	if f.Arch == unwind.ArchARM64 {
		v, ok = arm64Variable(code, at)
	} else {
		v, ok = amd64Variable(code, at)
	}
	if !ok {
		return v, fmt.Errorf("PyGILState_GetThisThreadState has code of an unknown kind: %w", runtimes.ErrUnsupported)
	}
	return v, nil
}

// readCode reads the beginning of a function, as much as there is.
func readCode(f *elffile.File, at unwind.FileAddr) []byte {
	code := make([]byte, accessorBytes)
	for len(code) > 0 && f.ReadAddr(code, at) != nil {
		code = code[:len(code)-4]
	}
	return code
}

// amd64Variable knows what compilers make of the models of ELF Handling For Thread-Local Storage (0.21), 4.1 to 4.4, for amd64:
//
//	mov %fs:offset, %rax
//	mov slot(%rip), %rax; mov %fs:offset(%rax), %rax
//	lea slot(%rip), %rdi; call __tls_get_addr; mov offset(%rax), %rax
func amd64Variable(code []byte, at unwind.FileAddr) (v variable, ok bool) {
	called := false
	for i, n := 0, 0; i < len(code) && n < accessorInstructions; n++ {
		ins, known := decode(code[i:])
		i += ins.Len
		if !known {
			continue
		}
		next := at + unwind.FileAddr(i)
		m, isMem := ins.Args[1].(x86asm.Mem)
		switch {
		case ins.Op == x86asm.RET:
			return v, ok
		case ins.Op == x86asm.CALL:
			called = v.slot != 0
		case ins.Op == x86asm.LEA && isMem && m.Base == x86asm.RIP && ins.Args[0] == x86asm.RDI:
			v = variable{kind: variableModule, slot: next + unwind.FileAddr(m.Disp)}
		case ins.Op != x86asm.MOV || !isMem || ins.Args[0] != x86asm.RAX:
		case m.Segment == x86asm.FS && m.Base == 0 && m.Index == 0:
			v, ok = variable{kind: variableFixed, offset: int64(int32(m.Disp))}, true
		case m.Base == x86asm.RIP:
			v = variable{kind: variableOffset, slot: next + unwind.FileAddr(m.Disp)}
		case m.Segment == x86asm.FS && m.Base == x86asm.RAX && v.kind == variableOffset && v.slot != 0:
			v.offset, ok = m.Disp, true
		case m.Base == x86asm.RAX && v.kind == variableModule && called:
			v.offset, ok = m.Disp, true
		}
	}
	return v, false
}

// arm64Variable knows:
//
//	mrs xn, tpidr_el0; add xn, xn, #high, lsl #12; add xn, xn, #low; ldr x0, [xn, #offset]
//	adrp x0, slot; ldr x2, [x0, #low]; add x0, x0, #low; blr x2; mrs x1, tpidr_el0; ldr x0, [x1, x0]
//
// Encodings: Arm ARM (DDI 0487), C6.2; ELF for the Arm 64-bit Architecture (2024Q3), 5.7.10.
func arm64Variable(code []byte, at unwind.FileAddr) (v variable, ok bool) {
	var pages [32]unwind.FileAddr // of adrp
	var thread [32]bool           // the thread pointer, and what was added to it
	var plus [32]int64
	for i := 0; i+4 <= len(code) && i < 4*accessorInstructions; i += 4 {
		w, pc := binary.LittleEndian.Uint32(code[i:]), at+unwind.FileAddr(i)
		d, n := w&31, w>>5&31
		page, isPage := adrp(w, pc)
		switch {
		case w == 0xd65f03c0: // ret
			return v, ok
		case isPage:
			pages[d] = page
		case w&^31 == 0xd53bd040: // mrs d, tpidr_el0
			thread[d], plus[d] = true, 0
		case w>>23 == 0x122 && pages[n] != 0: // add d, n, #low: the descriptor
			v = variable{kind: variableDescriptor, slot: pages[n] + unwind.FileAddr(w>>10&0xfff)}
		case w>>23 == 0x122 && thread[n]: // add d, n, #imm12, perhaps << 12
			thread[d], plus[d] = true, plus[n]+int64(w>>10&0xfff)<<(w>>22&1*12)
		case w>>22 == 0x3e5 && thread[n] && d == 0: // ldr x0, [n, #8 * imm12]
			v, ok = variable{kind: variableFixed, offset: plus[n] + 8*int64(w>>10&0xfff)}, true
		case w&0xffe0fc1f == 0xf8606800 && v.kind == variableDescriptor && (thread[n] || thread[w>>16&31]): // ldr x0, [n, m]
			ok = v.slot != 0
		}
	}
	return v, false
}

// plan fills in how BPF finds the variable in a process.
func (v variable) plan(proc *abi.LoopPythonProc, p *runtimes.Process) error {
	var words [2]uint64
	if v.kind != variableFixed {
		var b [16]byte
		if err := p.Memory.Read(unwind.Addr(uint64(v.slot)+p.Image.Bias), b[:]); err != nil {
			return err
		}
		words = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
	}
	proc.Thread, proc.ThreadOffset = uint8(abi.LoopPythonThreadPYTHON_THREAD_TLS), v.offset
	switch v.kind {
	case variableOffset:
		proc.ThreadOffset += int64(words[0])
	case variableModule:
		return v.inModule(proc, p, words[0], words[1])
	case variableDescriptor:
		// sysdeps/aarch64/dl-tlsdesc.S of glibc 2.36: the static resolver returns its argument, the dynamic one goes by what that points
		// to: a tls_index, and more.
		const largest = 1 << 24
		if words[0] == 0 {
			return fmt.Errorf("the variable for thread states is not resolved: %w", runtimes.ErrNotReady)
		}
		if words[1] < largest {
			proc.ThreadOffset += int64(words[1])
			return nil
		}
		var b [16]byte
		if err := p.Memory.Read(unwind.Addr(words[1]), b[:]); err != nil {
			return err
		}
		return v.inModule(proc, p, binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]))
	}
	return nil
}

// inModule is for a variable at an offset in the block of a module.
func (v variable) inModule(proc *abi.LoopPythonProc, p *runtimes.Process, module, offset uint64) error {
	const modules = 1 << 16
	if module == 0 || module > modules || offset > 1<<30 {
		return fmt.Errorf("the variable for thread states is in module %d: %w", module, runtimes.ErrNotReady)
	}
	proc.Thread = uint8(abi.LoopPythonThreadPYTHON_THREAD_DTV)
	proc.DtvOffset, proc.DtvSlot = int32(p.Threads.Modules), p.Threads.ModuleStride*uint32(module)
	proc.ThreadOffset += int64(offset)
	return nil
}

// argumentOf decodes PyGILState_GetThisThreadState of 3.6: the address of the int that is the first argument of what it calls; 0 if that
// is not to be seen.
//
//	amd64	mov key(%rip), %edi
//	arm64	adrp xn, key; ldr w0, [xn, #low]
func argumentOf(f *elffile.File, s *elffile.Symbol) (key unwind.FileAddr, ok bool) {
	code := readCode(f, s.Value)
	if f.Arch == unwind.ArchARM64 {
		var pages [32]unwind.FileAddr
		for i := 0; i+4 <= len(code) && i < 4*accessorInstructions; i += 4 {
			w, pc := binary.LittleEndian.Uint32(code[i:]), s.Value+unwind.FileAddr(i)
			switch n := w >> 5 & 31; {
			case w&0x9f000000 == 0x90000000:
				pages[w&31] = pc&^0xfff + unwind.FileAddr(int64(int32(w<<8)>>13<<2|int32(w>>29&3))<<12)
			case w>>22 == 0x2e5 && w&31 == 0 && pages[n] != 0: // ldr w0, [n, #4 * imm12]
				key, ok = pages[n]+unwind.FileAddr(4*(w>>10&0xfff)), true
			case w == 0xd65f03c0:
				return key, ok
			}
		}
		return key, ok
	}
	for i, n := 0, 0; i < len(code) && n < accessorInstructions; n++ {
		ins, known := decode(code[i:])
		i += ins.Len
		if !known {
			continue
		}
		m, isMem := ins.Args[1].(x86asm.Mem)
		switch {
		case ins.Op == x86asm.MOV && isMem && m.Base == x86asm.RIP && ins.Args[0] == x86asm.EDI:
			key, ok = s.Value+unwind.FileAddr(i)+unwind.FileAddr(m.Disp), true
		case ins.Op == x86asm.RET:
			return key, ok
		}
	}
	return key, ok
}
