// Package workloads compiles and describes the programs of known truth: which functions burn which share of their CPU
// time, and through which chain of calls. The sources are in testdata/workloads; testdata/workloads/common/hot.h says how
// the shares are made exact.
package workloads

import "strings"

// Any stands in a Chain for any number of frames, none included.
const Any = "..."

// Share is what one function must get of its program's samples.
type Share struct {
	// Function is found in a stack by this name; see Match.
	Function string
	// Of is its share of the samples in which one of the program's functions is found, from 0 to 1.
	Of float64
	// Chain is the stack from the program's first own function down to Function, root first.
	Chain []string
}

// Program is one workload.
type Program struct {
	Name string
	Args []string // besides those that say how long to run
	// Truth lists the functions; their shares add up to 1.
	Truth []Share
	// Covered is the least part of the program's samples in which one of the functions is found. 0 means no promise.
	Covered float64
	// Complete is the least part of the samples whose stack must end at the thread's root; 0 means 0.995.
	Complete float64
	// AboveChain is how many frames there may be above the chain's first one: start code.
	AboveChain int
	// Exotic programs cannot be walked to the root.
	Exotic bool
	// OtherStack: handlers run on an alternate stack, or C on another one than Go. The first samples of a process are walked over a
	// copy of the stack that it runs on; what the signal has interrupted, or what has called C, is not in it.
	OtherStack bool
	// Roots are the first functions of stacks that are not a thread's own: of coroutines.
	Roots []string
	// NamesItself: the executable has its functions' names even when it is stripped (Go's pclntab).
	NamesItself bool

	steps []step
	// native: the compiler for the program exists for the machine's own architecture only.
	native bool
	// amd64: there is no such program on other architectures.
	amd64 bool
	// libraries that stand beside the executable.
	libraries []string
	// stripped: the executable has no symbols, and its twin with the suffix ".full" has them.
	stripped bool
}

// Match tells whether a symbol is the one that a Share means: equal, or, for a pattern that starts with "~", containing
// the rest.
func Match(pattern, symbol string) bool {
	if rest, ok := strings.CutPrefix(pattern, "~"); ok {
		return strings.Contains(symbol, rest)
	}
	return pattern == symbol
}

// threeWay returns the truth of a program that burns 60/30/10 % in three functions through chains of its own.
func threeWay(sixty, thirty, ten []string) []Share {
	last := func(c []string) string { return c[len(c)-1] }
	return []Share{{last(sixty), 0.6, sixty}, {last(thirty), 0.3, thirty}, {last(ten), 0.1, ten}}
}

func chain(names ...string) []string { return names }

var cThreeWay = threeWay(
	chain("main", "rounds", "sixty_1", "sixty_2", "sixty_3", "sixty_4", "sixty_5", "sixty_6", "sixty_7", "sixty_8", "sixty_9",
		"sixty_10", "sixty_11", "sixty_12", "hot_sixty"),
	chain("main", "rounds", "thirty_1", "thirty_2", "thirty_3", "thirty_4", "thirty_5", "hot_thirty"),
	chain("main", "rounds", "ten_1", "hot_ten"),
)

// All returns every program. The list is made anew at each call.
func All() []Program {
	var all []Program
	all = append(all, cPrograms()...)
	all = append(all, shapePrograms()...)
	all = append(all, kernelPrograms()...)
	all = append(all, languagePrograms()...)
	return append(all, exoticPrograms()...)
}

// Find returns the program of that name, of All and of Edges.
func Find(name string) (_ Program, ok bool) {
	return findIn(append(All(), Edges()...), name)
}
