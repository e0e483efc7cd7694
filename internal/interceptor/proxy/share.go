package proxy

import (
	"container/list"
	"math"
)

// amount is what requests take up of the waiting room.
type amount [resources]int64

const (
	inRequests = iota
	inBytes
	resources
)

// share is what a namespace, or an object of it, has of the waiting room now.
type share struct {
	used    amount
	waiting list.List // the places of an object, the newest last

	// The objects of a namespace, by name and to go through; that is for each
	// request while the room is short, and much faster than with the map.
	byName map[string]*share
	parts  []*share
	index  int // in the parts of what this is a part of
}

func newShare() *share { return &share{byName: make(map[string]*share)} }

// part returns a part by its name, a new one where there is none.
func (s *share) part(name string) *share {
	p := s.byName[name]
	if p == nil {
		p = newShare()
		p.index = len(s.parts)
		s.byName[name], s.parts = p, append(s.parts, p)
	}
	return p
}

// drop takes a part away.
func (s *share) drop(name string) {
	p, last := s.byName[name], len(s.parts)-1
	s.parts[p.index] = s.parts[last]
	s.parts[p.index].index = p.index
	s.parts[last] = nil
	s.parts = s.parts[:last]
	delete(s.byName, name)
}

// fair returns what each of the parts may have of a total, when one of them asks
// for more: the max-min fair share. Those that have less keep what they have, and
// those that have more get equal parts of what is left.
func (s *share) fair(total int64, asking *share, of int, more int64) int64 {
	level := total / int64(len(s.parts))
	for {
		left, over := total, int64(0)
		for _, p := range s.parts {
			has := p.used[of]
			if p == asking {
				has += more
			}
			if has <= level {
				left -= has
			} else {
				over++
			}
		}
		if over == 0 {
			return math.MaxInt64
		}
		if next := left / over; next > level {
			level = next
		} else {
			return level
		}
	}
}

// largest returns the part that has most, which is the furthest above its share.
func (s *share) largest(of int) *share {
	var most *share
	for _, p := range s.parts {
		if most == nil || p.used[of] > most.used[of] {
			most = p
		}
	}
	return most
}

// newest returns the place that was taken last at an object.
func (s *share) newest() *place { return s.waiting.Back().Value.(*place) }

// admit gives an object more of the room, and tells whether it did. Where too
// little is free, that is taken from those that have more than their share: first
// of the namespaces, then of the objects of the namespace itself. Of those, the
// newest request of the one that has most is turned away, until there is enough. An
// object that would have more than its own share gets nothing, and nobody is turned
// away for it.
func (w *waitingRoom) admit(c *coldRoute, more amount) bool {
	for of, n := range more {
		if _, ok := w.allowed(c, of, n); !ok {
			return false
		}
	}
	// Turning away for the one resource only makes room of the other, too.
	for of, n := range more {
		most, _ := w.allowed(c, of, n)
		for c.namespace.used[of]+n > most {
			w.turnAway(c.namespace.largest(of).newest())
		}
		for w.all.used[of]+n > w.most[of] {
			w.turnAway(w.all.largest(of).largest(of).newest())
		}
	}
	w.add(c, more)
	return true
}

// allowed returns what the object's namespace may have of a resource, when the
// object asks for so much more, and whether the object may have that.
func (w *waitingRoom) allowed(c *coldRoute, of int, more int64) (most int64, ok bool) {
	free := w.most[of] - w.all.used[of]
	if more <= free {
		return math.MaxInt64, true
	}
	most = max(w.all.fair(w.most[of], c.namespace, of, more), c.namespace.used[of]+free)
	return most, c.namespace.used[of]+more <= most ||
		c.object.used[of]+more <= c.namespace.fair(most, c.object, of, more)
}

// add counts what an object has more.
func (w *waitingRoom) add(c *coldRoute, more amount) {
	for _, s := range []*share{w.all, c.namespace, c.object} {
		for of, n := range more {
			s.used[of] += n
		}
	}
}
