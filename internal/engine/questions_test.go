package engine

import "testing"

// TestQuestions: a report waits for what was asked before its end, however much of what was asked later is answered first.
func TestQuestions(t *testing.T) {
	var q questions
	if !q.idle() || !q.answered(q.reported()) {
		t.Error("nothing was asked")
	}
	slow, quick := q.ask(), q.ask()
	first := q.reported()
	later, more := q.ask(), q.ask()
	second := q.reported()
	q.answer(later)
	q.answer(more)
	q.answer(quick)
	if q.answered(first) || q.answered(second) || q.idle() {
		t.Error("the slow one was not answered")
	}
	later = q.ask()
	q.answer(slow)
	if !q.answered(first) || !q.answered(second) || q.answered(q.reported()) || q.idle() {
		t.Error("only one of the third report is open")
	}
	q.answer(later)
	if !q.idle() || len(q.open) != 0 {
		t.Errorf("%v is kept", q.open)
	}
}
