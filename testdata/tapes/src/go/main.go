// A goroutine at a breakpoint; behind it, what makes the runtime work on its system stack.
package main

import "runtime"

//go:noinline
func point() { runtime.Breakpoint() }

//go:noinline
func grow(n int) int {
	var b [512]byte
	b[n&511] = byte(n)
	if n == 0 {
		return int(b[0])
	}
	return grow(n-1) + int(b[n&511])
}

//go:noinline
func recursion(n int, done chan int) int {
	if n > 0 {
		return recursion(n-1, done) + 1
	}
	point()
	go func() { done <- 1 }() // newproc, on the system stack
	n = grow(64)              // morestack
	return n + <-done         // mcall
}

func main() {
	done, result := make(chan int), make(chan int)
	go func() { result <- recursion(6, done) }()
	<-result
}
