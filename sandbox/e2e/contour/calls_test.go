package contour

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// protocolMargin is the deviation, in percentage points, that awaitShare detects. It is
// larger than margin, since a connection for each call costs more than a request.
const protocolMargin = 12

// awaitShare waits until yellow answers its share of a client's calls.
func awaitShare(t *testing.T, protocol string, weight int, ask client) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%s: yellow has a share of %d", protocol, weight), func(context.Context) error {
		return traffictest.Proxy{Name: protocol}.CheckShare(t, "yellow", weight, protocolMargin, func(count int, ordered bool) []traffic.Answer {
			return traffictest.Ask(count, ordered, func(int) traffic.Answer {
				colour, err := askWithin(t.Context(), ask)
				if err != nil {
					return traffic.Answer{Problem: err.Error()}
				}
				return traffic.Answer{Backend: colour}
			})
		})
	})
}

// awaitAll waits until one version answers 100 calls of a client in a row.
func awaitAll(t *testing.T, protocol, want string, ask client) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, protocol+": all is answered by "+want, func(context.Context) error {
		for range 100 {
			if colour, err := askWithin(t.Context(), ask); err != nil || colour != want {
				return fmt.Errorf("%q, %w", colour, err)
			}
		}
		return nil
	})
}

// calls are made one after the other, some thirty a second at most.
type calls struct {
	t        *testing.T
	protocol string
	stop     context.CancelFunc
	done     sync.WaitGroup

	answered map[string]int
	failed   []error
}

func callAllAlong(t *testing.T, protocol string, ask client) *calls {
	ctx, cancel := context.WithCancel(t.Context())
	c := &calls{t: t, protocol: protocol, stop: cancel, answered: map[string]int{}}
	c.done.Go(func() {
		ticker := time.NewTicker(30 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// A call that has begun is completed, even if ctx ends.
			colour, err := askWithin(context.WithoutCancel(ctx), ask)
			if err != nil {
				c.failed = append(c.failed, err)
			} else {
				c.answered[colour]++
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		c.done.Wait()
	})
	return c
}

// finish ends the calls, and fails the test if a call has failed or was answered by any
// other version, or if one of these versions has answered none.
func (c *calls) finish(versions ...string) {
	c.t.Helper()
	c.stop()
	c.done.Wait()
	total := 0
	for _, version := range versions {
		if c.answered[version] == 0 {
			c.failed = append(c.failed, errors.New("nothing was answered by "+version))
		}
		total += c.answered[version]
		delete(c.answered, version)
	}
	if len(c.failed) > 0 || len(c.answered) > 0 {
		c.t.Errorf("%s: besides %d answers %d calls have failed, and %v went astray; the first failures: %v",
			c.protocol, total, len(c.failed), c.answered, c.failed[:min(len(c.failed), 5)])
	}
	c.t.Logf("%s: %d calls were answered", c.protocol, total)
}
