package engine

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// Of a core's time what processes say of their code takes no more than this part, beyond what first looks at much of it take.
	saidCPUShare = 0.01
	saidCredit   = 10 * time.Second // that may be used at once
	saidDebt     = 2 * time.Second  // that looks may leave behind, at most
	// What one process says in one way takes no more than half of that, so that the others are looked at however much it says.
	saidProcessShare  = saidCPUShare / 2
	saidProcessCredit = time.Second // that may be used at once
	// saidLookTime is after how much CPU time a look goes no further; the next goes on.
	saidLookTime = 100 * time.Millisecond
)

// said is what processes say of their code themselves, in files of theirs or in their memory: names that no executable has. All of it
// shares one part of the memory budget, debugLimits.said, and one of a core's time.
type said struct {
	recent   *simplelru.LRU[speaker, struct{}] // with names
	bytes    int
	replaced int // bytes of names that nothing but the samples of this interval refers to
	cpu      allowance
}

// speaker is what one process says in one way: JIT code's names, or those of a language runtime's frames.
type speaker interface {
	size() int // bytes of what is known
	sum() *saidSum
	// forget drops what can be found out again.
	forget(e *Engine)
}

// saidSum is a speaker's part in what is counted of all.
type saidSum struct {
	bytes    int
	replaced int       // bytes of names that are known no more, and that samples may still refer to; not counted yet
	cpu      allowance // its own, beside that of all
}

func newSaidSum() saidSum {
	return saidSum{cpu: newAllowance(saidProcessShare, saidProcessCredit, saidProcessCredit)}
}

func (s *saidSum) sum() *saidSum { return s }

func newSaid() said {
	return said{recent: newLRU[speaker, struct{}](math.MaxInt32, nil), cpu: newAllowance(saidCPUShare, saidCredit, saidDebt)}
}

// newLRU is simplelru's, which fails only for a size that is not positive.
func newLRU[K comparable, V any](size int, evicted simplelru.EvictCallback[K, V]) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU(size, evicted)
	if err != nil {
		panic(err)
	}
	return lru
}

// some tells whether a process may be looked at.
func (s *said) some(p speaker, now time.Time) bool { return p.sum().cpu.some(now) && s.cpu.some(now) }

// spend charges a look to the process that it was at, and to all.
func (s *said) spend(p speaker, used time.Duration) {
	p.sum().cpu.spend(used)
	s.cpu.spend(used)
}

func (s *said) account(p speaker) {
	sum, n := p.sum(), p.size()
	s.bytes += n - sum.bytes
	s.replaced += sum.replaced
	sum.bytes, sum.replaced = n, 0
}

// drop accounts for what is not kept any more.
func (s *said) drop(p speaker) {
	s.recent.Remove(p)
	s.account(p)
}

// keepSaid accounts for what a process has said, and drops what was used least.
func (e *Engine) keepSaid(p speaker) {
	e.said.recent.Add(p, struct{}{})
	e.said.account(p)
	for e.said.bytes > int(e.debugLimits.said) {
		oldest, _, ok := e.said.recent.RemoveOldest()
		if !ok {
			return
		}
		e.count.Evictions++
		oldest.forget(e) // it is found out again when its code is sampled
		e.said.account(oldest)
	}
}
