package mix

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// A second opinion is what a runtime's own profiler says of the same run: how often each function was running by itself.
type opinion struct {
	Program
	// read reads what the runtime has written into the program's folder, by the functions' keys.
	read func(t *testing.T, dir string) map[string]int
	// key is what read calls the function that a sample is in, empty if it is not known; false if the runtime's profiler does not see such
	// samples.
	key func(analysis.Sample) (key string, seen bool)
}

const (
	// opinionSpan is how long a program runs: the rarest of ten functions are to be seen often enough.
	opinionSpan = 20 * time.Second
	// opinionPoints is by how much the shares of a function may differ, and by how much two functions have to differ for their order to
	// count. Either profiler sees some thousand samples.
	opinionPoints = 0.03
	// opinionSum is by how much the shares of the ten functions together may differ.
	opinionSum = 0.05
	// withoutKey is the part of the samples in the language's code that may have no function to compare.
	withoutKey = 0.03
	// fewestOpinions are samples of the runtime's own profiler.
	fewestOpinions = 500
)

// TestSecondOpinion compares the functions that run most, by themselves, with what the runtimes' own profilers say of the same run.
func TestSecondOpinion(t *testing.T) {
	needFull(t)
	if err := Modules(); err != nil {
		t.Fatal(err)
	}
	dir := workDir(t)
	var b strings.Builder
	b.WriteString("| program | samples of ours, of the runtime's own | largest difference among its ten most frequent functions | of the share of the ten |\n|---|---|---|---|\n")
	all := opinions()
	var programs []Program
	for _, o := range all {
		programs = append(programs, o.Program)
	}
	for _, p := range chosen(t, programs, programs) {
		o := all[slices.IndexFunc(all, func(o opinion) bool { return o.Name == p.Name })]
		t.Run(o.Name, func(t *testing.T) {
			var theirs map[string]int
			_, samples := sample(t, o.Program, dir, opinionSpan, func(w *Work) { theirs = o.read(t, w.Dir) })
			ours, unnamed := map[string]int{}, 0
			for _, s := range samples {
				switch key, ok := o.key(s); {
				case ok && key == "":
					unnamed += s.Count
				case ok:
					ours[key] += s.Count
				}
			}
			if known := sum(ours); float64(unnamed) > withoutKey*float64(known+unnamed) {
				t.Errorf("%d samples in the language's code have no function, %d have one", unnamed, known)
			}
			compareOpinions(t, &b, o.Name, ours, theirs)
		})
	}
	t.Log("\n" + b.String())
	write(t, "opinions.md", b.String())
}

