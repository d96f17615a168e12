package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostprofiles/hostprofiles/internal/unwind/unwindtest"
	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
	"github.com/hostprofiles/hostprofiles/test/e2e/levels"
)

// jdk is a Java virtual machine.
type jdk struct {
	name    string
	command []string // to run it
	classes string   // a folder of classes, as the command sees it
	virtual bool     // it has virtual threads
}

// javas are those on the machine, and in full tests those of Debian sid, too, stripped, each in a root of its own.
func javas(t testing.TB) (all []jdk) {
	t.Helper()
	unwindtest.Need(t, "java")
	unwindtest.Need(t, "javac")
	classes := filepath.Dir(compiled(t, "Levels.class"))
	found, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		found = []string{"java"}
	}
	seen := map[string]bool{}
	for _, path := range found {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if folder := filepath.Base(filepath.Dir(filepath.Dir(path))); !seen[folder] {
			seen[folder] = true
			all = append(all, jdk{folder, []string{path}, classes, virtualThreads(folder)})
		}
	}
	if !full() {
		return all
	}
	for _, f := range scriptLines(t, 3, "jdks.sh") {
		// chroot's /proc: java finds its own files by /proc/self/exe
		command := []string{"unshare", "--mount", "sh", "-c", `mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`, f[1], f[2]}
		copyClasses(t, classes, filepath.Join(f[1], "classes"))
		all = append(all, jdk{"Debian " + f[0], command, "/classes", virtualThreads(f[0])})
	}
	return all
}

// copyClasses puts the classes of Levels into another folder.
func copyClasses(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(from, "Levels*.class"))
	if err != nil || len(found) < 3 {
		t.Fatal(found, err)
	}
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// virtualThreads tells whether the JDK in a folder of that name has them.
func virtualThreads(folder string) bool {
	for v := 21; v < 40; v++ {
		if strings.Contains(folder, fmt.Sprint(v)) {
			return true
		}
	}
	return false
}

// TestHotspot names Java's methods, those that were inlined, too, with lines, in the right places between native frames: as the virtual machine
// runs them by itself, interpreted only, and compiled by C1 only, and in virtual threads.
func TestHotspot(t *testing.T) {
	// Without this C2 says nothing of the insides of counted loops: JDK 8's, and those that have no safepoints by the collector's choice.
	exact := []string{"-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"}
	for _, java := range javas(t) {
		for _, mode := range []struct {
			name    string
			options []string
			mode    string
			only    string // with this JDK
		}{
			{"tiered", nil, "", ""},
			{"interpreted", []string{"-Xint"}, "", ""},
			{"C1", []string{"-XX:TieredStopAtLevel=1"}, "", ""},
			{"virtual", nil, "virtual", ""},
			// how objects and code are laid out, and what the compilers put between
			{"serial", append([]string{"-XX:+UseSerialGC"}, exact...), "", "Debian 26"},
			{"parallel", append([]string{"-XX:+UseParallelGC"}, exact...), "", "Debian 26"},
			{"ZGC", []string{"-XX:+UseZGC"}, "", "Debian 26"},
			{"Shenandoah", []string{"-XX:+UseShenandoahGC"}, "", "Debian 26"},
			{"compact headers", []string{"-XX:+UseCompactObjectHeaders"}, "", "Debian 26"},
			{"one code heap", []string{"-XX:-SegmentedCodeCache"}, "", "Debian 26"},
			{"large code cache", []string{"-XX:+SegmentedCodeCache", "-XX:ReservedCodeCacheSize=1g"}, "", "Debian 26"},
		} {
			if mode.mode == "virtual" && !java.virtual || mode.name != "tiered" && !full() || mode.only != "" && mode.only != java.name {
				continue
			}
			t.Run(java.name+"/"+mode.name, func(t *testing.T) {
				command := append(slices.Clone(java.command), mode.options...)
				if java.name == "Debian 8" {
					command = append(command, exact...)
				}
				command = append(command, "-XX:ActiveProcessorCount=2", "-cp", java.classes, "Levels")
				if mode.mode != "" {
					command = append(command, mode.mode)
				}
				runJIT(t, jitRun{
					name: java.name + " " + mode.name, command: command, executable: "java", kind: "jvm", file: "Levels.java",
					named: 0.9, lines: 0.99, complete: 0.97,
					check: func(t *testing.T, samples analysis.Samples) { checkJava(t, samples, mode.mode) },
				})
			})
		}
	}
}

// checkJava wants the samples that burn to have exactly their methods, down to main, and each at its line.
func checkJava(t *testing.T, samples analysis.Samples, mode string) {
	t.Helper()
	r := levels.Java(samples, sourceLines(t, "java/Levels.java"), mode == "virtual")
	t.Log(r)
	atLeast(t, "samples with exactly the true chain of methods", r.Chains, r.Samples, 0.98)
	atLeast(t, "of these, those with each at its line", r.Placed, r.Chains, 0.98)
	if mode == "virtual" {
		atLeast(t, "samples with the frames of the carrier", r.Carried, r.Samples, 0.97)
	}
	logFrequent(t, r.Wrong)
}

// sourceLines are those of a program.
func sourceLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(source(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return levels.Lines(text)
}
