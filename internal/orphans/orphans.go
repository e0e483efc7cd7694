// Package orphans has a traffic router take off what Rollouts that are gone have left on
// the objects that it writes. The controller makes no call for a Rollout that is
// deleted, or that does not use the plugin any more.
//
// It knows neither routers nor what they write: a router says which objects carry
// something of which Rollout, and is asked to take that off.
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
	// interval is how often it looks.
	interval = 15 * time.Second
	// timeout bounds the requests for one mark, and atOnce is how many are worked on at
	// a time, so that a webhook that hangs for one namespace holds up no other.
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
	// State is what it depends on, besides the Rollout's spec, whether the Rollout owns
	// that: a Rollout may select objects by their labels.
	State string
}

// Options say where a Remover looks, and how it takes off what it finds.
type Options[O Object] struct {
	// Rollouts is a watch of Rollouts. Without list and watch nothing is taken off.
	Rollouts *kube.Metadata
	// Marks returns all marks that are known without a request. What is not known, for
	// lack of a watch, is left out.
	Marks func(context.Context) []Mark[O]
	// TakeOff takes what a Rollout has on an object off, unless the Rollout owns it.
	// It asks the API server for both, the object first, and writes on condition that
	// the object did not change: a Rollout made in between keeps what it sets. It is an
	// error when it is not known whether the Rollout owns it.
	TakeOff func(ctx context.Context, object O, rollout types.NamespacedName) (owns bool, err error)
	Logger  hclog.Logger
}

// Remover takes off what Rollouts that are gone have left. It works from watches, and
// asks the API server only about a Rollout whose spec it has not seen to own a mark.
// Its methods are safe for concurrent use.
type Remover[O Object] struct {
	opts Options[O]

	mu sync.Mutex
	// owned has the version of a Rollout's spec that was last seen to own a mark.
	owned map[Mark[O]]version
	// stuck has the marks of which it has been logged that they may be left behind.
	stuck map[Mark[O]]bool
}

// version is one of a Rollout's spec.
type version struct {
	uid        types.UID
	generation int64
}

// New returns a Remover. Run has it look.
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

// Look looks once, and returns when all that it has found is done with.
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

// takeOff takes off what a Rollout has on an object unless it owns that. What keeps it
// from that is logged once.
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

// Owned has the API server not be asked about a mark while the spec of its Rollout, as
// a call has shown it, stays as it is.
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

// forgetAllBut drops what is known of other marks. What a call notes meanwhile may go,
// too: it costs a read.
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
