package xds

import "time"

const (
	// chunk is how many resources a delta response has at most.
	chunk = 1000
	// window is how many delta responses of one type may wait for an answer.
	// In the state of the world it is one.
	window = 4
)

// channel is one type of resource on a stream: what the Envoy wants of it, what it
// was sent, and what it has acknowledged.
type channel struct {
	asked    bool      // the Envoy wants it
	since    time.Time // when it first said so
	answered bool      // something was sent, or nothing needs to be
	// had is the version of all, in the state of the world, that an Envoy has
	// from another stream; 0 for none.
	had    version
	wanted map[string]bool // by name; not for endpoints
	// flights are the responses that wait for an answer, by nonce.
	flights map[string]*flight
	last    string // nonce
	// sent, acknowledged and refused are the versions that were so last, zero for none.
	// What the Envoy has from another stream is acknowledged, and not sent.
	sent, acknowledged, refused mark
}

// mark is the version of all resources of a type, at a moment.
type mark struct {
	version version
	at      time.Time
}

// flight is a response that waits for an answer.
type flight struct {
	mark  // as it was sent
	names []string
	push  *routePush
}

// has notes that the Envoy has a version from another stream.
func (ch *channel) has(v version) { ch.acknowledged = mark{v, time.Now()} }

// adopt notes the same, and that nothing needs to be sent.
func (ch *channel) adopt(v version) {
	ch.answered = true
	ch.has(v)
}

// oldest returns when the response was sent that waits for an answer for longest;
// zero for none.
func (ch *channel) oldest() time.Time {
	var oldest time.Time
	for _, f := range ch.flights {
		oldest = earlier(oldest, f.at)
	}
	return oldest
}

// earlier returns the earlier of two moments, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
