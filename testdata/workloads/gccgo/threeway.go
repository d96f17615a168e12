// Command threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its
// argument says and what it takes to start. The sixty's chain goes through methods of an interface, the thirty's through a deferred
// call and a closure, the ten's is in a goroutine of its own.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

//go:noinline
func hotSixty(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 60
	}
	return x
}

//go:noinline
func hotThirty(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 30
	}
	return x
}

//go:noinline
func hotTen(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 10
	}
	return x
}

type level interface{ down(n uint64) uint64 }

type leaf struct{ extra uint64 }

//go:noinline
func (l leaf) down(n uint64) uint64 { return hotSixty(n) + l.extra }

type node struct{ next level }

//go:noinline
func (l *node) down(n uint64) uint64 { return l.next.down(n) + 1 }

//go:noinline
func through(f func(uint64) uint64, n uint64) uint64 { return f(n) + 1 }

//go:noinline
func thirty(n uint64) (r uint64) {
	defer func() {
		r = through(func(m uint64) uint64 { return hotThirty(m) + n }, n)
	}()
	return n
}

//go:noinline
func ten(n uint64) uint64 { return hotTen(n) + 1 }

// worker is a goroutine.
func worker(work <-chan uint64, done chan<- uint64) {
	for n := range work {
		done <- ten(n)
	}
}

// order is that of a round's slices, another one in each.
type order struct {
	slices [10]byte
	random uint64
}

func (o *order) shuffle() {
	for i := len(o.slices) - 1; i > 0; i-- {
		o.random ^= o.random << 13
		o.random ^= o.random >> 7
		o.random ^= o.random << 17
		j := o.random % uint64(i+1)
		o.slices[i], o.slices[j] = o.slices[j], o.slices[i]
	}
}

//go:noinline
func rounds(o *order, l level, work chan<- uint64, done <-chan uint64, slice uint64) (sum uint64) {
	o.shuffle()
	for _, which := range o.slices {
		switch which {
		case 0:
			sum += l.down(slice)
		case 1:
			sum += thirty(slice)
		default:
			work <- slice
			sum += <-done
		}
	}
	return sum
}

func cpuTime() int64 {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return ru.Utime.Nano() + ru.Stime.Nano()
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		panic(err)
	}
	runtime.GOMAXPROCS(1) // goroutines take turns without waking a thread
	fmt.Println("READY")
	work, done := make(chan uint64), make(chan uint64)
	go worker(work, done)
	var l level = &node{&node{leaf{1}}}
	o := &order{[10]byte{0, 0, 0, 0, 0, 0, 1, 1, 1, 2}, 88172645463325252}
	var sum uint64
	start := cpuTime() // the runtime reads its own debug information before main
	for cpuTime() < start+int64(seconds*1e9) {
		sum += rounds(o, l, work, done, 12000)
	}
	fmt.Printf("{\"cpu_ns\":%d,\"sum\":%d}\n", cpuTime(), sum&1)
}
