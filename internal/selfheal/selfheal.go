// Package selfheal has a traffic router apply again what a call asked for last,
// when something else undoes it between two calls. The Argo Rollouts controller
// looks at a paused Rollout every 15 minutes, and until then all requests would
// go where a removed or changed split sends them.
//
// It knows neither routers nor what they write: a router keeps a decision for a
// Rollout, tells of each object that changed, and is asked to repair it.
package selfheal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// Outcome is what became of an attempt to repair an object.
type Outcome int

// The outcomes of a repair.
const (
	// Unneeded: the object is as decided, or is not to be changed; the next
	// change of it is looked at.
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
	// calm is how long an object has to stay as it is for the next repair to come
	// at once again.
	calm = 5 * time.Minute
)

// Repair puts one object right, as decided for a Rollout. It runs while no call
// of that Rollout does.
type Repair[D any] func(ctx context.Context, rollout, object types.NamespacedName, decision D) Outcome

// Keeper keeps the decision made last for each Rollout, and repairs the objects
// that it covers. Its methods are safe for concurrent use.
type Keeper[D any] struct {
	repair Repair[D]
	logger hclog.Logger
	locks  locks
	queue  workqueue.TypedDelayingInterface[types.NamespacedName]

	mu        sync.Mutex
	decisions map[types.NamespacedName]*kept[D]
	// covering names the Rollout whose decision covers an object.
	covering map[types.NamespacedName]types.NamespacedName
	backoffs map[types.NamespacedName]backoff
}

type kept[D any] struct {
	decision D
	objects  []types.NamespacedName
}

// backoff is how long repairs of an object have to wait.
type backoff struct {
	wait  time.Duration
	until time.Time
}

// New returns a Keeper; Run has it repair.
func New[D any](repair Repair[D], logger hclog.Logger) *Keeper[D] {
	return &Keeper[D]{
		repair: repair, logger: logger,
		locks:     locks{held: map[types.NamespacedName]*lock{}},
		queue:     workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		decisions: map[types.NamespacedName]*kept[D]{},
		covering:  map[types.NamespacedName]types.NamespacedName{},
		backoffs:  map[types.NamespacedName]backoff{},
	}
}

// Lock keeps repairs and other calls of a Rollout away until unlock is called.
// It fails when ctx ends first.
func (k *Keeper[D]) Lock(ctx context.Context, rollout types.NamespacedName) (unlock func(), err error) {
	return k.locks.lock(ctx, rollout)
}

// Keep replaces what was decided for a Rollout, which is locked. The objects are
// those that the decision covers; an object is covered by one decision, the
// last.
func (k *Keeper[D]) Keep(rollout types.NamespacedName, decision D, objects ...types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
	k.decisions[rollout] = &kept[D]{decision, objects}
	for _, object := range objects {
		k.covering[object] = rollout
	}
}

// Kept returns what was decided for a Rollout last, and the objects that the
// decision covers.
func (k *Keeper[D]) Kept(rollout types.NamespacedName) (decision D, objects []types.NamespacedName, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.decisions[rollout]
	if !ok {
		return decision, nil, false
	}
	return last.decision, last.objects, true
}

// Forget drops what was decided for a Rollout: nothing of it is repaired until
// the next Keep.
func (k *Keeper[D]) Forget(rollout types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
}

func (k *Keeper[D]) forget(rollout types.NamespacedName) {
	decided, ok := k.decisions[rollout]
	if !ok {
		return
	}
	delete(k.decisions, rollout)
	for _, object := range decided.objects {
		if k.covering[object] == rollout {
			delete(k.covering, object)
		}
	}
}

// Changed tells that an object is new or has changed. It never waits.
func (k *Keeper[D]) Changed(object types.NamespacedName) {
	k.mu.Lock()
	_, covered := k.covering[object]
	k.mu.Unlock()
	if covered {
		k.queue.Add(object)
	}
}

// Run repairs until ctx ends.
func (k *Keeper[D]) Run(ctx context.Context) {
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
func (k *Keeper[D]) next(ctx context.Context) bool {
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
func (k *Keeper[D]) wait(object types.NamespacedName) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.backoffs[object].until)
}

// backOff has the next repair of an object wait, and returns for how long.
func (k *Keeper[D]) backOff(object types.NamespacedName) time.Duration {
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

// covered returns the Rollout whose decision covers an object, and the decision.
func (k *Keeper[D]) covered(object types.NamespacedName) (rollout types.NamespacedName, decision D, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rollout, ok = k.covering[object]
	if !ok {
		return rollout, decision, false
	}
	return rollout, k.decisions[rollout].decision, true
}

func (k *Keeper[D]) attempt(ctx context.Context, object types.NamespacedName) (outcome Outcome) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	rollout, _, ok := k.covered(object)
	if !ok {
		return Unneeded
	}
	unlock, err := k.Lock(ctx, rollout)
	if err != nil {
		return Failed
	}
	defer unlock()
	// A call may have decided anew meanwhile.
	now, decision, ok := k.covered(object)
	switch {
	case !ok:
		return Unneeded
	case now != rollout:
		return Failed
	}
	outcome = Failed // if it panics
	defer rolloutsplugin.LogPanic(k.logger, fmt.Sprintf("repairing %s for Rollout %s", object, rollout))
	return k.repair(ctx, rollout, object, decision)
}
