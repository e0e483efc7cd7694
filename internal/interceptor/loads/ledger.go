// Package loads has the figures of requests that an interceptor reports to scalers: its
// own, and those that kedify-proxies report to it.
package loads

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// sweepInterval is how often counters of objects that are gone are looked for.
const sweepInterval = time.Minute

// Ledger has the counters of all Sources. It is an http.Handler that streams them to
// scalers, see package loadreport.
type Ledger struct {
	exists func(types.NamespacedName) bool
	own    *Source
	// closed is closed when the streams are to end, and streams has those that have not.
	closed  chan struct{}
	streams sync.WaitGroup

	mu      sync.Mutex
	sources []*Source // own is the first
	readers map[*reader]struct{}
	// generation counts the messages to all readers. What changes between two messages
	// belongs to the next generation.
	generation uint64
	swept      time.Time
}

// New makes a Ledger. exists tells whether there is an HTTPScaledObject: what kedify-proxies
// have reported of others goes away within a few minutes.
func New(exists func(types.NamespacedName) bool) *Ledger {
	l := &Ledger{exists: exists, readers: make(map[*reader]struct{}), closed: make(chan struct{}), swept: time.Now()}
	l.own = l.begin("", "", false)
	return l
}

// Own returns the Source that is the interceptor itself.
func (l *Ledger) Own() *Source { return l.own }

// Exists tells whether there is an HTTPScaledObject.
func (l *Ledger) Exists(object types.NamespacedName) bool { return l.exists(object) }

// Stream begins the Source that is a kedify-proxy at an IP address, and the pod that it says
// it is, as a load reporting stream of it begins. Scalers are told of it with its first
// report: without figures it would pass for one without requests. End is to be called when
// the stream ends.
func (l *Ledger) Stream(address, pod string) *Source { return l.begin(address, pod, false) }

// WithoutLoadReports begins a Source that says that a kedify-proxy takes its configuration
// from here, and has no load reporting stream to here. End is to be called when that is no
// longer so.
func (l *Ledger) WithoutLoadReports(address, pod string) *Source {
	s := l.begin(address, pod, true)
	s.Report(nil)
	return s
}

func (l *Ledger) begin(address, pod string, withoutLoadReports bool) *Source {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Source{
		ledger: l, id: uuid.NewString(), address: address, pod: pod, withoutLoadReports: withoutLoadReports,
		objects: make(map[types.NamespacedName]*Counters),
	}
	l.sources = append(l.sources, s)
	return s
}

// wake has all readers send what has changed now.
func (l *Ledger) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.readers {
		select {
		case r.woken <- struct{}{}:
		default: // it is about to
		}
	}
}

// sweepLocked forgets objects that are gone, if it is time to.
func (l *Ledger) sweepLocked() {
	if time.Since(l.swept) < sweepInterval {
		return
	}
	l.swept = time.Now()
	for _, s := range l.sources {
		for name, c := range s.objects {
			if c.forgotten || s != l.own && !l.exists(name) {
				s.forgetLocked(name, c)
			}
		}
	}
	l.forgetLocked()
}

// forgetUntoldLocked is forgetLocked for an end that no reader has been told yet. If there is
// a reader, the next message to it forgets: to look at all ends with each one would take
// long for a client that opens and closes streams all the time.
func (l *Ledger) forgetUntoldLocked() {
	if len(l.readers) == 0 {
		l.forgetLocked()
	}
}

// forgetLocked forgets the ends of Sources and objects that all readers have been told.
func (l *Ledger) forgetLocked() {
	told := uint64(math.MaxUint64)
	for r := range l.readers {
		told = min(told, r.told)
	}
	l.sources = slices.DeleteFunc(l.sources, func(s *Source) bool {
		s.gone = slices.DeleteFunc(s.gone, func(g goneObject) bool { return g.generation <= told })
		return s.ended != 0 && s.ended <= told
	})
}
