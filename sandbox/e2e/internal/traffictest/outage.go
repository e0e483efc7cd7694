package traffictest

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

// Outage has the moments at which something ended without warning.
type Outage struct{ moments []moment }

type moment struct{ begun, over time.Time }

// Add calls what ends something, and returns when that has returned: when clients no
// longer reach what has ended.
func (o *Outage) Add(end func()) {
	begun := time.Now()
	end()
	o.moments = append(o.moments, moment{begun, time.Now()})
}

// MayFail says whether the end of something may have failed a request: it was sent
// before that was gone, and was not answered when it began to end.
func (o *Outage) MayFail(a traffic.Answer) bool {
	for _, m := range o.moments {
		if a.Sent.Before(m.over) && a.Received.After(m.begun) {
			return true
		}
	}
	return false
}

// MayGoUnanswered is MayFail for a load that is sent to the pods that have ended: a
// request that was there gets no answer at all.
func (o *Outage) MayGoUnanswered(a traffic.Answer) bool { return a.Status == 0 && o.MayFail(a) }
