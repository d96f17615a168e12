package ebpf

import (
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	// maxSizedPrograms bounds how many programs are asked for their sizes; hosts with very many policies have some hundred.
	maxSizedPrograms = 4096
	// maxSizedFunctions bounds the functions of one program: BPF_MAX_SUBPROGS, include/linux/bpf_verifier.h of Linux 6.12.
	maxSizedFunctions = 256
)

// progInfo is the beginning of struct bpf_prog_info: include/uapi/linux/bpf.h of Linux 5.10. The library's own way copies all
// instructions. Pointers have 8 bytes on both architectures; as such they keep what they point to alive, and in its place.
type progInfo struct {
	_          [104]byte
	functions  uint32         // nr_jited_ksyms
	lengths    uint32         // nr_jited_func_lens
	functionsP unsafe.Pointer // jited_ksyms
	lengthsP   unsafe.Pointer // jited_func_lens
}

// ProgramSizes returns how many bytes of code the functions of BPF programs have, by their addresses. /proc/kallsyms has the
// addresses only, and what lies behind a function may be one that is gone. It needs CAP_SYS_ADMIN and CAP_SYSLOG; what cannot be
// found out is left out.
func ProgramSizes() map[uint64]uint32 {
	sizes := map[uint64]uint32{}
	functions, lengths := make([]uint64, maxSizedFunctions), make([]uint32, maxSizedFunctions)
	id := ebpf.ProgramID(0)
	for range maxSizedPrograms {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break // there is no other, or no permission
		}
		for i := range programFunctions(id, functions, lengths) {
			sizes[functions[i]] = lengths[i]
		}
	}
	delete(sizes, 0) // the kernel hides addresses
	return sizes
}

// programFunctions asks for the functions of one program; it returns how many there are, 0 if it is gone.
func programFunctions(id ebpf.ProgramID, functions []uint64, lengths []uint32) int {
	byID := struct{ id, next, flags uint32 }{id: uint32(id)}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_FD_BY_ID, uintptr(unsafe.Pointer(&byID)), unsafe.Sizeof(byID))
	if errno != 0 {
		return 0
	}
	defer func() { _ = unix.Close(int(fd)) }() // nothing was written
	info := &progInfo{
		functions: uint32(len(functions)), lengths: uint32(len(lengths)),
		functionsP: unsafe.Pointer(&functions[0]), lengthsP: unsafe.Pointer(&lengths[0]),
	}
	byFD := struct {
		fd, size uint32
		info     unsafe.Pointer
	}{uint32(fd), uint32(unsafe.Sizeof(*info)), unsafe.Pointer(info)}
	_, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&byFD)), unsafe.Sizeof(byFD))
	n := int(min(info.functions, info.lengths))
	runtime.KeepAlive(&byFD)
	if errno != 0 {
		return 0
	}
	return min(n, len(functions), len(lengths))
}
