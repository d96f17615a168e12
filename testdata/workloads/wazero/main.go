// Command wazero runs a WebAssembly module's export rounds for as many seconds of CPU time as its second argument says; the
// first is the module's file. Built with the tag perfmap, wazero writes a perf map.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/tetratelabs/wazero"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, seconds string) error {
	module, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	end, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	m, err := r.Instantiate(ctx, module)
	if err != nil {
		return err
	}
	rounds := m.ExportedFunction("rounds")
	fmt.Println("READY")
	for used() < end {
		if _, err := rounds.Call(ctx, 20000); err != nil {
			return err
		}
	}
	return r.Close(ctx)
}

// used is the process's CPU time in seconds.
func used() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
