package node

import "time"

const (
	backOffFirst = 10 * time.Second
	backOffMax   = 5 * time.Minute
	// backOffReset is how long a container must have run to be trusted again.
	backOffReset = 2 * backOffMax
)

// backOff is how long a container that keeps ending, or an image that cannot be
// had, waits before the next attempt: the first one follows at once, then 10 s,
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
