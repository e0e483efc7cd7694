package node

import "time"

const (
	backOffFirst = 10 * time.Second
	backOffMax   = 5 * time.Minute
	// backOffReset is how long a container must have run for its backoff to be
	// reset.
	backOffReset = 2 * backOffMax
)

// backOff is the delay before a container that keeps exiting is started again, or
// an image that cannot be resolved is tried again: none the first time, then 10 s,
// doubled each time, up to 5 min.
type backOff struct {
	delay time.Duration
}

// next returns the delay after a run of the given length, and counts it.
func (b *backOff) next(ran time.Duration) time.Duration {
	if ran >= backOffReset {
		b.delay = 0
	}
	now := b.delay
	b.delay = min(max(2*b.delay, backOffFirst), backOffMax)
	return now
}
