// Command prog is unwound and symbolized by tests.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"
)

type point struct{ x, y int }

func (p *point) sum(i int) int { return twice(p.x) + thrice(p.y) + i }

func twice(i int) int  { return 2 * i }
func thrice(i int) int { return twice(i) + i }

type summer interface{ sum(int) int }

type embeds struct{ *point }

//go:noinline
func generic[T any](v T, n int) string {
	var b [2048]byte
	b[n%len(b)] = 1
	return fmt.Sprint(v, b[3])
}

func main() {
	if len(os.Args) < 2 {
		answer()
		return
	}
	fmt.Println(generic(summer(embeds{&point{1, 2}}).sum(3), 4), generic("x", 5), generic(point{}, 6))
	for _, f := range []func(){recursion, clock, garbage, talk, compare} {
		f := f
		go func() {
			for {
				f()
			}
		}()
	}
	time.Sleep(time.Hour)
}

// recursion grows the stack of a fresh goroutine.
func recursion() {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		deeper(200, 1)
		wg.Done()
	}()
	wg.Wait()
}

//go:noinline
func deeper(n, k int) int {
	var frame [64]int
	frame[n%64] = k
	if n == 0 {
		return frame[k%64]
	}
	return deeper(n-1, k) + frame[(n+1)%64]
}

var now time.Time

func clock() {
	for i := 0; i < 1000; i++ {
		now = time.Now()
	}
}

var kept [64][]string

func garbage() {
	for i := range kept {
		kept[i] = append([]string(nil), strings.Split(strings.Repeat("a,", 500), ",")...)
	}
	m := map[string]int{}
	for i := 0; i < 1000; i++ {
		m[fmt.Sprint(i)] = i
	}
	runtime.Gosched()
}

func talk() {
	c := make(chan int)
	go func() {
		defer close(c)
		for i := 0; i < 1000; i++ {
			c <- i
		}
	}()
	for range c {
	}
}

func compare() {
	s := make([]point, 2000)
	for i := range s {
		s[i].x = i * 7919 % 2000
	}
	sort.Slice(s, func(a, b int) bool { return s[a].x < s[b].x })
}
