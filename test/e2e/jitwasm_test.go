package e2e

import "testing"

// TestWazero has a WebAssembly module run by wazero, whose stacks are the module's own: the Go code that called it is on another
// one, and not seen.
func TestWazero(t *testing.T) {
	needsFull(t)
	runJIT(t, jitRun{
		name: "wazero", command: []string{compiled(t, "wazero"), wasmModule(t)},
		memory: anonymous, unnamed: 0.9, complete: 0.97,
	})
}

func TestWazeroPerfMap(t *testing.T) {
	needsFull(t)
	runJIT(t, jitRun{
		name: "wazero with a perf map", command: []string{compiled(t, "wazero-perfmap"), wasmModule(t)},
		kind: "native", named: 0.9, chains: 0.97, complete: 0.97, memory: anonymous,
	})
}

// TestWasmtime has the module run by wasmtime, called from Go.
func TestWasmtime(t *testing.T) {
	needsFull(t)
	run := func(profiler string) jitRun {
		return jitRun{
			name: "wasmtime, " + profiler, command: []string{compiled(t, "wasmtime"), profiler, wasmModule(t)},
			kind: "native", memory: anonymous,
			complete: 0.93, // below the module's frames some walks end in Go's asmcgocall, at a word that cannot be read
		}
	}
	t.Run("without names", func(t *testing.T) {
		j := run("none")
		j.unnamed = 0.9
		runJIT(t, j)
	})
	for _, profiler := range []string{"perfmap", "jitdump"} {
		t.Run(profiler, func(t *testing.T) {
			j := run(profiler)
			j.named, j.chains = 0.9, 0.97
			runJIT(t, j)
		})
	}
}
