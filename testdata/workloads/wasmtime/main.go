// Command wasmtime runs a WebAssembly module's export rounds for as many seconds of CPU time as its last argument says. The
// first says how the runtime tells profilers of its code (none, perfmap, jitdump), the second is the module's file.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/bytecodealliance/wasmtime-go/v37"
)

// perfMap has no name in Go: WASMTIME_PROFILING_STRATEGY_PERFMAP of wasmtime/config.h.
const perfMap wasmtime.ProfilingStrategy = 3

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(profiler, file, seconds string) error {
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	end, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	config := wasmtime.NewConfig()
	switch profiler {
	case "none":
	case "perfmap":
		config.SetProfiler(perfMap)
	case "jitdump":
		config.SetProfiler(wasmtime.ProfilingStrategyJitdump)
	default:
		return fmt.Errorf("no profiler %q", profiler)
	}
	engine := wasmtime.NewEngineWithConfig(config)
	module, err := wasmtime.NewModule(engine, code)
	if err != nil {
		return err
	}
	store := wasmtime.NewStore(engine)
	instance, err := wasmtime.NewInstance(store, module, nil)
	if err != nil {
		return err
	}
	rounds := instance.GetFunc(store, "rounds")
	fmt.Println("READY")
	for used() < end {
		if _, err := rounds.Call(store, int32(20000)); err != nil {
			return err
		}
	}
	return nil
}

// used is the process's CPU time in seconds.
func used() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
