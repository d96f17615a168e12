package engine

// questions are about what reports need to know. A report waits until all are answered that were asked before its interval ended: answers to
// later ones, which may come first, do not count.
type questions struct {
	report uint64           // that is being gathered
	open   map[question]int // how many are not answered yet
}

// question is one of a report.
type question uint64

func (q *questions) ask() question {
	if q.open == nil {
		q.open = map[question]int{}
	}
	of := question(q.report)
	q.open[of]++
	return of
}

func (q *questions) answer(of question) {
	if q.open[of]--; q.open[of] == 0 {
		delete(q.open, of)
	}
}

// reported ends a report's interval, and returns the last of the questions that it waits for.
func (q *questions) reported() question {
	q.report++
	return question(q.report - 1)
}

// answered tells whether there are no open questions up to one.
func (q *questions) answered(last question) bool {
	for of := range q.open {
		if of <= last {
			return false
		}
	}
	return true
}

func (q *questions) idle() bool { return len(q.open) == 0 }
