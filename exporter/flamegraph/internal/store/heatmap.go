package store

// Heatmap is a selection over time: columns are slices of its range, rows subdivide each from its beginning.
type Heatmap struct {
	From, To     int64 // Unix ms
	Columns      int
	Rows         int
	ColumnMicros int64
	RowMicros    int64
	Values       []int64 // column by column
	Max          int64
	Untimed      int64 // of samples without a time of their own, which stand at their profile's start
}

// Heatmap sums the selection up over time. Its range is what the window has of the selection's.
func (s *Snapshot) Heatmap(sel Selection, columns, rows int) (*Heatmap, bool) {
	w, ok := s.work(sel)
	if !ok {
		return nil, false
	}
	from, to := s.Bounds(sel)
	to = max(to, from+1)
	h := &Heatmap{From: from, To: to, Columns: columns, Rows: rows, Values: make([]int64, columns*rows)}
	// Whole milliseconds a column, so that its bounds can be asked for.
	h.ColumnMicros = max((to-from+int64(columns)-1)/int64(columns), 1) * 1000
	h.RowMicros = max(h.ColumnMicros/int64(rows), 1)
	w.rows(func(g *segment, i int, value int64) {
		at := g.base + int64(g.at[i]) - from*1000
		column := at / h.ColumnMicros
		if at < 0 || column >= int64(columns) {
			return
		}
		row := min((at-column*h.ColumnMicros)/h.RowMicros, int64(rows)-1)
		if g.untimed[i] {
			h.Untimed, row = saturatingAdd(h.Untimed, value), 0
		}
		cell := &h.Values[column*int64(rows)+row]
		*cell = saturatingAdd(*cell, value)
		h.Max = max(h.Max, *cell)
	})
	return h, true
}
