package traffictest

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// Outage records when something was ended without warning.
type Outage struct{ moments []moment }

type moment struct{ begun, over time.Time }

// Add calls end, which ends something and has to return when clients no longer reach
// it.
func (o *Outage) Add(end func()) {
	begun := time.Now()
	end()
	o.moments = append(o.moments, moment{begun, time.Now()})
}

// MayFail says whether an outage may have failed a request: the request was sent before
// the outage was over, and was not answered when the outage began.
func (o *Outage) MayFail(a traffic.Answer) bool {
	for _, m := range o.moments {
		if a.Sent.Before(m.over) && a.Received.After(m.begun) {
			return true
		}
	}
	return false
}

// MayGoUnanswered is MayFail for a load that is sent to the pods that have ended: a
// request that had reached them gets no answer at all.
func (o *Outage) MayGoUnanswered(a traffic.Answer) bool { return a.Status == 0 && o.MayFail(a) }
