package gauge

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// Each runs work for 0..n-1, at most workers calls at once, and returns the first failure. A
// failure does not stop the other calls.
func Each(workers, n int, work func(int) error) error {
	failures := make([]error, n)
	workqueue.ParallelizeUntil(context.Background(), workers, n, func(i int) { failures[i] = work(i) })
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// patience is how long Poll waits; it allows for a busy machine.
const patience = 2 * time.Minute

// Poll waits for a condition.
func Poll(ctx context.Context, every time.Duration, what string, condition func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, every, patience, true, func(context.Context) (bool, error) { return condition() })
	if wait.Interrupted(err) {
		return fmt.Errorf("not within %s: %s: %w", patience, what, err)
	}
	return err
}

// Pause waits for some time.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
