// Package orphans makes a traffic router remove what Rollouts that are gone have left
// on the objects that it writes. The controller makes no call for a Rollout that is
// deleted, or that does not use the plugin any more.
//
// It depends neither on a router nor on what it writes: a router says which objects
// carry something of which Rollout, and is called to remove that.
package orphans

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

const (
	// interval is how often a Remover looks for marks.
	interval = 15 * time.Second
	// timeout bounds the requests for one mark, and atOnce is how many marks are worked
	// on at a time, so that a webhook that hangs for one namespace holds up no other.
	timeout = 5 * time.Second
	atOnce  = 8
)

// Object names an object that a router writes. String is for people.
type Object interface {
	comparable
	fmt.Stringer
}

// Mark says that an object carries something of a Rollout.
type Mark[O Object] struct {
	Object  O
	Rollout types.NamespacedName
	// State is what the Rollout's ownership depends on besides its spec: a Rollout may
	// select objects by their labels.
	State string
}

// Options say where a Remover looks for marks, and how it removes what they stand for.
type Options[O Object] struct {
	// Rollouts is a watch of Rollouts. Without list and watch nothing is removed.
	Rollouts *kube.Metadata
	// Marks returns all marks that are known without a request. Those that are not
	// known, for lack of a watch, are left out.
	Marks func(context.Context) []Mark[O]
	// TakeOff removes what a Rollout has left on an object, unless the Rollout owns it.
	// It reads both from the API server, the object first, and writes on condition that
	// the object has not changed: a Rollout created in between keeps what it sets. It
	// is an error when it is not known whether the Rollout owns it.
	TakeOff func(ctx context.Context, object O, rollout types.NamespacedName) (owns bool, err error)
	Logger  hclog.Logger
}

// Remover removes what Rollouts that are gone have left. It works from watches, and
// asks the API server only about a Rollout whose spec it has not seen to own a mark.
// Its methods are safe for concurrent use.
type Remover[O Object] struct {
	opts Options[O]

	mu sync.Mutex
	// owned has the version of a Rollout's spec that was last seen to own a mark.
	owned map[Mark[O]]version
	// stuck has the marks for which the log says already that they may be left behind.
	stuck map[Mark[O]]bool
}

// version identifies a version of a Rollout's spec.
type version struct {
	uid        types.UID
	generation int64
}

// New returns a Remover. Run starts it.
func New[O Object](opts Options[O]) *Remover[O] {
	return &Remover[O]{opts: opts, owned: map[Mark[O]]version{}, stuck: map[Mark[O]]bool{}}
}

// Run looks every 15 s until ctx ends.
func (r *Remover[O]) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		r.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look looks once, and returns when all the marks that it has found have been dealt
// with.
func (r *Remover[O]) Look(ctx context.Context) {
	defer rolloutsplugin.LogPanic(r.opts.Logger, "looking for what Rollouts that are gone have left")
	if err := r.opts.Rollouts.Connect(); err != nil {
		return
	}
	marks := r.opts.Marks(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, atOnce)
	for _, mark := range marks {
		rollout, known := r.opts.Rollouts.Watched(mark.Rollout.Namespace, mark.Rollout.Name)
		if !known {
			continue
		}
		var spec version
		if rollout != nil {
			spec = version{rollout.UID, rollout.Generation}
			if r.isOwned(mark, spec) {
				continue
			}
		}
		free <- struct{}{}
		wg.Go(func() {
			defer rolloutsplugin.LogPanic(r.opts.Logger, fmt.Sprintf("taking what Rollout %s has left off %s", mark.Rollout, mark.Object))
			defer func() { <-free }()
			r.takeOff(ctx, mark, spec)
		})
	}
	r.forgetAllBut(marks)
}

// takeOff calls TakeOff for a mark, and records the result. A failure is logged once.
func (r *Remover[O]) takeOff(ctx context.Context, mark Mark[O], spec version) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	owns, err := r.opts.TakeOff(ctx, mark.Object, mark.Rollout)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if !r.stuck[mark] {
			r.stuck[mark] = true
			r.opts.Logger.Warn("it is not known whether what is on an object is still its Rollout's, or it cannot be taken off: tried again every 15 s",
				"object", mark.Object.String(), "rollout", mark.Rollout.String(), "reason", err)
		}
		return
	}
	delete(r.stuck, mark)
	if owns && spec.uid != "" {
		r.owned[mark] = spec
	}
}

// Owned records that the Rollout, as a call has shown it, owns a mark: the API server
// is not asked about the mark until the Rollout's spec changes.
func (r *Remover[O]) Owned(mark Mark[O], ro *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owned[mark] = version{ro.UID, ro.Generation}
}

func (r *Remover[O]) isOwned(mark Mark[O], spec version) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, ok := r.owned[mark]
	return ok && owner == spec
}

// forgetAllBut drops what is known about other marks. That may include what a call has
// just recorded: it costs a read.
func (r *Remover[O]) forgetAllBut(marks []Mark[O]) {
	there := map[Mark[O]]bool{}
	for _, mark := range marks {
		there[mark] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.owned, func(mark Mark[O], _ version) bool { return !there[mark] })
	maps.DeleteFunc(r.stuck, func(mark Mark[O], _ bool) bool { return !there[mark] })
}
