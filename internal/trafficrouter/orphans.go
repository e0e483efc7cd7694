package trafficrouter

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
	// orphanInterval is how often a remover looks for marks.
	orphanInterval = 15 * time.Second
	// orphanTimeout bounds the requests for one mark, orphansAtOnce the marks that are
	// worked on at a time, and orphansEach those on objects of one namespace.
	orphanTimeout = 5 * time.Second
	orphansAtOnce = 16
	orphansEach   = 2
)

// Mark says that an object has something of a Rollout.
type Mark struct {
	Object  Ref
	Rollout types.NamespacedName
	// Labels are those of the object, by which a Rollout may select it, as labels.Set writes
	// them.
	Labels string
}

// remover removes what Rollouts that are gone have left. It works from watches, and
// asks the API server only about a Rollout whose spec it has not seen to own a mark.
// Its methods are safe for concurrent use.
type remover struct {
	// rollouts is a watch of Rollouts. Without list and watch nothing is removed.
	rollouts *kube.Metadata
	// marks returns all marks that a watch knows.
	marks func(context.Context) []Mark
	// takeOff removes what a Rollout has left on an object, unless the Rollout owns it. It
	// reads both from the API server, the object first, and writes on condition that the
	// object has not changed: a Rollout created in between keeps what it sets. It is an error
	// when it is not known whether the Rollout owns it.
	takeOff func(ctx context.Context, object Ref, rollout types.NamespacedName) (owns bool, err error)
	logger  hclog.Logger
	shares  *rolloutsplugin.Shares

	mu sync.Mutex
	// underWay has the marks that are worked on or wait for their turn.
	underWay map[Mark]bool
	// owned has the version of a Rollout's spec that was last seen to own a mark.
	owned map[Mark]version
	// stuck has the marks for which the log says already that they may be left behind.
	stuck map[Mark]bool
}

// version identifies a version of a Rollout's spec.
type version struct {
	uid        types.UID
	generation int64
}

// newRemover returns a remover. Run starts it.
func newRemover(rollouts *kube.Metadata, marks func(context.Context) []Mark, takeOff func(context.Context, Ref, types.NamespacedName) (bool, error), logger hclog.Logger) *remover {
	return &remover{
		rollouts: rollouts, marks: marks, takeOff: takeOff, logger: logger,
		shares:   rolloutsplugin.NewShares(orphansAtOnce, orphansEach),
		underWay: map[Mark]bool{}, owned: map[Mark]version{}, stuck: map[Mark]bool{},
	}
}

// Run looks every 15 s until ctx ends.
func (r *remover) Run(ctx context.Context) {
	ticker := time.NewTicker(orphanInterval)
	defer ticker.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look looks once, and returns when all the marks that it has found have been dealt
// with.
func (r *remover) Look(ctx context.Context) { r.look(ctx).Wait() }

// look looks once, and does not wait for the marks that it has found. Those that an
// earlier look has found and that are not dealt with yet are left to it.
func (r *remover) look(ctx context.Context) (found *sync.WaitGroup) {
	found = &sync.WaitGroup{}
	defer rolloutsplugin.LogPanic(r.logger, "looking for what Rollouts that are gone have left")
	if err := r.rollouts.Connect(); err != nil {
		return found
	}
	marks := r.marks(ctx)
	r.forgetAllBut(marks)
	for _, mark := range marks {
		rollout, known := r.rollouts.Watched(mark.Rollout.Namespace, mark.Rollout.Name)
		if !known {
			continue
		}
		var spec version
		if rollout != nil {
			spec = version{rollout.UID, rollout.Generation}
		}
		if !r.begin(mark, spec) {
			continue
		}
		found.Add(1)
		r.shares.Go(mark.Object.Namespace, func() {
			defer found.Done()
			defer r.end(mark)
			defer rolloutsplugin.LogPanic(r.logger, fmt.Sprintf("taking what Rollout %s has left off %s", mark.Rollout, mark.Object))
			r.workOn(ctx, mark, spec)
		})
	}
	return found
}

// begin tells whether a mark is to be worked on: it is not yet, and is not known to be
// owned by the Rollout with this spec.
func (r *remover) begin(mark Mark, spec version) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner, ok := r.owned[mark]; r.underWay[mark] || ok && owner == spec {
		return false
	}
	r.underWay[mark] = true
	return true
}

func (r *remover) end(mark Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, mark)
}

// workOn calls takeOff for a mark, and records the result. A failure is logged once.
func (r *remover) workOn(ctx context.Context, mark Mark, spec version) {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	owns, err := r.takeOff(ctx, mark.Object, mark.Rollout)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if !r.stuck[mark] {
			r.stuck[mark] = true
			r.logger.Warn("it is not known whether what is on an object is still its Rollout's, or it cannot be taken off: tried again every 15 s",
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
func (r *remover) Owned(mark Mark, ro *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owned[mark] = version{ro.UID, ro.Generation}
}

// forgetAllBut drops what is known about other marks. That may include what a call has
// just recorded: it costs a read.
func (r *remover) forgetAllBut(marks []Mark) {
	there := map[Mark]bool{}
	for _, mark := range marks {
		there[mark] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.owned, func(mark Mark, _ version) bool { return !there[mark] })
	maps.DeleteFunc(r.stuck, func(mark Mark, _ bool) bool { return !there[mark] })
}
