package node

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	dialPause = 200 * time.Millisecond
	// dialPatience bounds the wait for a request without a deadline, such as a
	// watch.
	dialPatience = time.Minute
)

// dialPatiently connects to the API server, and waits for it if nothing listens
// there. If a watch failed instead, it would be retried with a growing backoff, and
// would resume up to half a minute after the server is back.
func dialPatiently(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	deadline := time.Now().Add(dialPatience)
	for {
		conn, err := d.DialContext(ctx, network, address)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline) {
			return conn, err
		}
		if !sleep(ctx, dialPause) {
			return nil, err
		}
	}
}
