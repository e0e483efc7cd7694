package rolloutsplugin

import (
	"context"
	"os"
	"time"
)

// parentPoll is how often the parent is checked where the kernel does not report its
// end.
const parentPoll = 500 * time.Millisecond

// OnParentDeath calls gone once the process that started this one has died: at once
// where the kernel reports it (Linux 5.3 and later), else at most half a second later.
// It returns when ctx ends. A controller that is killed leaves its plugins running, and
// a running binary cannot be overwritten: the next controller, which the kubelet starts
// at once, would fail.
//
// The parent is compared with the one at the call: a controller is often process 1 of
// its container, and orphans may go to a subreaper, so "the parent is 1" says nothing.
// (PR_SET_PDEATHSIG does not work: it fires when the thread that forked ends, and Go
// ends threads.)
func OnParentDeath(ctx context.Context, gone func()) {
	parent := os.Getppid()
	if awaitDeath(ctx, parent) {
		gone()
		return
	}
	onChange(ctx, parent, os.Getppid, parentPoll, gone)
}

func onChange(ctx context.Context, from int, parent func() int, every time.Duration, gone func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if parent() != from {
				gone()
				return
			}
		}
	}
}
