package trafficrouter

import (
	"context"
	"fmt"
	"maps"
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
	// repairsAtOnce bounds the repairs that run at the same time, and repairsEach those in
	// one namespace.
	repairsAtOnce = 16
	repairsEach   = 2
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

// Repair puts one object back to what was decided for a Rollout. No call for that Rollout
// runs at the same time.
type Repair[D any] func(ctx context.Context, rollout types.NamespacedName, object Ref, decision D) Outcome

// Keeper keeps the decision made last for each Rollout, and repairs the objects
// that it covers. Its methods are safe for concurrent use.
type Keeper[D any] struct {
	repair Repair[D]
	logger hclog.Logger
	locks
	queue workqueue.TypedDelayingInterface[Ref]

	mu        sync.Mutex
	decisions map[types.NamespacedName]kept[D]
	// covering has the Rollouts whose decisions cover an object.
	covering map[Ref][]types.NamespacedName
	backoffs map[Ref]backoff
}

type kept[D any] struct {
	decision D
	objects  []Ref
}

// backoff is how long repairs of an object have to wait.
type backoff struct {
	wait  time.Duration
	until time.Time
}

// newKeeper returns a Keeper. Run starts the repairs.
func newKeeper[D any](repair Repair[D], logger hclog.Logger) *Keeper[D] {
	return &Keeper[D]{
		repair: repair, logger: logger,
		locks:     locks{held: map[types.NamespacedName]*lock{}},
		queue:     workqueue.NewTypedDelayingQueue[Ref](),
		decisions: map[types.NamespacedName]kept[D]{},
		covering:  map[Ref][]types.NamespacedName{},
		backoffs:  map[Ref]backoff{},
	}
}

// Keep replaces the decision for a Rollout, whose lock the caller holds. The objects
// are those that the decision covers. Decisions for several Rollouts may cover one object:
// a repair for one leaves the others' part of it alone.
func (k *Keeper[D]) Keep(rollout types.NamespacedName, decision D, objects ...Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
	k.decisions[rollout] = kept[D]{decision, objects}
	for _, object := range objects {
		k.covering[object] = append(k.covering[object], rollout)
	}
}

// Kept returns the last decision for a Rollout, and the objects that it covers.
func (k *Keeper[D]) Kept(rollout types.NamespacedName) (decision D, objects []Ref, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.decisions[rollout]
	return last.decision, last.objects, ok
}

// Forget drops the decision for a Rollout: nothing is repaired for it until the next
// Keep.
func (k *Keeper[D]) Forget(rollout types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(rollout)
}

// Prune drops the decisions for Rollouts that are gone, and how long the repairs of their
// objects have to wait.
func (k *Keeper[D]) Prune(gone func(types.NamespacedName) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for rollout := range k.decisions {
		if gone(rollout) {
			k.forget(rollout)
		}
	}
	maps.DeleteFunc(k.backoffs, func(object Ref, _ backoff) bool { return len(k.covering[object]) == 0 })
}

func (k *Keeper[D]) forget(rollout types.NamespacedName) {
	for _, object := range k.decisions[rollout].objects {
		k.covering[object] = slices.DeleteFunc(k.covering[object], func(r types.NamespacedName) bool { return r == rollout })
		if len(k.covering[object]) == 0 {
			delete(k.covering, object)
		}
	}
	delete(k.decisions, rollout)
}

// Changed reports that an object is new or has changed. It never waits.
func (k *Keeper[D]) Changed(object Ref) {
	k.mu.Lock()
	_, covered := k.covering[object]
	k.mu.Unlock()
	if covered {
		k.queue.Add(object)
	}
}

// Run repairs until ctx ends.
func (k *Keeper[D]) Run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		k.queue.ShutDown()
	}()
	shares := rolloutsplugin.NewShares(repairsAtOnce, repairsEach)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		object, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		running.Add(1)
		shares.Go(object.Namespace, func() {
			defer running.Done()
			k.next(ctx, object)
		})
	}
}

// next repairs one object from the queue.
func (k *Keeper[D]) next(ctx context.Context, object Ref) {
	defer k.queue.Done(object)
	if wait := k.wait(object); wait > 0 {
		k.queue.AddAfter(object, wait)
		return
	}
	switch k.attempt(ctx, object) {
	case Repaired:
		k.backOff(object)
	case Failed:
		k.queue.AddAfter(object, k.backOff(object))
	}
}

// wait is how long an object has to wait for its next repair.
func (k *Keeper[D]) wait(object Ref) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.backoffs[object].until)
}

// backOff delays the next repair of an object, and returns by how long.
func (k *Keeper[D]) backOff(object Ref) time.Duration {
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
func (k *Keeper[D]) covered(object Ref) []types.NamespacedName {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.covering[object])
}

// attempt repairs an object for each Rollout whose decision covers it. The outcome is
// the worst of them.
func (k *Keeper[D]) attempt(ctx context.Context, object Ref) Outcome {
	worst := Unneeded
	for _, rollout := range k.covered(object) {
		worst = max(worst, k.attemptFor(ctx, rollout, object))
	}
	return worst
}

func (k *Keeper[D]) attemptFor(ctx context.Context, rollout types.NamespacedName, object Ref) (outcome Outcome) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	unlock, err := k.Lock(ctx, rollout)
	if err != nil {
		return Failed
	}
	defer unlock()
	// A call may have replaced the decision meanwhile.
	decision, objects, _ := k.Kept(rollout)
	if !slices.Contains(objects, object) {
		if len(k.covered(object)) == 0 {
			return Unneeded
		}
		return Failed // now covered by another Rollout's decision
	}
	outcome = Failed // if it panics
	defer rolloutsplugin.LogPanic(k.logger, fmt.Sprintf("repairing %s for Rollout %s", object, rollout))
	return k.repair(ctx, rollout, object, decision)
}
