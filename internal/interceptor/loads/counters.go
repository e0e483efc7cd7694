package loads

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Counters are the figures of one HTTPScaledObject at one Source. Count, Begin, End and
// Release take no lock, and Hold takes one for the first request that waits.
type Counters struct {
	source *Source
	object types.NamespacedName

	requests, active, held atomic.Int64

	// These are under the ledger's lock: the figures of the last message to any reader, the
	// generation of their last change, and whether Forget was called.
	sent      figures
	changed   uint64
	forgotten bool
}

type figures struct{ requests, active, held int64 }

// Count adds to the requests that have arrived; it subtracts one that was refused.
func (c *Counters) Count(requests int64) { c.requests.Add(requests) }

// Begin adds a request that is under way, and End removes it.
func (c *Counters) Begin() { c.active.Add(1) }

// End removes a request that was added by Begin.
func (c *Counters) End() { c.active.Add(-1) }

// Hold adds a request that waits for an endpoint, and Release removes it. Scalers are told
// of the first one at once.
func (c *Counters) Hold() {
	if c.held.Add(1) == 1 {
		c.source.ledger.wake()
	}
}

// Release removes a request that was added by Hold.
func (c *Counters) Release() { c.held.Add(-1) }

// Forget tells that the object is gone, and that the caller does not keep the counters any
// more. They go away within a few minutes after the last request is over.
func (c *Counters) Forget() {
	l := c.source.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.source.objects[c.object] == c {
		c.forgotten = true
		c.source.forgetLocked(c.object, c)
		l.forgetUntoldLocked()
	}
}

// report returns the figures of the last message to any reader. The figures of this moment
// could be others than those that a later change is judged by.
func (c *Counters) report() loadreport.Object {
	c.source.ledger.mu.Lock()
	defer c.source.ledger.mu.Unlock()
	return loadreport.Object{
		Namespace: c.object.Namespace, Name: c.object.Name,
		Requests: c.sent.requests, Active: c.sent.active, Held: c.sent.held,
	}
}

// changedLocked tells whether the figures have changed since a generation.
func (c *Counters) changedLocked(since uint64) bool {
	if now := (figures{c.requests.Load(), c.active.Load(), c.held.Load()}); now != c.sent {
		c.sent, c.changed = now, c.source.ledger.generation
	}
	return c.changed > since
}
