// Package selfheal makes a traffic router apply the last call again when something else
// undoes it between two calls. The Argo Rollouts controller looks at a paused Rollout
// every 15 minutes, and until then all requests would go where a removed or changed
// split sends them.
//
// It depends neither on a router nor on what it writes: a router keeps a decision for a
// Rollout, reports each object that has changed, and is called to repair it.
package selfheal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// Outcome is the result of an attempt to repair an object.
type Outcome int

// The outcomes of a repair.
const (
	// Unneeded: the object is as decided, or must not be changed; its next change is
	// checked again.
	Unneeded Outcome = iota
	// Repaired: the object was changed back.
	Repaired
	// Failed: the object could not be judged or written; it is tried again after a
	// backoff.
	Failed
)

const (
	workers = 4
	// repairTimeout bounds one repair. It is shorter than a call's own bound: a
	// call waits for a repair of its Rollout that is under way.
	repairTimeout = 5 * time.Second
	// leastBackoff follows the first repair of an object, and doubles with each
	// further one up to mostBackoff.
	leastBackoff = time.Second
	mostBackoff  = time.Minute
	// calm is how long an object has to stay unchanged before its next repair is
	// immediate again.
	calm = 5 * time.Minute
)

// Object names an object that a router writes. String is for people.
type Object interface {
	comparable
	fmt.Stringer
}

// Repair changes one object back to what was decided for a Rollout. No call for that
// Rollout runs at the same time.
type Repair[O Object, D any] func(ctx context.Context, rollout types.NamespacedName, object O, decision D) Outcome

// Keeper keeps the decision made last for each Rollout, and repairs the objects
// that it covers. Its methods are safe for concurrent use.
type Keeper[O Object, D any] struct {
	repair Repair[O, D]
	shared bool
	logger hclog.Logger
	locks  locks
	queue  workqueue.TypedDelayingInterface[O]

	mu        sync.Mutex
	decisions map[types.NamespacedName]*kept[O, D]
	// covering has the Rollouts whose decisions cover an object.
	covering map[O][]types.NamespacedName
	backoffs map[O]backoff
}

type kept[O Object, D any] struct {
	decision D
	objects  []O
}

// backoff is how long repairs of an object have to wait.
type backoff struct {
	wait  time.Duration
	until time.Time
}

// New returns a Keeper for objects that are each covered by one decision, the last. Run
// starts the repairs.
func New[O Object, D any](repair Repair[O, D], logger hclog.Logger) *Keeper[O, D] {
	return &Keeper[O, D]{
		repair: repair, logger: logger,
		locks:     locks{held: map[types.NamespacedName]*lock{}},
		queue:     workqueue.NewTypedDelayingQueue[O](),
		decisions: map[types.NamespacedName]*kept[O, D]{},
		covering:  map[O][]types.NamespacedName{},
		backoffs:  map[O]backoff{},
	}
}

// NewShared is New for objects that may be covered by the decisions for several
// Rollouts: a repair for one leaves the others' part of an object alone.
func NewShared[O Object, D any](repair Repair[O, D], logger hclog.Logger) *Keeper[O, D] {
	k := New(repair, logger)
	k.shared = true
	return k
}

// Lock keeps repairs and other calls of a Rollout away until unlock is called.
// It fails when ctx ends first.
func (k *Keeper[O, D]) Lock(ctx context.Context, rollout types.NamespacedName) (unlock func(), err error) {
	return k.locks.lock(ctx, rollout)
}

// Keep replaces the decision for a Rollout, whose lock the caller holds. The objects
// are those that the decision covers; unless the Keeper is shared, an object is covered
// by one decision, the last.
func (k *Keeper[O, D]) Keep(rollout types.NamespacedName, decision D, objects ...O) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
	k.decisions[rollout] = &kept[O, D]{decision, objects}
	for _, object := range objects {
		if k.shared {
			k.covering[object] = append(k.covering[object], rollout)
		} else {
			k.covering[object] = []types.NamespacedName{rollout}
		}
	}
}

