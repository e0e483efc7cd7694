package xds

import (
	"math/bits"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// spareRefusals is how many probes in a row an Envoy may refuse beyond those that the
	// search for one object needs.
	spareRefusals = 10
	// minBackoff is the first delay before a probe, and maxBackoff the longest.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// backoff delays the probes for an Envoy that refuses one after another. The search for
// one object needs few, and the Envoy accepts some of them; an Envoy that accepts none
// is at fault itself. Objects that change are sent at once all the same.
type backoff struct {
	refused int       // probes in a row
	until   time.Time // when the next probe may be sent; zero for now
}

func (b *backoff) active() bool { return !b.until.IsZero() }

// ends ends a delay that is over. It tells whether it did.
func (b *backoff) ends(now time.Time) bool {
	if !b.active() || now.Before(b.until) {
		return false
	}
	b.until = time.Time{}
	return true
}

// delayAfter returns the delay after so many refusals beyond those that are allowed.
func delayAfter(beyond int, least time.Duration) time.Duration {
	if beyond <= 0 {
		return 0
	}
	return min(least<<min(beyond-1, 16), maxBackoff)
}

// backOff counts a refused probe, and delays the next one if there were too many in a row.
func (st *stream) backOff(refused *routePush) {
	b := &st.routes.backoff
	if !refused.probe {
		return
	}
	b.refused++
	allowed := bits.Len(uint(len(st.routes.pending))) + spareRefusals
	if st.servesOthers() {
		allowed += maxLeftOut // it accepts none of the groups before the right one
	}
	delay := delayAfter(b.refused-allowed, st.server.minBackoff)
	if delay == 0 {
		return
	}
	b.until = time.Now().Add(delay)
	st.warn("an Envoy refuses one configuration after another; it gets changes at once, and other objects later", "refused", b.refused, "later", delay.String())
}

// searching tells whether objects are searched for that the Envoy refuses.
func (s *routeSync) searching() bool { return len(s.suspects)+len(s.leftOut) > 0 }

// nextSuspects takes out the next group of objects to try: the smallest, so that the search
// ends at an object. If two such ends follow one another, the object has a neighbour that
// is at fault, too, and the largest group comes next. So an Envoy that accepts most objects
// accepts a probe soon.
func (s *routeSync) nextSuspects() []types.NamespacedName {
	i := len(s.suspects) - 1
	if s.found >= 2 {
		i, s.found = 0, 0
	}
	group := s.suspects[i]
	s.suspects = append(s.suspects[:i:i], s.suspects[i+1:]...)
	return group
}
