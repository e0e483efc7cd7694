package loads

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Source is a proxy whose requests are counted.
type Source struct {
	ledger             *Ledger
	id, address, pod   string
	withoutLoadReports bool

	// These are under the ledger's lock.
	objects map[types.NamespacedName]*Counters
	gone    []goneObject
	// reported and ended are the generations of its last report and its end; 0 before.
	reported, ended uint64
}

type goneObject struct {
	name       types.NamespacedName
	generation uint64
}

// Figures are what a kedify-proxy reports of an HTTPScaledObject, all its Services
// together.
type Figures struct {
	Requests int64 // since its last report
	Active   int64 // under way now
}

// Counters returns the counters of an HTTPScaledObject that exists. A caller may keep them
// until it calls Forget.
func (s *Source) Counters(object types.NamespacedName) *Counters {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ledger.sweepLocked()
	c := s.countersLocked(object)
	c.forgotten = false
	return c
}

func (s *Source) countersLocked(object types.NamespacedName) *Counters {
	c := s.objects[object]
	if c == nil {
		c = &Counters{source: s, object: object, changed: s.ledger.generation + 1}
		s.objects[object] = c
	}
	return c
}

// Report records a report of a kedify-proxy, of objects that exist. Those that it leaves out
// have no request under way.
func (s *Source) Report(figures map[types.NamespacedName]Figures) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	s.reported = l.generation + 1
	for object, f := range figures {
		c := s.countersLocked(object)
		c.requests.Add(f.Requests)
		c.active.Store(f.Active)
	}
	for object, c := range s.objects {
		if _, ok := figures[object]; !ok {
			c.active.Store(0)
		}
	}
}

// forgetLocked forgets an object that has no request under way.
func (s *Source) forgetLocked(object types.NamespacedName, c *Counters) {
	if c.active.Load() == 0 {
		delete(s.objects, object)
		s.reported = s.ledger.generation + 1
		s.gone = append(s.gone, goneObject{object, s.reported})
	}
}

// End ends the Source. It must not be used any more.
func (s *Source) End() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ended = s.ledger.generation + 1
	s.ledger.forgetUntoldLocked()
}

// changes are what a reader is to be told of a Source.
type changes struct {
	source  loadreport.Source // without its objects
	gone    []types.NamespacedName
	objects []*Counters
}

// changesLocked returns what has changed since a generation, 0 for all that there is; ok is
// false for nothing.
func (s *Source) changesLocked(since uint64) (c changes, ok bool) {
	own := s == s.ledger.own // which always reports
	if !own && (s.reported == 0 || max(s.reported, s.ended) <= since) || since == 0 && s.ended != 0 {
		return changes{}, false
	}
	c.source = loadreport.Source{ID: s.id, Address: s.address, Pod: s.pod, WithoutLoadReports: s.withoutLoadReports, Ended: s.ended != 0}
	for _, g := range s.gone {
		if since > 0 && g.generation > since {
			c.gone = append(c.gone, g.name)
		}
	}
	for _, counters := range s.objects {
		if counters.changedLocked(since) {
			c.objects = append(c.objects, counters)
		}
	}
	return c, true
}
