package watch

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// stuckAfter is how long a beat may be under way. To make the table of 10,000
	// objects takes seconds.
	stuckAfter = time.Minute
	// mostBetween bounds how much of the time between two calls of check counts: a
	// process that was frozen in between had no time to answer.
	mostBetween = 15 * time.Second
)

var errStuck = errors.New("changes from the API server no longer reach the routing table: one has been under way for a minute")

// pulse tells whether changes still become tables: a beat takes the path of a change,
// from the channel of the watches to the return of the last consumer.
type pulse struct {
	log  *slog.Logger
	now  func() time.Time
	beat chan<- change
	back chan struct{} // receives the beat that has got through
	// passes counts how often the feed has passed changes on to the last consumer.
	passes atomic.Uint64

	mu       sync.Mutex
	seen     uint64 // passes at the last check
	checked  time.Time
	underWay bool // whether a beat is under way
	sent     bool // whether that beat is in the channel, not held back because it is full
	waited   time.Duration
	told     bool // whether the log has been told that the beat is stuck
}

func newPulse(changes chan<- change, log *slog.Logger) *pulse {
	return &pulse{log: log, now: time.Now, beat: changes, back: make(chan struct{}, 1)}
}

// check tells whether the last beat has come back, and sends the next. It fails when
// one has been under way for stuckAfter. It never waits.
func (p *pulse) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	select {
	case <-p.back:
		p.underWay = false
	default:
		if p.underWay {
			p.waited += min(now.Sub(p.checked), mostBetween)
		}
	}
	passes := p.passes.Load()
	if !p.sent && passes != p.seen {
		p.waited = 0 // the channel is full, and the feed reads it: it is busy
	}
	p.checked, p.seen = now, passes
	if !p.underWay {
		p.underWay, p.sent, p.waited, p.told = true, false, 0, false
	}
	if !p.sent {
		select {
		case p.beat <- change{beat: p.back}:
			p.sent = true
		default: // the channel is full: the feed does not read it, or is busy
		}
	}
	if p.waited < stuckAfter {
		return nil
	}
	if !p.told {
		p.told = true
		p.log.Error(errStuck.Error()+"; /healthz fails from now on, so that the interceptor is restarted; this is an error of the interceptor", "goroutines", goroutines())
	}
	return errStuck
}

// goroutines returns the stacks of all goroutines, each stack once.
func goroutines() string {
	const most = 64 << 10
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return string(text.Bytes()[:min(text.Len(), most)])
}
