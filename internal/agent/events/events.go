// Package events writes the agent's Events. A reconcile may find the same problem any number
// of times: an Event is written when the problem is new or has changed, and again each half
// hour, as the API server forgets Events after an hour.
package events

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// again is after how long the Event of a problem that lasts is written again.
const again = 30 * time.Minute

// mostMessage is the API server's limit of a message, in bytes.
const mostMessage = 1024

// Reporter writes Events.
type Reporter struct {
	recorder record.EventRecorder
	now      func() time.Time

	mu   sync.Mutex
	told map[problem]telling
}

// problem is one kind of problem of one object; an object has one of each at a time.
type problem struct {
	object types.UID
	reason string
}

type telling struct {
	message string
	at      time.Time
}

// NewReporter returns a Reporter that writes by a recorder.
func NewReporter(recorder record.EventRecorder) *Reporter {
	return &Reporter{recorder: recorder, now: time.Now, told: make(map[problem]telling)}
}

// Problem writes a Warning Event on an object, unless it has been written already.
func (r *Reporter) Problem(object client.Object, reason, message string) {
	if len(message) > mostMessage {
		message = strings.ToValidUTF8(message[:mostMessage], "")
	}
	p, now := problem{object.GetUID(), reason}, r.now()
	r.mu.Lock()
	last, told := r.told[p]
	if told && last.message == message && now.Sub(last.at) < again {
		r.mu.Unlock()
		return
	}
	r.told[p] = telling{message, now}
	r.mu.Unlock()
	r.recorder.Event(object, corev1.EventTypeWarning, reason, message)
}

// Solved says that an object has a problem no more. If it comes back, its Event is written
// at once.
func (r *Reporter) Solved(object client.Object, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, problem{object.GetUID(), reason})
}

// Forget forgets all problems of an object that is gone.
func (r *Reporter) Forget(object types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.told {
		if p.object == object {
			delete(r.told, p)
		}
	}
}

// Done writes a Normal Event about something that the agent has done.
func (r *Reporter) Done(object client.Object, reason, message string) {
	r.recorder.Event(object, corev1.EventTypeNormal, reason, message)
}
