package worker

import (
	"slices"
	"time"
)

// group is there while it has jobs, abandoned ones included.
type group[K, G comparable, V any] struct {
	key     G
	queue   []*job[K, G, V] // that wait for a worker; their keys are free
	listed  bool            // among Pool.ready
	jobs    int             // accepted, and neither reported without having run nor returned
	running int             // not counting stuck ones
	stuck   int
	// suspicion is how many got stuck since one came to an end in time. At Options.GroupStuck the group is taken to hang.
	suspicion int
	probeAt   time.Time // then one more is tried
}

// groupOf returns a group, which may be new.
func (p *Pool[K, G, V]) groupOf(key G) *group[K, G, V] {
	g := p.groups[key]
	if g == nil {
		g = &group[K, G, V]{key: key}
		p.groups[key] = g
	}
	return g
}

// admits tells whether a job of the group may be tried: always, unless it hangs; then one now and then. A nil group has no
// jobs.
func (g *group[K, G, V]) admits(o Options, now time.Time) bool {
	if g == nil || g.suspicion < o.GroupStuck && g.stuck < o.GroupMax {
		return true
	}
	if g.stuck >= o.GroupMax || now.Before(g.probeAt) {
		return false
	}
	g.probeAt = now.Add(o.Probe)
	return true
}

// left notes that a job is neither waiting nor running nor stuck any more.
func (p *Pool[K, G, V]) left(g *group[K, G, V]) {
	g.jobs--
	if g.jobs == 0 {
		delete(p.groups, g.key)
	}
}

// enqueue makes a job whose key is free ready to run.
func (p *Pool[K, G, V]) enqueue(j *job[K, G, V]) {
	j.group.queue = append(j.group.queue, j)
	p.list(j.group)
}

// list has a worker take a group's next job, unless others of the group have all the workers that it may have: all but one,
// and fewer while it is suspected. Groups take turns: each is listed once.
func (p *Pool[K, G, V]) list(g *group[K, G, V]) {
	if g.listed || len(g.queue) == 0 || g.running >= max(1, p.options.Workers-1-g.suspicion) {
		return
	}
	g.listed = true
	p.ready = append(p.ready, g)
	p.call()
}

// call sees to it that what is ready is run, by a new goroutine if no other waits.
func (p *Pool[K, G, V]) call() {
	switch {
	case len(p.ready) == 0:
	case p.waiting >= len(p.ready):
		p.wake.Signal()
	case p.mayStart():
		p.workers++
		go p.work()
	}
}

// next takes a job from the first group that is ready.
func (p *Pool[K, G, V]) next() *job[K, G, V] {
	g := p.ready[0]
	p.ready[0] = nil
	p.ready = p.ready[1:]
	g.listed = false
	j := g.queue[0]
	g.queue[0] = nil
	g.queue = g.queue[1:]
	p.stats.Queued--
	g.running++
	p.list(g)
	return j
}

// failGroup reports the jobs of a group that have not begun.
func (p *Pool[K, G, V]) failGroup(g *group[K, G, V], err error) {
	p.failQueue(g, err)
	for _, k := range p.keys {
		if k.group == g {
			p.failWaiting(k, err)
		}
	}
}

// failAll reports all jobs that have not begun.
func (p *Pool[K, G, V]) failAll(err error) {
	for _, g := range p.groups {
		p.failQueue(g, err)
	}
	for _, k := range p.keys {
		p.failWaiting(k, err)
	}
}

// failQueue reports the jobs of a group that wait for a worker, and those behind them.
func (p *Pool[K, G, V]) failQueue(g *group[K, G, V], err error) {
	queue := g.queue
	g.queue = nil
	if g.listed {
		g.listed = false
		p.ready = slices.DeleteFunc(p.ready, func(o *group[K, G, V]) bool { return o == g })
	}
	for _, j := range queue {
		p.fail(j, err)
		p.failWaiting(p.keys[j.Key], err)
		delete(p.keys, j.Key)
	}
}

// failWaiting reports the jobs that wait for a key's running one.
func (p *Pool[K, G, V]) failWaiting(k *keyState[K, G, V], err error) {
	waiting := k.waiting
	k.waiting = nil
	for _, j := range waiting {
		p.fail(j, err)
	}
}

// fail reports a job that has not begun.
func (p *Pool[K, G, V]) fail(j *job[K, G, V], err error) {
	for why := range refusals {
		if err == refusals[why].err {
			p.stats.Refused[why]++
		}
	}
	var none V
	p.stats.Queued--
	p.deliver(j, none, err)
	p.left(j.group)
}
