// Command gocgo burns 60/30/10 % of its CPU across cgo: 60 in C called from Go, 30 in Go called back from C called from Go,
// 10 in Go.
package main

// #cgo CFLAGS: -O2 -fomit-frame-pointer -I${SRCDIR}/../common
// #include <stdint.h>
// void sixty(uint64_t n);
// void thirty(uint64_t n);
import "C"

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"syscall"
	"time"
)

var sink uint64

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

//go:noinline
func goLevel(n uint64) { sink += hotThirty(n) + 1 }

//go:noinline
//export goCallback
func goCallback(n C.uint64_t) { goLevel(uint64(n)) }

//go:noinline
func callSixty(n uint64) { C.sixty(C.uint64_t(n)); sink++ }

//go:noinline
func callThirty(n uint64) { C.thirty(C.uint64_t(n)); sink++ }

//go:noinline
func callTen(n uint64) { sink += hotTen(n) + 1 }

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
	flag.Parse()
	if _, err := syscall.Write(1, []byte("READY\n")); err != nil {
		os.Exit(3)
	}
	order := []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 2}
	run := []func(uint64){callSixty, callThirty, callTen}
	start, rounds := time.Now(), 0
	for ; ; rounds++ {
		if rounds%8 == 0 && (*seconds > 0 && time.Since(start).Seconds() >= *seconds || *cpu > 0 && cpuTime().Seconds() >= *cpu) {
			break
		}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, which := range order {
			run[which](*slice)
		}
	}
	fmt.Printf("{\"cpu_ns\":%d,\"rounds\":%d}\n", cpuTime().Nanoseconds(), rounds)
}
