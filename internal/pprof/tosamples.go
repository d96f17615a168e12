package pprof

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// sampler sorts the samples of a pprof profile into the Profiles that they become.
type sampler struct {
	*encoder
	labels  *decoder
	columns int
	groups  []*group
	groupOf map[groupKey]*group

	first, last int64 // timestamps; first is 0 if there are none
}

// groupKey is what the samples of a Profile share.
type groupKey struct {
	resource, scope, profile int32 // see labelSet
	timed                    bool  // OTLP wants one shape in a profile
}

// group holds samples in the order in which they came first.
type group struct {
	groupKey
	number   int // among all groups
	samples  []sampleKey
	sampleOf map[sampleKey]int32
	points   []point
	pointOf  map[pointKey]int32
	values   []int64 // of the points, column by column
}

// sampleKey is the identity of an OTLP sample, all by index (attributes: the list of them).
type sampleKey struct{ stack, attributes, link int32 }

// point is what a sample says of one time; of samples without timestamps there is one.
type point struct {
	pointKey
	values int // where they begin
}

type pointKey struct {
	sample int32
	time   int64
}

func newSampler(e *encoder) *sampler {
	return &sampler{encoder: e, labels: newDecoder(e), columns: len(e.p.SampleType), groupOf: map[groupKey]*group{}}
}

func (s *sampler) add(v *profile.Sample) error {
	time := timestamp(v)
	set, err := s.labels.read(v, time != 0)
	if err != nil {
		return err
	}
	stack, err := s.stack(v.Location)
	if err != nil {
		return err
	}
	if time == math.MaxInt64 {
		return errors.New("its timestamp leaves no room for the end of the profile")
	}
	if time != 0 {
		s.last = max(s.last, time)
		if s.first == 0 || time < s.first {
			s.first = time
		}
	}
	g := s.group(groupKey{set.resource, set.scope, set.profile, time != 0})
	point := g.point(pointKey{g.sample(sampleKey{stack, set.attributes, set.link}), time}, s.columns)
	for i, value := range v.Value {
		to := &g.values[point.values+i]
		if *to, err = sum(*to, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *sampler) group(key groupKey) *group {
	g, known := s.groupOf[key]
	if !known {
		g = &group{groupKey: key, number: len(s.groups), sampleOf: map[sampleKey]int32{}, pointOf: map[pointKey]int32{}}
		s.groupOf[key] = g
		s.groups = append(s.groups, g)
	}
	return g
}

func (g *group) sample(key sampleKey) int32 { return intern(&g.samples, g.sampleOf, key) }

func (g *group) point(key pointKey, columns int) point {
	i, known := g.pointOf[key]
	if !known {
		i = int32(len(g.points))
		g.pointOf[key] = i
		g.points = append(g.points, point{pointKey: key, values: len(g.values)})
		g.values = append(g.values, make([]int64, columns)...)
	}
	return g.points[i]
}

// sortPoints orders points by sample and time.
func (g *group) sortPoints() {
	slices.SortFunc(g.points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.sample, b.sample), cmp.Compare(a.time, b.time))
	})
}

// content says which values are written. All that are not 0 are; of a point that has none, that of the first column; and one
// of a column that would have none in the first scope, so that this scope has all sample types and says their order.
type content struct {
	home  int   // the first column to be written
	empty []int // columns with nothing to write in the first scope
}

func (s *sampler) content(home int) content {
	filled := make([]bool, s.columns)
	for _, g := range s.groups {
		if g.resource != s.groups[0].resource || g.scope != s.groups[0].scope {
			continue
		}
		for _, p := range g.points {
			zero := true
			for i, v := range g.values[p.values : p.values+s.columns] {
				if v != 0 {
					zero, filled[i] = false, true
				}
			}
			filled[home] = filled[home] || zero
		}
	}
	c := content{home: home}
	for i, f := range filled {
		if !f {
			c.empty = append(c.empty, i)
		}
	}
	return c
}

// written tells whether the value of a point in a column is. first is true for the very first point of the profile.
func (c content) written(values []int64, column int, first bool) bool {
	if values[column] != 0 || first && slices.Contains(c.empty, column) {
		return true
	}
	return column == c.home && !slices.ContainsFunc(values, func(v int64) bool { return v != 0 })
}
