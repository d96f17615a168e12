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
	return jitRun{
		name: name, command: append(command, "-cp", classes, "Threeway"), kind: "jvm", file: "Threeway.java",
		named: 0.93, lines: 0.99, chains: 0.99, complete: 0.97,
		before: func(t *testing.T) { // the first that is seen of libjvm.so is walked before its table is made
			t.Helper()
			if out, err := exec.Command("java", "-cp", classes, "Threeway", "0.1").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			time.Sleep(2 * time.Second)
		},
	}
}

// TestJava is HotSpot without anything that tells of its code but itself.
func TestJava(t *testing.T) {
	needsFull(t)
	runJIT(t, java(t, "java"))
}

// TestJavaWithFramePointers keeps frame pointers.
func TestJavaWithFramePointers(t *testing.T) {
	needsFull(t)
	runJIT(t, java(t, "java -XX:+PreserveFramePointer", "-XX:+PreserveFramePointer"))
}

// TestJavaPerfMap has an agent in the JVM that writes a perf map: methods are named as without it.
func TestJavaPerfMap(t *testing.T) {
	needsFull(t)
	runJIT(t, java(t, "java with a perf map", "-agentpath:"+compiled(t, "libperfagent.so")+"=perfmap"))
}

// TestJavaJitdump has an agent in the JVM that writes a jitdump.
func TestJavaJitdump(t *testing.T) {
	needsFull(t)
	runJIT(t, java(t, "java with a jitdump", "-agentpath:"+compiled(t, "libperfagent.so")+"=jitdump="+t.TempDir()))
}

// TestJavaJcmd has the JVM write a perf map while it runs: methods are named as without it.
func TestJavaJcmd(t *testing.T) {
	needsFull(t)
	unwindtest.Need(t, "jcmd")
	j := java(t, "java with jcmd")
	j.during = func(t *testing.T, pid int) {
		for range 4 { // each time it says what is compiled by then
			time.Sleep(time.Second)
			if out, err := exec.Command("jcmd", strconv.Itoa(pid), "Compiler.perfmap").CombinedOutput(); err != nil {
				t.Errorf("jcmd: %v\n%s", err, out)
			}
		}
	}
	runJIT(t, j)
}