// compareOpinions wants the ten most frequent functions to have about the same shares, and the same order where they differ.
func compareOpinions(t *testing.T, b *strings.Builder, name string, ours, theirs map[string]int) {
	t.Helper()
	allOurs, allTheirs := sum(ours), sum(theirs)
	if allTheirs < fewestOpinions || allOurs < fewestOpinions {
		t.Fatalf("%d samples of ours, %d of the runtime's own, too few", allOurs, allTheirs)
	}
	our := func(k string) float64 { return float64(ours[k]) / float64(allOurs) }
	their := func(k string) float64 { return float64(theirs[k]) / float64(allTheirs) }
	top := slices.SortedFunc(maps.Keys(theirs), func(a, b string) int { return theirs[b] - theirs[a] })
	top = top[:min(10, len(top))]
	worst, all := 0.0, 0.0
	if len(top) < 10 {
		t.Errorf("%d functions, too few", len(top))
	}
	for i, k := range top {
		t.Logf("%5.2f %% of ours, %5.2f %% of the runtime's own: %s", 100*our(k), 100*their(k), k)
		difference := our(k) - their(k)
		all += difference
		worst = max(worst, math.Abs(difference))
		if math.Abs(difference) > opinionPoints {
			t.Errorf("%s has %.2f %%, the runtime's own profiler says %.2f %%", k, 100*our(k), 100*their(k))
		}
		for _, less := range top[i+1:] {
			if their(k)-their(less) > opinionPoints && our(k) <= our(less) {
				t.Errorf("%s has %.2f %%, %s %.2f %%: the other way round than %.2f %% and %.2f %%", k, 100*our(k), less, 100*our(less), 100*their(k), 100*their(less))
			}
		}
	}
	if math.Abs(all) > opinionSum {
		t.Errorf("the ten have %.2f points more than the runtime's own profiler says", 100*all)
	}
	for _, k := range slices.SortedFunc(maps.Keys(ours), func(a, b string) int { return ours[b] - ours[a] })[:min(10, len(ours))] {
		if our(k)-their(k) > opinionPoints {
			t.Errorf("%s has %.2f %%, the runtime's own profiler says %.2f %%", k, 100*our(k), 100*their(k))
		}
	}
	fmt.Fprintf(b, "| %s | %d, %d | %.2f points | %+.2f points |\n", name, allOurs, allTheirs, 100*worst, 100*all)
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func opinions() []opinion {
	all := Applications()
	program := func(name string, change func(p *Program)) Program {
		p := all[slices.IndexFunc(all, func(p Program) bool { return p.Name == name })]
		change(&p)
		return p
	}
	return []opinion{
		{
			program("Django in gunicorn", func(p *Program) {
				p.Setup += sampler
				p.Run = "rm -f second.*\nexport PYTHONPATH=$PWD\n" + p.Run + ended
			}), readTracebacks, ownFunction("cpython", byName),
		},
		{
			program("tsc", func(p *Program) {
				p.Setup += "\nfor i in 4 5 6 7 8 9; do cp many.ts many$i.ts; done"
				p.Run = `files=many.ts
if ((SPAN > 1)); then files=$(echo many*.ts); fi
` + perf + `node --perf-basic-prof "$NODE_MODULES/typescript/lib/tsc.js" --strict --target es2020 --outDir out $files`
			}), readPerf, ownCode,
		},
		{
			program("javac", func(p *Program) {
				p.Setup += "\nfor i in 1 2 3 4 5 6; do cp -r src src$i; done\nfor i in 1 2 3 4 5 6; do sed -i \"1i package p$i;\" src$i/*.java; done"
				p.Run = `files="src/C1.java"
if ((SPAN > 1)); then files=$(echo src*/*.java); fi
javac -J-XX:StartFlightRecording=filename=second.jfr,settings=profile,jdk.ExecutionSample#period=2ms -d out $files`
			}), readJFR, ownMethod,
		},
	}
}

// ended ends the script's background processes kindly, for them to write what they have counted.
const ended = "\nkill -TERM $(jobs -p)\nwait || true"

// perf samples by the same clock as we do. It has only the names that V8 writes down: those of what it has compiled.
const perf = `perf record -q -e cpu-clock -F 997 -o second.data `

// sampler is a module that Python imports by itself: the interpreter's fault handler, which is C, writes what runs, by the process's own
// timer; each process of a server into a file of its own.
const sampler = `
cat >sitecustomize.py <<'END'
import faulthandler, os, signal
def start():
    global out
    out = open(os.path.join(os.path.dirname(__file__), "second.%d" % os.getpid()), "w")
    faulthandler.register(signal.SIGPROF, file=out, all_threads=False)
    signal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)
start()
os.register_at_fork(after_in_child=start)
END
`

// byName is a function by its file and its name without what that is part of.
func byName(l analysis.Line) string {
	return filepath.Base(l.File) + " " + l.Name[strings.LastIndexByte(l.Name, '.')+1:]
}

// ownCode is the function whose compiled code runs by itself, and not something that it calls; the functions that were put into it are it.
func ownCode(s analysis.Sample) (own string, seen bool) {
	if len(s.Frames) == 0 || s.Frames[0].Type != "v8js" || len(s.Frames[0].Lines) == 0 {
		return "", false
	}
	outer := s.Frames[0].Lines[len(s.Frames[0].Lines)-1]
	if outer.File == "" || outer.StartLine == 0 {
		return "", false // a builtin
	}
	return fmt.Sprintf("%s:%d", filepath.Base(outer.File), outer.StartLine), true
}

// ownFunction is the function that runs. A call of the runtime's, or of native code, is its caller's.
func ownFunction(kind string, key func(analysis.Line) string) func(analysis.Sample) (string, bool) {
	return func(s analysis.Sample) (own string, seen bool) {
		for _, f := range s.Frames {
			if f.Type != kind {
				continue
			}
			seen = true
			for _, l := range f.Lines {
				if l.File != "" {
					return key(l), true
				}
			}
			if len(f.Lines) == 0 {
				return "", true
			}
		}
		return "", seen
	}
}

// ownMethod is the method that runs. Flight Recorder does not look at threads in native code or in the kernel.
func ownMethod(s analysis.Sample) (key string, seen bool) {
	if len(s.Frames) == 0 || s.Frames[0].Type != "jvm" {
		return "", false
	}
	for _, f := range s.Frames {
		for _, l := range f.Lines {
			if f.Type == "jvm" && l.File != "" {
				return method(l.Name), true
			}
		}
	}
	return "", true
}

// method leaves a hidden class's number out.
func method(name string) string { return hiddenClass.ReplaceAllString(name, "$$$$Lambda") }

var hiddenClass = regexp.MustCompile(`\$\$Lambda[$/0-9A-Fa-fx.+]*`)

// readTracebacks reads the innermost functions of the tracebacks that the processes wrote.
func readTracebacks(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "second.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	counts := map[string]int{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range innermost.FindAllStringSubmatch(string(text), -1) {
			counts[filepath.Base(m[1])+" "+m[2]]++
		}
	}
	return counts
}

var innermost = regexp.MustCompile(`(?m)^Stack \(most recent call first\):\n  File "([^"]*)", line \d+ in (.*)$`)

// readPerf has perf print what it has counted: names as "JS:*f /a/b.js:3:14".
func readPerf(t *testing.T, dir string) map[string]int {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("perf", "script", "-i", "second.data", "-F", "ip,sym")
	cmd.Dir, cmd.Stderr = dir, &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	counts := map[string]int{}
	for _, m := range compiledCode.FindAllStringSubmatch(string(text), -1) {
		counts[filepath.Base(m[1])+":"+m[2]]++
	}
	return counts
}

var compiledCode = regexp.MustCompile(`(?m)^\s*[0-9a-f]+ JS:.* (\S+):(\d+):\d+\s*$`)

// readJFR has the JDK print what Flight Recorder wrote.
func readJFR(t *testing.T, dir string) map[string]int {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("jfr", "print", "--events", "jdk.ExecutionSample", "--stack-depth", "1", "second.jfr")
	cmd.Dir, cmd.Stderr = dir, &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	counts := map[string]int{}
	for _, m := range topFrame.FindAllStringSubmatch(string(text), -1) {
		counts[method(m[1])]++
	}
	return counts
}

var topFrame = regexp.MustCompile(`stackTrace = \[\n\s+([^(\s]+)\(`)
