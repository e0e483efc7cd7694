package xds

import "time"

const (
	// chunk is how many resources a delta response has at most.
	chunk = 1000
	// window is how many delta responses of one type may be unanswered. For routes,
	// and with the state of the world, it is one.
	window = 4
)

// channel is one type of resource on a stream: what the Envoy wants of it, what it
// was sent, and what it has acknowledged.
type channel struct {
	asked    bool      // the Envoy has asked for this type
	since    time.Time // when it first asked
	answered bool      // a response was sent, or none is needed
	// had is the version that the Envoy has from an earlier stream, 0 for none: of all
	// resources of the type (state of the world), or of the routes (delta).
	had    version
	wanted map[string]bool // by name; for endpoints see clusterSync.wanted
	// flights are the responses that wait for an answer, by nonce.
	flights map[string]*flight
	last    string // nonce of the last response
	// sent, acknowledged and refused are the last version that was sent, acknowledged
	// and refused; zero for none. A version that the Envoy has from an earlier stream
	// counts as acknowledged, and not as sent.
	sent, acknowledged, refused mark
}

// mark is the version of all resources of a type, at a moment.
type mark struct {
	version version
	at      time.Time
}

// flight is a response that waits for an answer.
type flight struct {
	mark  // its version, and when it was sent
	names []string
	push  *routePush
}

// has notes that the Envoy has a version from an earlier stream.
func (ch *channel) has(v version) { ch.acknowledged = mark{v, time.Now()} }

// adopt notes that the Envoy has a version from an earlier stream, and that no response
// is needed.
func (ch *channel) adopt(v version) {
	ch.answered = true
	ch.has(v)
}

// oldest returns when the oldest unanswered response was sent; zero for none.
func (ch *channel) oldest() time.Time {
	var oldest time.Time
	for _, f := range ch.flights {
		oldest = earlier(oldest, f.at)
	}
	return oldest
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
