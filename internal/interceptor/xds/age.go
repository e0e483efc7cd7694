package xds

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A connection that is as old as Settings.MaxConnectionAge, give or take a tenth, is
// told to take no more streams (GOAWAY, by gRPC). The server ends its stream soon after
// that, once the Envoy has answered everything: so the next stream is on another
// connection, which may be to another interceptor, and nothing is sent twice. A stream
// that has not ended by twice the age is cut.

// streamEnd returns when a stream that begins now is to end: after the GOAWAY, and not
// at the same time as others that began with it. Zero is never.
func (s *Settings) streamEnd() time.Time {
	if s.MaxConnectionAge == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(float64(s.MaxConnectionAge) * (1.1 + 0.2*rand.Float64())))
}

// age ends a stream that is old enough, unless the Envoy has still to answer. Otherwise
// it returns how long nothing has to be done.
func (st *stream) age(next time.Duration) (time.Duration, error) {
	if left := time.Until(st.ends); left > 0 {
		return min(next, left+time.Millisecond), nil
	}
	for k := range st.channels {
		if len(st.channels[k].flights) > 0 {
			return next, nil
		}
	}
	return 0, status.Error(codes.Unavailable, "this connection is as old as --xds-max-connection-age allows")
}
