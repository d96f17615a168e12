package ebpf

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// arrayMemory maps an array map (created with BPF_F_MMAPABLE) into this process, as its elements. T's size is a multiple of 8
// and equals the map's value size. Unlike bpf(2), writing through it makes the kernel skip no program.
func arrayMemory[T any](m *ebpf.Map) ([]T, error) {
	var t T
	size := int(unsafe.Sizeof(t))
	if size%8 != 0 || int(m.ValueSize()) != size {
		return nil, fmt.Errorf("map %v has values of %d bytes, not %d", m, m.ValueSize(), size)
	}
	n := int(m.MaxEntries())
	page := unix.Getpagesize()
	length := (n*size + page - 1) / page * page
	mem, err := unix.Mmap(m.FD(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %v into memory: %w", m, err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), length/size)[:n], nil
}

func unmapArray[T any](s []T) {
	if cap(s) == 0 {
		return
	}
	var t T
	page := unix.Getpagesize()
	length := (len(s)*int(unsafe.Sizeof(t)) + page - 1) / page * page
	// The slice came from arrayMemory, which kept the start of the mapping.
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(s)), uintptr(length))
}
