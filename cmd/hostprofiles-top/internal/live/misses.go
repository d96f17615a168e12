package live

import (
	"context"

	"github.com/hostprofiles/hostprofiles/cmd/hostprofiles-top/internal/api"
)

// Misses are the parts of a request that match nothing even alone, in the window that was looked at.
type Misses struct {
	Filters []Miss
	Search  bool
}

// Miss is a filter that matches nothing. Other is another key of which there is that value, empty if there is none: a script is
// found as a thread, but runs in the process of its interpreter.
type Miss struct {
	api.Filter
	Other string
}

// FindMisses asks for each of the parts of r alone, after an answer in which nothing is selected.
func FindMisses(ctx context.Context, source Source, d *Data, r Request) (m Misses, err error) {
	none := func(search string, filters ...api.Filter) bool {
		if err != nil {
			return false
		}
		table, failed := source.Table(ctx, api.Selection{Type: d.Type.ID, Range: d.Range, Filters: filters}, "self", search, 1)
		if err = failed; err != nil {
			return false
		}
		if search != "" {
			return len(table.Rows) == 0
		}
		return table.Total == 0 // samples need not have a function
	}
	others := map[string]string{KeyProcess: KeyThread, KeyThread: KeyProcess}
	for _, f := range r.Filters {
		if !none("", f) {
			continue
		}
		miss := Miss{Filter: f}
		if key := others[f.Key]; key != "" && !none("", api.Filter{Key: key, Value: f.Value}) {
			miss.Other = key
		}
		m.Filters = append(m.Filters, miss)
	}
	m.Search = r.Search != "" && none(r.Search)
	return m, err
}
