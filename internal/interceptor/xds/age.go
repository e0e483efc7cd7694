package xds

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// When a connection is as old as Settings.MaxConnectionAge, give or take a tenth, gRPC
// sends GOAWAY: the connection takes no more streams. The server ends its stream soon
// after that, once the Envoy has answered everything: so the next stream is on another
// connection, which may be to another interceptor, and nothing is sent twice. A stream
// that has not ended by twice the age is cut.

var errOld = status.Error(codes.Unavailable, "this connection is as old as --xds-max-connection-age allows")

// streamEnd returns when a stream that begins now is to end: after the GOAWAY, at a
// random time, so that streams that began together do not end together. Zero is never.
func (s *Settings) streamEnd() time.Time {
	if s.MaxConnectionAge == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(float64(s.MaxConnectionAge) * (1.1 + 0.2*rand.Float64())))
}

// age ends a stream whose end has come and that has no unanswered response. Otherwise it
// returns how long the stream may wait, next at most.
func (st *stream) age(next time.Duration) (time.Duration, error) {
	if left := time.Until(st.ends); left > 0 {
		return min(next, left+time.Millisecond), nil
	}
	for k := range st.channels {
		if len(st.channels[k].flights) > 0 {
			return next, nil
		}
	}
	return 0, st.reason
}
