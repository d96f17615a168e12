package mix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	applicationModules(t)
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
	all := applications()
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
			}), readLines, ownFunction("cpython"),
		},
		{
			program("asyncio", func(p *Program) {
				p.Setup += sampler
				p.Run = "rm -f second.*\nexport PYTHONPATH=$PWD\n" + p.Run + ended
			}), readLines, ownFunction("cpython"),
		},
		{
			program("tsc", func(p *Program) {
				p.Run = `files=many.ts
if ((SPAN > 1)); then files=many*.ts; fi
node --cpu-prof --cpu-prof-interval 1000 --cpu-prof-name second.cpuprofile "$NODE_MODULES/typescript/lib/tsc.js" --strict --target es2020 --outDir out $files`
			}), readCPUProfile, ownFunction("v8js"),
		},
		{
			program("express", func(p *Program) {
				p.Setup += "\necho \"process.on('SIGTERM', () => process.exit(0));\" >>server.js"
				p.Run = strings.Replace(p.Run, "node server.js", "node --cpu-prof --cpu-prof-interval 1000 --cpu-prof-name second.cpuprofile server.js", 1) + ended
			}), readCPUProfile, ownFunction("v8js"),
		},
		{
			program("javac", func(p *Program) {
				p.Setup += "\nfor i in 1 2 3; do cp -r src src$i; done\nfor i in 1 2 3; do sed -i \"1i package p$i;\" src$i/*.java; done"
				p.Run = `files="src/C1.java"
if ((SPAN > 1)); then files=$(echo src*/*.java); fi
javac -J-XX:StartFlightRecording=filename=second.jfr,settings=profile -d out $files`
			}), readJFR, ownMethod,
		},
		{
			program("netty", func(p *Program) {
				p.Run = strings.Replace(p.Run, "java -Xmx256m", "java -Xmx256m -XX:StartFlightRecording=filename=second.jfr,settings=profile", 1) + ended
			}), readJFR, ownMethod,
		},
	}
}

// ended ends the script's background processes kindly, for them to write what they have counted.
const ended = "\nkill -TERM $(jobs -p)\nwait || true"

// sampler is a module that Python imports by itself: it counts which function runs, by the process's own timer, and writes the counts
// when the process ends, each process of its own.
const sampler = `
cat >sitecustomize.py <<'END'
import atexit, collections, os, signal
counts = collections.Counter()
def tick(number, frame):
    code = frame.f_code
    counts["%s:%d" % (os.path.basename(code.co_filename), code.co_firstlineno)] += 1
def start():
    counts.clear()
    signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
def write():
    signal.setitimer(signal.ITIMER_PROF, 0, 0)
    with open(os.path.join(os.path.dirname(__file__), "second.%d" % os.getpid()), "w") as f:
        f.writelines("%d %s\n" % (n, name) for name, n in counts.items())
start()
os.register_at_fork(after_in_child=start)
atexit.register(write)
signal.signal(signal.SIGTERM, lambda *_: exit(0))
END
`

// ownFunction is the function that runs, by its file and where it begins. A call of the runtime's, or of native code, is its caller's.
func ownFunction(kind string) func(analysis.Sample) (string, bool) {
	return func(s analysis.Sample) (key string, seen bool) {
		for _, f := range s.Frames {
			if strings.Contains(f.Name(), "v8::internal::Heap::CollectGarbage") {
				return "", false // V8's profiler has an entry of its own for that
			}
			if f.Type != kind {
				continue
			}
			seen = true
			for _, l := range f.Lines {
				if l.File != "" {
					return fmt.Sprintf("%s:%d", filepath.Base(l.File), l.StartLine), true
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

// readLines reads the counts of the processes that wrote some.
func readLines(t *testing.T, dir string) map[string]int {
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
		for line := range strings.Lines(string(text)) {
			count, key, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			counts[key] += n
		}
	}
	return counts
}

// readCPUProfile reads what V8's profiler wrote: https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile
func readCPUProfile(t *testing.T, dir string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "second.cpuprofile"))
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		Nodes []struct {
			HitCount  int
			CallFrame struct {
				URL        string
				LineNumber int
			}
		}
	}
	if err := json.Unmarshal(text, &profile); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, n := range profile.Nodes {
		if n.CallFrame.URL != "" && n.HitCount > 0 {
			counts[fmt.Sprintf("%s:%d", filepath.Base(n.CallFrame.URL), n.CallFrame.LineNumber+1)] += n.HitCount
		}
	}
	return counts
}

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
