package traffictest

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

// Outage has the moments at which something ended without warning.
type Outage struct{ moments []moment }

type moment struct{ begun, over time.Time }

// Add calls what ends something, which returns when that is gone.
func (o *Outage) Add(end func()) {
	begun := time.Now()
	end()
	o.moments = append(o.moments, moment{begun, time.Now()})
}

// Began says whether a request was sent before something was gone, and was not
// answered when that began to end: it may have been there.
func (o *Outage) Began(a traffic.Answer) bool {
	for _, m := range o.moments {
		if a.Sent.Before(m.over) && a.Received.After(m.begun) {
			return true
		}
	}
	return false
}
