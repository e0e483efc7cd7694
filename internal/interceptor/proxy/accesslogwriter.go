package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

const (
	// accessLogInterval is how often the lines of the access log are written, and
	// accessLogBatch how many bytes of them are written at once.
	accessLogInterval, accessLogBatch = 500 * time.Millisecond, 64 << 10
	// maxAccessLog bounds the bytes of lines that wait to be written.
	maxAccessLog = 1 << 20
)

var errAccessLogFull = errors.New("the access log is not read as fast as it is written")

// accessLog keeps the lines of an access log until they are written, so that no request
// waits for who reads them. When there are too many, the newest are dropped and counted.
type accessLog struct {
	// requests are under way: they will have lines.
	requests atomic.Int64
	dropped  prometheus.Counter

	mu      sync.Mutex
	waiting []byte        // whole lines
	enough  chan struct{} // has a value when a batch waits
}

// newAccessLog returns nil for no access log.
func newAccessLog(mode string, dropped prometheus.Counter) *accessLog {
	if mode != routes.AccessLogAll && mode != routes.AccessLogAnnotated {
		return nil
	}
	return &accessLog{dropped: dropped, enough: make(chan struct{}, 1)}
}

// Write is part of io.Writer. It takes one line, and never blocks.
func (l *accessLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting)+len(line) > maxAccessLog {
		l.dropped.Inc()
		return 0, errAccessLogFull
	}
	l.waiting = append(l.waiting, line...)
	if len(l.waiting) >= accessLogBatch {
		select {
		case l.enough <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// WriteAccessLog writes the access log, if there is one, until ctx ends; then the lines of
// requests that end about that time, too. It returns within two seconds of that, also if
// out takes nothing. It is to be called once.
func (p *Proxy) WriteAccessLog(ctx context.Context, out io.Writer) {
	if p.accessLog == nil {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		p.accessLog.writeTo(ctx, out)
	}()
	<-ctx.Done()
	select {
	case <-written:
	case <-time.After(2 * time.Second):
	}
}

func (l *accessLog) writeTo(ctx context.Context, out io.Writer) {
	interval := time.NewTicker(accessLogInterval)
	defer interval.Stop()
	var batch []byte
	for over := false; !over; {
		select {
		case <-ctx.Done():
			l.awaitRequests()
			over = true
		case <-l.enough:
		case <-interval.C:
		}
		l.mu.Lock()
		batch, l.waiting = l.waiting, batch[:0]
		l.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		if n, err := out.Write(batch); err != nil {
			l.dropped.Add(float64(bytes.Count(batch[n:], []byte("\n"))))
		}
	}
}

// awaitRequests waits until no request is under way, a second at most: those that a
// shutdown has cut have lines, too.
func (l *accessLog) awaitRequests() {
	for end := time.Now().Add(time.Second); l.requests.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
