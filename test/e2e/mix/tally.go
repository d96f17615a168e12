package mix

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/analysis"
)

// Ratio counts events, and those of them of which something is true.
type Ratio struct{ Of, All int }

func (r *Ratio) add(n int, yes bool) {
	r.All += n
	if yes {
		r.Of += n
	}
}

// Share is 1 for nothing.
func (r Ratio) Share() float64 {
	if r.All == 0 {
		return 1
	}
	return float64(r.Of) / float64(r.All)
}

func (r Ratio) String() string {
	if r.All == 0 {
		return "-"
	}
	percent := 100 * r.Share()
	if r.Of < r.All && percent > 99.995 {
		return "< 100 %"
	}
	return fmt.Sprintf("%.2f %%", percent)
}

// Tally is what came of one program's samples. All numbers are events.
type Tally struct {
	Name    string
	Samples int
	// Complete is by the kind of code that the stack goes through: made code if any frame is in it, else bare code, else
	// described code only.
	Complete [Made + 1]Ratio
	Stops    map[string]int // of incomplete stacks
	// Named are user frames with a name, Lined those with a source line, of the frames in files with debug information.
	Named, Lined Ratio
	// LanguageNamed are frames of a language runtime's with a name, LanguageLined those with a source line. Frames in code made at run
	// time are such, whatever they were taken for.
	LanguageNamed, LanguageLined Ratio
	// NoLine are frames of these that have no line, by what they are called.
	NoLine map[string]int
	// Broken are the incomplete stacks, as text, by their number.
	Broken [Made + 1]map[string]int
	// New are the stacks of the program's first run, until whose tables were made; those that are complete.
	New Ratio
}

// All are all stacks, whatever they go through.
func (t *Tally) All() (all Ratio) {
	for _, r := range t.Complete {
		all.Of += r.Of
		all.All += r.All
	}
	return all
}

// Count counts a program's samples.
func Count(name string, samples analysis.Samples, files Files) *Tally {
	t := &Tally{Name: name, Stops: map[string]int{}, NoLine: map[string]int{}}
	for i := range t.Broken {
		t.Broken[i] = map[string]int{}
	}
	for _, s := range samples {
		t.add(s, files)
	}
	return t
}

func (t *Tally) add(s analysis.Sample, files Files) {
	t.Samples += s.Count
	worst := Described
	for _, f := range s.User() {
		where := files.Where(f.Mapping, f.Address)
		worst = max(worst, where)
		t.Named.add(s.Count, len(f.Lines) > 0)
		if f.Type != "native" || where == Made {
			lined := len(f.Lines) > 0 && f.Lines[0].Line > 0
			t.LanguageNamed.add(s.Count, len(f.Lines) > 0)
			t.LanguageLined.add(s.Count, lined)
			if !lined {
				t.NoLine[strings.TrimSpace(f.Type+" "+f.Mapping+" "+f.Name())] += s.Count
			}
		}
		if files.Debug(f.Mapping) {
			t.Lined.add(s.Count, len(f.Lines) > 0 && f.Lines[0].Line > 0)
		}
	}
	t.Complete[worst].add(s.Count, s.StopReason == "")
	if s.StopReason != "" {
		t.Stops[s.StopReason] += s.Count
		t.Broken[worst][ends(s, files)] += s.Count
	}
}

// ends writes where a stack begins and where it ended too early, with the kinds of code.
func ends(s analysis.Sample, files Files) string {
	user := s.User()
	var frames []string
	for i, f := range user {
		if i >= 2 && i < len(user)-3 {
			if i == 2 {
				frames = append(frames, fmt.Sprintf("... %d more ...", len(user)-5))
			}
			continue
		}
		text := fmt.Sprintf("%s+%#x", filepath.Base(f.Mapping), f.Address)
		if n := f.Name(); n != "" {
			text += " " + n
		}
		text += [...]string{"", " (bare)", " (made)"}[files.Where(f.Mapping, f.Address)]
		if f.Guessed {
			text += " (guessed)"
		}
		frames = append(frames, text)
	}
	return fmt.Sprintf("[%s] %s", s.StopReason, strings.Join(frames, " < "))
}

// Worst returns the most frequent incomplete stacks through one kind of code.
func (t *Tally) Worst(kind Where, n int) (lines []string) {
	return most(t.Broken[kind], n)
}

// WithoutLine returns the most frequent frames of the language without a line.
func (t *Tally) WithoutLine(n int) (lines []string) { return most(t.NoLine, n) }

func most(counts map[string]int, n int) (lines []string) {
	texts := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, s := range texts[:min(n, len(texts))] {
		lines = append(lines, fmt.Sprintf("%d x %s", counts[s], s))
	}
	return lines
}

// Merge adds another tally's numbers.
func (t *Tally) Merge(o *Tally) {
	t.Samples += o.Samples
	for i := range t.Complete {
		t.Complete[i].All += o.Complete[i].All
		t.Complete[i].Of += o.Complete[i].Of
	}
	for k, n := range o.Stops {
		t.Stops[k] += n
	}
	for _, pair := range [][2]*Ratio{
		{&t.Named, &o.Named}, {&t.Lined, &o.Lined}, {&t.New, &o.New},
		{&t.LanguageNamed, &o.LanguageNamed}, {&t.LanguageLined, &o.LanguageLined},
	} {
		pair[0].All += pair[1].All
		pair[0].Of += pair[1].Of
	}
}
