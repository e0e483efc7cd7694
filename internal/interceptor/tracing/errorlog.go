package tracing

import (
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// between is the least time between two lines of the log about errors of the SDK.
const between = time.Minute

// errorLog logs errors of the SDK, such as a collector that is away. Each batch of spans
// may fail: it logs one error a minute, with how many were not logged.
type errorLog struct {
	log      *slog.Logger
	now      func() time.Time
	mu       sync.Mutex
	last     time.Time
	unlogged int
}

var _ otel.ErrorHandler = (*errorLog)(nil)

func newErrorLog(log *slog.Logger) *errorLog { return &errorLog{log: log, now: time.Now} }

// Handle is part of otel.ErrorHandler.
func (e *errorLog) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if !e.last.IsZero() && now.Sub(e.last) < between {
		e.unlogged++
		return
	}
	e.log.Warn("tracing: requests are served, and spans may be lost", "error", err, "notLogged", e.unlogged)
	e.last, e.unlogged = now, 0
}
