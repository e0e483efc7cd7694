package proxy

import (
	"context"
	"net/http"
	"time"
)

// tryOutcome is what became of a try: of sending a request to an endpoint.
type tryOutcome string

const (
	tryAnswered       tryOutcome = "answered" // its header came, whatever the code
	tryConnectFailure tryOutcome = "connect_failure"
	tryUnanswered     tryOutcome = "unanswered" // the connection was closed before the first byte of an answer
	tryBroken         tryOutcome = "broken"     // there was no whole header
	tryTimeout        tryOutcome = "timeout"
	tryAbandoned      tryOutcome = "abandoned" // by the client
)

// tried records what became of a try; ctx is that of the try.
func (x *exchange) tried(ctx context.Context, res *http.Response, err error) {
	what := x.outcome(ctx, err)
	x.record.backend.metrics.tries.inc(string(what))
	if what == tryAnswered {
		x.proxy.metrics.header.Observe(time.Since(x.record.begun).Seconds())
	}
	x.record.spans.tried(what, res)
}

func (x *exchange) outcome(ctx context.Context, err error) tryOutcome {
	switch {
	case err == nil:
		return tryAnswered
	case x.in.Context().Err() != nil || x.bodyBroken():
		return tryAbandoned
	case ctx.Err() != nil:
		return tryTimeout
	case notConnected(err):
		return tryConnectFailure
	case x.answerBegan.Load():
		return tryBroken
	default:
		return tryUnanswered
	}
}
