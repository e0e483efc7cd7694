package proxy

import (
	"container/list"
	"math"
)

// amount is what requests take up: their number, and bytes.
type amount [resources]int64

const (
	inRequests = iota
	inBytes
	resources
)

// share is what a namespace, or an object of it, uses of something now, such as of the
// waiting room.
type share struct {
	parent  *share // of all namespaces together, nil
	used    amount
	waiting list.List // the waiters of an object, the newest last

	// The objects of a namespace, by name and as a list. While there is too little, each
	// request iterates over the list, which is much faster than over the map.
	byName map[string]*share
	parts  []*share
	index  int // in the parts of the parent
}

func newShare(parent *share) *share { return &share{parent: parent, byName: make(map[string]*share)} }

// part returns a part by its name, a new one where there is none.
func (s *share) part(name string) *share {
	p := s.byName[name]
	if p == nil {
		p = newShare(s)
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

// newest returns the newest waiter of an object.
func (s *share) newest() *waiter { return s.waiting.Back().Value.(*waiter) }

// allowed returns how much of a total the namespace of an object may have, when the object
// asks for more of it, and whether the object may have what it asks for: neither its
// namespace nor the object itself, or only one of them, would exceed its share.
func (s *share) allowed(total int64, of int, more int64) (most int64, ok bool) {
	namespace, all := s.parent, s.parent.parent
	free := total - all.used[of]
	if more <= free {
		return math.MaxInt64, true
	}
	most = max(all.fair(total, namespace, of, more), namespace.used[of]+free)
	return most, namespace.used[of]+more <= most || s.used[of]+more <= namespace.fair(most, s, of, more)
}

// add adds more to what an object, its namespace and all together use; more may be
// negative.
func (s *share) add(more amount) {
	for ; s != nil; s = s.parent {
		for of, n := range more {
			s.used[of] += n
		}
	}
}
