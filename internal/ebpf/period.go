package ebpf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setPeriod changes a running event's period (ns for cpu-clock).
func setPeriod(fd int, period uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&period)))
	if errno != 0 {
		return errno
	}
	return nil
}
