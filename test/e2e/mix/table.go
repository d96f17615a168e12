package mix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table writes tallies as a table in Markdown.
func Table(tallies []*Tally) string {
	var b strings.Builder
	b.WriteString("| program | samples | complete, in code with CFI | in code without CFI: samples | complete | in code made at run time: samples | complete | stopped early, by reason | complete in the first second | frames with a name | with a line, where debug information is |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range tallies {
		share := func(kind Where) string {
			if t.Complete[kind].All == 0 {
				return "-"
			}
			return Ratio{t.Complete[kind].All, t.Samples}.String()
		}
		fmt.Fprintf(&b, "| %s | %d | %v | %s | %v | %s | %v | %s | %v | %v | %v |\n", t.Name, t.Samples, t.Complete[Described],
			share(Bare), t.Complete[Bare], share(Made), t.Complete[Made], t.stops(), t.New, t.Named, t.Lined)
	}
	return b.String()
}

// ApplicationTable writes tallies of applications as a table in Markdown.
func ApplicationTable(tallies []*Tally) string {
	var b strings.Builder
	b.WriteString("| program | samples | stacks complete | stopped early, by reason | the language's frames with a name | with a line | all user frames with a name |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, t := range tallies {
		fmt.Fprintf(&b, "| %s | %d | %v | %s | %v | %v | %v |\n", t.Name, t.Samples, t.All(), t.stops(), t.LanguageNamed, t.LanguageLined, t.Named)
	}
	return b.String()
}

func (t *Tally) stops() string {
	reasons := slices.SortedFunc(maps.Keys(t.Stops), func(a, b string) int {
		if t.Stops[a] != t.Stops[b] {
			return t.Stops[b] - t.Stops[a]
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		reasons[i] = fmt.Sprintf("%s %d", r, t.Stops[r])
	}
	if len(reasons) == 0 {
		return "-"
	}
	return strings.Join(reasons, ", ")
}
