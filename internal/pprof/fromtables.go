package pprof

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// tables fills in the mappings, functions and locations that the profile's samples need, in the dictionary's order, with
// their carriers behind them.
func (o *output) tables() error {
	used, err := o.usedLocations()
	if err != nil {
		return err
	}
	d := o.d
	mappings := make([]*profile.Mapping, len(d.mappings))
	functions := make([]*profile.Function, len(d.functions))
	lines := 0
	var order []int32 // of the mappings: those of the mapping table, then those that locations carry as they come
	for id, use := range used {
		if use {
			l := d.locations[id]
			lines += len(d.lists.all[l.lines]) / wordsPerLine
			if l.mapping != 0 && mappings[l.mapping] == nil {
				mappings[l.mapping] = &profile.Mapping{}
				order = append(order, l.mapping)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(min(a, d.inTable), min(b, d.inTable)) })
	if err := d.budget.take(lines, sizeLine); err != nil {
		return err
	}
	if err := o.emitMappings(mappings, order); err != nil {
		return err
	}
	o.locations = make([]*profile.Location, len(d.locations))
	carriers := map[int32]*profile.Function{} // by tag
	flat := make([]profile.Line, 0, lines)
	for id, use := range used {
		if !use {
			continue
		}
		l := d.locations[id]
		start := len(flat)
		for list := d.lists.all[l.lines]; len(list) > 0; list = list[wordsPerLine:] {
			f, line, column := lineAt(list)
			if functions[f] == nil {
				functions[f] = o.function(d.functions[f])
			}
			flat = append(flat, profile.Line{Function: functions[f], Line: line, Column: column})
		}
		o.locations[id] = o.location(&profile.Location{
			Mapping: mappings[l.mapping], Address: l.address, IsFolded: l.folded, Line: flat[start:len(flat):len(flat)],
		})
		if err := o.carryLocation(o.locations[id], d.lists.all[l.carried], carriers); err != nil {
			return err
		}
	}
	if err := d.budget.take(len(o.p.Function), sizeFunction); err != nil {
		return err
	}
	for id := range o.stacks {
		stack := make([]*profile.Location, len(d.stacks.all[id]))
		for i, l := range d.stacks.all[id] {
			stack[i] = o.locations[l]
		}
		o.stacks[id] = stack
	}
	return nil
}

// usedLocations marks the locations of the profile's stacks, and makes room for those.
func (o *output) usedLocations() ([]bool, error) {
	d := o.d
	// Other profiles of the payload have tables of their own: what looks at whole tables counts as much.
	if err := d.budget.take(len(d.locations)+len(d.mappings)+len(d.functions), 8); err != nil {
		return nil, err
	}
	used := make([]bool, len(d.locations))
	o.stacks = map[int32][]*profile.Location{0: nil}
	count := 0
	for _, r := range o.rows {
		id := o.family.rows[r].stack
		if _, known := o.stacks[id]; known {
			continue
		}
		o.stacks[id] = nil
		stack := d.stacks.all[id]
		if err := d.budget.take(len(stack), 8); err != nil {
			return nil, err
		}
		for _, l := range stack {
			if !used[l] {
				used[l] = true
				count++
			}
		}
	}
	if err := d.budget.take(len(o.rows), sizeSample); err != nil {
		return nil, err
	}
	return used, d.budget.take(count, sizeLocation)
}

func (o *output) location(l *profile.Location) *profile.Location {
	l.ID = uint64(len(o.p.Location) + 1)
	o.p.Location = append(o.p.Location, l)
	return l
}

func (o *output) function(f function) *profile.Function {
	return o.addFunction(&profile.Function{
		Name: o.d.texts.all[f.name], SystemName: o.d.texts.all[f.systemName], Filename: o.d.texts.all[f.file],
		StartLine: f.startLine,
	})
}

func (o *output) addFunction(f *profile.Function) *profile.Function {
	f.ID = uint64(len(o.p.Function) + 1)
	o.p.Function = append(o.p.Function, f)
	return f
}

// carryLocation adds the carrier of a location's attributes: a location at the same address, that no sample refers to, with
// a line for each. Its functions are named "[attribute]"; the key is the system name, the value the file.
func (o *output) carryLocation(l *profile.Location, tags []int32, functions map[int32]*profile.Function) error {
	if len(tags) == 0 {
		return nil
	}
	if err := o.d.budget.take(1+len(tags)/2, sizeLocation); err != nil {
		return err
	}
	lines := make([]profile.Line, len(tags))
	for i, id := range tags {
		if functions[id] == nil {
			t := o.d.tags[id]
			functions[id] = o.addFunction(&profile.Function{Name: carrier, SystemName: t.key, Filename: t.str})
		}
		lines[i].Function = functions[id]
	}
	o.location(&profile.Location{Address: l.Address, Line: lines})
	return nil
}

// emitMappings fills in the mappings. The first one in pprof is that of the main binary.
func (o *output) emitMappings(mappings []*profile.Mapping, order []int32) error {
	d := o.d
	if i := o.mainMapping(order); i > 0 {
		order = slices.Concat(order[i:i+1], order[:i], order[i+1:])
	}
	for _, id := range order {
		from, m := d.mappings[id], mappings[id]
		carried := d.lists.all[from.carried]
		if err := d.budget.take(1+len(carried), sizeMapping); err != nil {
			return err
		}
		m.Start, m.Limit, m.Offset = from.start, from.limit, from.offset
		m.File, m.BuildID = d.texts.all[from.file], d.texts.all[from.buildID]
		m.HasFunctions, m.HasFilenames = from.has.functions, from.has.filenames
		m.HasLineNumbers, m.HasInlineFrames = from.has.lines, from.has.inlines
		// As the package sets it when it parses a file.
		if symbol, ok := strings.CutPrefix(m.File, "[kernel.kallsyms]"); ok {
			m.KernelRelocationSymbol = symbol
		}
		o.mapping(m)
		for _, tag := range carried {
			// The carrier of an attribute: a mapping of the same range that no location refers to.
			t := d.tags[tag]
			o.mapping(&profile.Mapping{
				Start: m.Start, Limit: m.Limit, Offset: m.Offset, File: carrier + " " + t.key, BuildID: t.str,
			})
		}
	}
	return nil
}

func (o *output) mapping(m *profile.Mapping) {
	m.ID = uint64(len(o.p.Mapping) + 1)
	o.p.Mapping = append(o.p.Mapping, m)
}

// mainMapping returns the place of the mapping that is known to be the main binary's, or 0: the one that says so itself, or the
// first one of the executable of all resources, if they have the same. encoder.impliedMain knows what comes of that.
func (o *output) mainMapping(order []int32) int {
	if i := slices.Index(order, o.d.main); i >= 0 {
		return i
	}
	executable := o.headers[0].executable
	for _, h := range o.headers {
		if h.executable != executable {
			return 0
		}
	}
	if executable == 0 {
		return 0
	}
	return max(0, slices.IndexFunc(order, func(id int32) bool { return o.d.mappings[id].file == executable }))
}
