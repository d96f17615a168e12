// Command threeway burns 60/30/10 % of its CPU in three Go functions. See ../common/hot.h for how the shares are made
// exact. Modes: plain (everything on the main goroutine), goroutines (a goroutine per function, all new each round),
// runtime (adds growing stacks, allocation and garbage collection, so that samples land on system stacks).
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var sink uint64

//go:noinline
func hotSixty(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 1
	}
	return x
}

//go:noinline
func hotThirty(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 1
	}
	return x
}

//go:noinline
func hotTen(n uint64) uint64 {
	x := n
	for i := n; i != 0; i-- {
		x = x*6364136223846793005 + 1
	}
	return x
}

type level interface{ down(n uint64) uint64 }

type leaf struct{ f func(uint64) uint64 }

//go:noinline
func (l leaf) down(n uint64) uint64 { return l.f(n) + 1 }

type node struct {
	pad  [6]uint64
	next level
}

//go:noinline
func (l *node) down(n uint64) uint64 { return l.next.down(n) + l.pad[0] }

func chain(depth int, f func(uint64) uint64) level {
	var l level = leaf{f}
	for i := 0; i < depth; i++ {
		l = &node{next: l}
	}
	return l
}

//go:noinline
func sixty(l level, n uint64) { sink += l.down(n) }

//go:noinline
func thirty(l level, n uint64) {
	defer func() { sink++ }()
	sink += l.down(n)
}

//go:noinline
func ten(l level, n uint64) {
	func() {
		defer func() {
			_ = recover()
			sink += l.down(n) // burns in a deferred call while a panic is on its way
		}()
		panic(n)
	}()
}

// grow needs a bigger stack at every few calls: runtime.morestack copies it.
//
//go:noinline
func grow(depth int) byte {
	var a [256]byte
	a[depth%256] = byte(depth)
	if depth == 0 {
		return a[0]
	}
	return grow(depth-1) + a[depth%256]
}

type garbage struct {
	next *garbage
	data [10]uint64
}

//go:noinline
func allocate(n int) *garbage {
	var g *garbage
	for i := 0; i < n; i++ {
		g = &garbage{next: g}
	}
	return g
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func main() {
	seconds := flag.Float64("seconds", 0, "stop after this wall time")
	cpu := flag.Float64("cpu", 0, "stop after this CPU time")
	slice := flag.Uint64("slice", 12000, "iterations")
	mode := flag.String("mode", "plain", "plain, goroutines or runtime")
	flag.Parse()
	order := []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 2}
	run := []func(){
		bind(sixty, chain(11, hotSixty), *slice), bind(thirty, chain(4, hotThirty), *slice), bind(ten, chain(1, hotTen), *slice),
	}
	// os.Stdout would go through the poller; this is one system call.
	if _, err := syscall.Write(1, []byte("READY\n")); err != nil {
		os.Exit(3)
	}
	start, rounds := time.Now(), 0
	for ; ; rounds++ {
		if rounds%8 == 0 && (*seconds > 0 && time.Since(start).Seconds() >= *seconds || *cpu > 0 && cpuTime().Seconds() >= *cpu) {
			break
		}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		round(*mode, order, run)
	}
	fmt.Printf("{\"cpu_ns\":%d,\"rounds\":%d}\n", cpuTime().Nanoseconds(), rounds)
	runtime.KeepAlive(unsafe.Pointer(&sink))
}

func bind(f func(level, uint64), l level, n uint64) func() { return func() { f(l, n) } }

func round(mode string, order []int, run []func()) {
	switch mode {
	case "goroutines":
		var wg sync.WaitGroup
		for which, times := range []int{60, 30, 10} {
			wg.Add(1)
			go repeat(&wg, times, run[which])
		}
		wg.Wait()
	case "runtime":
		done := make(chan byte)
		go func() { done <- grow(200) }()
		<-done
		runtime.KeepAlive(allocate(200))
		fallthrough
	default:
		for _, which := range order {
			run[which]()
		}
	}
}

func repeat(wg *sync.WaitGroup, times int, run func()) {
	defer wg.Done()
	for i := 0; i < times; i++ {
		run()
	}
}
