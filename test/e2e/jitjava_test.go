package e2e

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
)

// java is a run of HotSpot: its methods are not inlined, so that the truth about callers is known.
func java(t *testing.T, name string, options ...string) jitRun {
	t.Helper()
	unwindtest.Need(t, "java")
	unwindtest.Need(t, "javac")
	classes := filepath.Dir(compiled(t, "Threeway.class"))
	command := append([]string{"java", "-XX:ActiveProcessorCount=2", "-XX:CompileCommand=quiet",
		"-XX:CompileCommand=dontinline,Threeway::*"}, options...)
	return jitRun{name: name, command: append(command, "-cp", classes, "Threeway"), kind: "jvm", memory: anonymous}
}

// TestJava is HotSpot without anything that tells of its code, which keeps no frame pointers: hardly a walk gets through it to the
// root (docs/performance.md, java), and none is demanded to.
func TestJava(t *testing.T) {
	needsFull(t)
	j := java(t, "java")
	j.unnamed = 0.9
	runJIT(t, j)
}

// TestJavaWithFramePointers keeps frame pointers.
func TestJavaWithFramePointers(t *testing.T) {
	needsFull(t)
	j := java(t, "java -XX:+PreserveFramePointer", "-XX:+PreserveFramePointer")
	j.unnamed, j.complete = 0.9, 0.97
	runJIT(t, j)
}

// TestJavaPerfMap has an agent in the JVM that writes a perf map.
func TestJavaPerfMap(t *testing.T) {
	needsFull(t)
	j := java(t, "java with a perf map", "-XX:+PreserveFramePointer", "-agentpath:"+compiled(t, "libperfagent.so")+"=perfmap")
	j.named, j.chains, j.complete = 0.85, 0.97, 0.97
	runJIT(t, j)
}

// TestJavaJitdump has an agent in the JVM that writes a jitdump.
func TestJavaJitdump(t *testing.T) {
	needsFull(t)
	j := java(t, "java with a jitdump", "-XX:+PreserveFramePointer", "-agentpath:"+compiled(t, "libperfagent.so")+"=jitdump="+t.TempDir())
	j.named, j.chains, j.complete = 0.85, 0.97, 0.97
	j.lines, j.file = 0.97, "Threeway.java"
	runJIT(t, j)
}

// TestJavaJcmd has the JVM write a perf map while it runs.
func TestJavaJcmd(t *testing.T) {
	needsFull(t)
	unwindtest.Need(t, "jcmd")
	j := java(t, "java with jcmd", "-XX:+PreserveFramePointer")
	j.during = func(t *testing.T, pid int) {
		for range 4 { // each time it says what is compiled by then
			time.Sleep(time.Second)
			if out, err := exec.Command("jcmd", strconv.Itoa(pid), "Compiler.perfmap").CombinedOutput(); err != nil {
				t.Errorf("jcmd: %v\n%s", err, out)
			}
		}
	}
	j.named, j.chains, j.complete = 0.4, 0.4, 0.97
	runJIT(t, j)
}
