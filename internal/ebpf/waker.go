package ebpf

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Waker tells when a ring fills up, between the times at which they are read anyway.
type Waker struct {
	c     chan struct{}
	epoll int
	stop  int // an eventfd
	done  sync.WaitGroup
}

// NewWaker watches the sample ring and the side-band rings.
func NewWaker(k *Kernel, s *Sideband) (*Waker, error) {
	w := &Waker{c: make(chan struct{}, 1), stop: -1}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("creating an epoll descriptor: %w", err)
	}
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(w.epoll)
		return nil, fmt.Errorf("creating an event descriptor: %w", err)
	}
	for _, fd := range []int{w.stop, k.RingFD()} {
		if err := w.add(fd); err != nil {
			unix.Close(w.stop)
			unix.Close(w.epoll)
			return nil, err
		}
	}
	w.Watch(s)
	w.done.Add(1)
	go w.run()
	return w, nil
}

// add is edge-triggered: the rings nearly always hold something, only their wake-ups count.
func (w *Waker) add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("polling a ring: %w", err)
	}
	return nil
}

// Watch adds the side-band rings of CPUs that came. Those of CPUs that went leave by themselves when they are closed. A
// ring that can't be watched is still read at every interval.
func (w *Waker) Watch(s *Sideband) {
	for _, fd := range s.FDs() {
		_ = w.add(fd)
	}
}

// C becomes readable when a ring has filled up.
func (w *Waker) C() <-chan struct{} { return w.c }

func (w *Waker) run() {
	defer w.done.Done()
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if e.Fd == int32(w.stop) {
				return
			}
		}
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

// Close ends the watch.
func (w *Waker) Close() {
	one := [8]byte{1}
	_, _ = unix.Write(w.stop, one[:]) // an eventfd takes it
	w.done.Wait()
	unix.Close(w.epoll)
	unix.Close(w.stop)
}
