package cluster

import (
	"context"
	"fmt"
	"time"
)

// poll calls check until it returns nil, at the given interval, and gives up when ctx
// ends; the error is then check's last one, followed by ctx's cause.
func poll(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A check that was cut short by the deadline says less than the one before.
		if last == nil || !over(ctx) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// over says whether ctx has ended, or is about to: its deadline may pass a moment
// before ctx.Err reports it.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && !time.Now().Before(deadline))
}
