package e2etest

import (
	"context"
	"testing"
	"time"
)

const (
	// Patience is how long the waits of this package last: far longer than
	// anything takes, so that a loaded machine fails no test.
	Patience = 2 * time.Minute

	pollInterval = 100 * time.Millisecond
	callTimeout  = 20 * time.Second
)

// Eventually calls check until it returns nil, and fails the test with its
// last error when it has not within the given time.
func Eventually(t testing.TB, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := Poll(t.Context(), within, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// Poll is Eventually from any goroutine, and for cleanups: it returns the last error.
// It ends early when ctx ends.
func Poll(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	deadline := time.Now().Add(within)
	for {
		err := once(ctx, check)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		pause(ctx, pollInterval)
	}
}

func once(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return check(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
