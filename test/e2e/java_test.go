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

// javaChains are the functions behind each that burns, as far as round. The lambda's own class is not there once it is inlined.
func javaChains() map[string][]string {
	return map[string][]string{
		"Levels.hotSixty":  {"Levels.lambda$callSixty$0", "Levels.apply", "Levels.callSixty"},
		"Levels.hotThirty": {"Levels$Thirty.call", "Levels.callThirty"},
		"Levels.hotTen":    {"Levels$Ten.<init>", "Levels.callTen"},
	}
}

// javaCall is what the program's comments call a method.
func javaCall(method string) string {
	switch method {
	case "Levels.lambda$callSixty$0":
		return "callSixty's lambda"
	case "Levels$Ten.<init>":
		return "Ten's constructor"
	case "Levels$Thirty.call":
		return "Thirty.call"
	}
	return strings.TrimPrefix(method, "Levels.")
}

// checkJava wants the frames of Java from a function that burns on to be all that there should be, in order, down to main, and each to be at
// its line: that of the loop for the function itself, else one that says what it calls.
func checkJava(t *testing.T, samples analysis.Samples, mode string) {
	t.Helper()
	lines := sourceLines(t, "java/Levels.java")
	good, placed, total, mounted := 0, 0, 0, 0
	wrong := map[string]int{}
	for _, s := range samples {
		java := slices.DeleteFunc(spread(s.User()), func(f analysis.Frame) bool { return f.Type != "jvm" })
		i := slices.IndexFunc(java, func(f analysis.Frame) bool { return strings.HasPrefix(f.Name(), "Levels.hot") })
		if i < 0 {
			continue
		}
		total += s.Count
		want := append([]string{java[i].Name()}, javaChains()[java[i].Name()]...)
		want = append(want, "Levels.round", "Levels.rounds")
		if mode == "" {
			want = append(want, "Levels.main")
		}
		got := slices.DeleteFunc(slices.Clone(java[i:]), func(f analysis.Frame) bool {
			return strings.HasPrefix(f.Name(), "Levels$$Lambda") // the object that calls the lambda's body
		})
		ok, at := len(got) >= len(want), true
		if mode == "" {
			ok = len(got) == len(want)
		}
		for n := 0; ok && n < len(want); n++ {
			ok = got[n].Name() == want[n]
			text := lines[got[n].Lines[0].Line]
			if n == 0 {
				at = at && strings.Contains(text, "of "+strings.TrimPrefix(want[0], "Levels."))
			} else {
				at = at && strings.HasSuffix(text, "// calls "+javaCall(want[n-1]))
			}
		}
		if ok {
			good += s.Count
		}
		if slices.ContainsFunc(java[i:], func(f analysis.Frame) bool { return f.Name() == "java.util.concurrent.ForkJoinWorkerThread.run" }) {
			mounted += s.Count
		}
		if ok && at {
			placed += s.Count
			continue
		}
		text := ""
		for _, f := range java {
			text += fmt.Sprintf("\n\t%s:%d", f.Name(), f.Lines[0].Line)
		}
		wrong[text] += s.Count
	}
	t.Logf("%d samples, %d with the true chain, %d with lines", total, good, placed)
	atLeast(t, "samples with exactly the true chain of methods", good, total, 0.98)
	atLeast(t, "of these, those with each at its line", placed, good, 0.98)
	if mode == "virtual" {
		atLeast(t, "samples with the frames of the carrier", mounted, total, 0.97)
	}
	shown := 0
	for stack, n := range wrong {
		if shown++; shown < 6 {
			t.Logf("%d times: %s", n, stack)
		}
	}
}

// sourceLines are those of a program, from the first one on; far behind the end they are empty.
func sourceLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(source(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]string{""}, strings.Split(string(text), "\n")...), make([]string, 1<<16)...)
}
