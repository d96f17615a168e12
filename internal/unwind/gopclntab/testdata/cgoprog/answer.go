package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
)

// answer prints the address of main.main, then reads program counters in hexadecimal and prints for each what the
// runtime knows of it: a line for every frame and an empty one.
func answer() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintf(out, "%x\n", reflect.ValueOf(main).Pointer())
	out.Flush()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var pc uintptr
		fmt.Sscanf(in.Text(), "%x", &pc)
		// A return address is looked up at the byte before. The last of several is not expanded into inlined calls.
		frames := runtime.CallersFrames([]uintptr{pc + 1, 0})
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if f.Function != "" {
				fmt.Fprintf(out, "%s\t%s\t%d\n", f.Function, f.File, f.Line)
			}
		}
		fmt.Fprintln(out)
	}
}
