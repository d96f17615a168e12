package workloads

// JIT returns what the tests of runtimes that compile at run time need to have compiled: TestKnownTruth does not run them.
func JIT() []Program {
	goProgram := func(name, dir, flags, cgo string) Program {
		s := words("go build -trimpath -buildvcs=false " + flags + " -o {out}/{name} .")
		s.dir, s.env = "{src}/"+dir, []string{"CGO_ENABLED=" + cgo}
		return Program{Name: name, native: true, steps: []step{s}}
	}
	return []Program{
		// The tag has wazero write a perf map (internal/engine/wazevo/wazevoapi of wazero 1.12).
		goProgram("wazero", "wazero", "", "0"), goProgram("wazero-perfmap", "wazero", "-tags perfmap", "0"),
		goProgram("wasmtime", "wasmtime", "", "1"),
		{Name: "Levels.class", native: true, steps: []step{words("javac --release 8 -Xlint:-options -d {out} {src}/java/Levels.java")}},
		{Name: "Native.class", native: true, steps: []step{words("javac -d {out} {src}/java/Native.java")}},
		{Name: "Threeway.class", native: true, steps: []step{words("javac -d {out} {src}/java/Threeway.java")}},
		{Name: "libperfagent.so", native: true, steps: []step{{argv: []string{"sh", "-c",
			`jdk=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
			exec gcc -O2 -Wall -shared -fPIC -I"$jdk/include" -I"$jdk/include/linux" {src}/java/perfagent.c -o {out}/{name}`}}}},
	}
}
