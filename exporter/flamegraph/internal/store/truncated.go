package store

import "github.com/hostprofiles/hostprofiles/internal/stopreason"

// branch is where stacks of a series begin in a tree: in a group, and there below a marker if they end early.
type branch struct {
	group  uint32 // the string of an attribute's value, or noGroup
	reason uint32 // the string of a reason; 0 if the stacks are complete
}

// noGroup stands for series without a group.
const noGroup = ^uint32(0)

// branches lists the branches of a query's tree, and says of each series which is its own.
func (s *Snapshot) branches(q Query) (list []branch, of []uint32) {
	of = make([]uint32, len(s.series))
	index := map[branch]uint32{}
	stops := s.stops()
	for i := range s.series {
		b := branch{group: noGroup}
		if q.Group != GroupNone && q.Group != "" {
			if v, ok := s.attribute(&s.series[i], q.Group); ok {
				b.group = v.text
			}
		}
		if !q.NoMarkers {
			b.reason = stops(&s.series[i])
		}
		at, known := index[b]
		if !known {
			at = uint32(len(list))
			index[b] = at
			list = append(list, b)
		}
		of[i] = at
	}
	return list, of
}

// stops returns a function that finds the reason for which a series' stacks end early: its string, 0 if they don't.
func (s *Snapshot) stops() func(of *series) uint32 {
	complete := map[uint32]bool{0: true}
	return func(of *series) uint32 {
		v, _ := s.attribute(of, stopreason.Attribute)
		is, known := complete[v.text]
		if !known {
			is = stopreason.IsComplete(s.strings[v.text])
			complete[v.text] = is
		}
		if is {
			return 0
		}
		return v.text
	}
}

// marker describes what stands where the callers of stacks are missing that end early for a reason.
func marker(reason string) Function {
	const most = 200 // bytes: whoever sends profiles chooses it
	reason = clipTo(reason, most)
	return Function{Name: "[truncated: " + reason + "]", SystemName: reason, FrameType: TypeTruncated}
}