// Kept returns the last decision for a Rollout, and the objects that it covers.
func (k *Keeper[O, D]) Kept(rollout types.NamespacedName) (decision D, objects []O, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.decisions[rollout]
	if !ok {
		return decision, nil, false
	}
	return last.decision, last.objects, true
}

// Forget drops the decision for a Rollout: nothing is repaired for it until the next
// Keep.
func (k *Keeper[O, D]) Forget(rollout types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
}

func (k *Keeper[O, D]) forget(rollout types.NamespacedName) {
	decided, ok := k.decisions[rollout]
	if !ok {
		return
	}
	delete(k.decisions, rollout)
	for _, object := range decided.objects {
		others := slices.DeleteFunc(slices.Clone(k.covering[object]), func(r types.NamespacedName) bool { return r == rollout })
		if len(others) == 0 {
			delete(k.covering, object)
		} else {
			k.covering[object] = others
		}
	}
}

// Changed reports that an object is new or has changed. It never waits.
func (k *Keeper[O, D]) Changed(object O) {
	k.mu.Lock()
	_, covered := k.covering[object]
	k.mu.Unlock()
	if covered {
		k.queue.Add(object)
	}
}

// Run repairs until ctx ends.
func (k *Keeper[O, D]) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	wg.Wait()
}

// next repairs one object; it is false when the queue is shut down.
func (k *Keeper[O, D]) next(ctx context.Context) bool {
	object, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(object)
	if wait := k.wait(object); wait > 0 {
		k.queue.AddAfter(object, wait)
		return true
	}
	switch k.attempt(ctx, object) {
	case Repaired:
		k.backOff(object)
	case Failed:
		k.queue.AddAfter(object, k.backOff(object))
	}
	return true
}

// wait is how long an object has to wait for its next repair.
func (k *Keeper[O, D]) wait(object O) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.backoffs[object].until)
}

// backOff delays the next repair of an object, and returns by how long.
func (k *Keeper[O, D]) backOff(object O) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	wait := leastBackoff
	if last, ok := k.backoffs[object]; ok && now.Sub(last.until) < calm {
		wait = min(2*last.wait, mostBackoff)
	}
	for other, b := range k.backoffs {
		if now.Sub(b.until) >= calm {
			delete(k.backoffs, other)
		}
	}
	k.backoffs[object] = backoff{wait, now.Add(wait)}
	return wait
}

// covered returns the Rollouts whose decisions cover an object.
func (k *Keeper[O, D]) covered(object O) []types.NamespacedName {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.covering[object])
}

// coveredFor returns the decision for a Rollout, if it covers an object.
func (k *Keeper[O, D]) coveredFor(rollout types.NamespacedName, object O) (decision D, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.covering[object], rollout) {
		return decision, false
	}
	return k.decisions[rollout].decision, true
}

// attempt repairs an object for each Rollout whose decision covers it. The outcome is
// the worst of them.
func (k *Keeper[O, D]) attempt(ctx context.Context, object O) Outcome {
	worst := Unneeded
	for _, rollout := range k.covered(object) {
		worst = max(worst, k.attemptFor(ctx, rollout, object))
	}
	return worst
}

func (k *Keeper[O, D]) attemptFor(ctx context.Context, rollout types.NamespacedName, object O) (outcome Outcome) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	unlock, err := k.Lock(ctx, rollout)
	if err != nil {
		return Failed
	}
	defer unlock()
	// A call may have replaced the decision meanwhile.
	decision, ok := k.coveredFor(rollout, object)
	if !ok {
		if len(k.covered(object)) == 0 {
			return Unneeded
		}
		return Failed // now covered by another Rollout's decision
	}
	outcome = Failed // if it panics
	defer rolloutsplugin.LogPanic(k.logger, fmt.Sprintf("repairing %s for Rollout %s", object, rollout))
	return k.repair(ctx, rollout, object, decision)
}
