// Command cgoprog is unwound and symbolized by tests: Go that calls C that calls Go.
package main

/*
extern int goCallback(int);
static volatile int sink;
__attribute__((noinline)) static int cSpin(int n) { for (int i = 0; i < n; i++) sink += i; return sink; }
__attribute__((noinline)) static int cBack(int n) { int r = goCallback(n); sink += r; return cSpin(20000) + r; }
*/
import "C"

import (
	"fmt"
	"os"
	"time"
)

//export goCallback
func goCallback(n C.int) C.int { return C.int(grow(int(n))) }

//go:noinline
func grow(n int) int {
	var frame [100]int
	frame[n%100] = n
	if n == 0 {
		return int(C.cSpin(1000))
	}
	return grow(n-1) + frame[(n+1)%100]
}

func main() {
	if len(os.Args) < 2 {
		answer()
		return
	}
	fmt.Println("running")
	go func() {
		for {
			calls()
		}
	}()
	go func() {
		for {
			done := make(chan bool)
			go func() { // on a small stack
				callbacks()
				close(done)
			}()
			<-done
		}
	}()
	time.Sleep(time.Hour)
}

//go:noinline
func calls() { C.cSpin(100000) }

//go:noinline
func callbacks() { C.cBack(20) }
