package proxy

import (
	"container/list"
	"math"
)

// amount is what requests take up of the waiting room: their number, and bytes.
type amount [resources]int64

const (
	inRequests = iota
	inBytes
	resources
)

// share is what a namespace, or an object of it, uses of the waiting room now.
type share struct {
	used    amount
	waiting list.List // the places of an object, the newest last

	// The objects of a namespace, by name and as a list. While the room is short, each
	// request iterates over the list, which is much faster than over the map.
	byName map[string]*share
	parts  []*share
	index  int // in the parts of the parent
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

// newest returns the newest place of an object.
func (s *share) newest() *place { return s.waiting.Back().Value.(*place) }

// admit gives an object more of the room, and tells whether it did. If too little is
// free, requests are turned away until there is enough: from the object's namespace
// while that would exceed its share, and then from the namespace that uses most;
// each time the newest request of the object that uses most there. If both the object
// and its namespace would exceed their shares, the object gets nothing, and no request
// is turned away.
func (w *waitingRoom) admit(c *coldRoute, more amount) bool {
	for of, n := range more {
		if _, ok := w.allowed(c, of, n); !ok {
			return false
		}
	}
	// Turning requests away for one resource can only free the other, too.
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

// allowed returns how much of a resource the object's namespace may have, when the
// object asks for more of it, and whether the object may have what it asks for.
func (w *waitingRoom) allowed(c *coldRoute, of int, more int64) (most int64, ok bool) {
	free := w.most[of] - w.all.used[of]
	if more <= free {
		return math.MaxInt64, true
	}
	most = max(w.all.fair(w.most[of], c.namespace, of, more), c.namespace.used[of]+free)
	return most, c.namespace.used[of]+more <= most ||
		c.object.used[of]+more <= c.namespace.fair(most, c.object, of, more)
}

// add adds more to what an object uses; more may be negative.
func (w *waitingRoom) add(c *coldRoute, more amount) {
	for _, s := range []*share{w.all, c.namespace, c.object} {
		for of, n := range more {
			s.used[of] += n
		}
	}
}
