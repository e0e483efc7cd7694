package rolloutsstep

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// regionWatch is a watch of Rollouts in another cluster, and whether that answers.
type regionWatch struct {
	rollouts *kube.Summaries[Rollout]
	// begun is when it began, and wait how long a check waits after that for the first answer.
	begun time.Time
	wait  time.Duration
	now   func() time.Time
	// listed is true once the watch has shown all Rollouts.
	listed atomic.Bool

	mu sync.Mutex
	// err is why the last list or watch was not answered, since when; nil if it was.
	err   error
	since time.Time
}

// answered is called with the answer to each list and watch.
func (w *regionWatch) answered(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.since = w.now()
	}
	w.err = err
}

var errNoAnswer = errors.New("it has not answered yet")

// unreachable returns since when the cluster does not answer, and why; nil if it does. It waits
// some seconds for a watch that has just begun.
func (w *regionWatch) unreachable(ctx context.Context) (since time.Time, why error) {
	// Once the time is over, nobody waits again for a cluster that is silent.
	ctx, cancel := context.WithTimeout(ctx, w.wait-w.now().Sub(w.begun))
	defer cancel()
	watching, err := w.rollouts.Await(ctx)
	if watching {
		w.listed.Store(true)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.since, w.err
	case err != nil:
		return w.begun, err
	case !watching:
		return w.begun, errNoAnswer
	default:
		return time.Time{}, nil
	}
}
