package traffictest

import (
	"context"
	"net"
)

// Dial connects to the proxy, whatever address it is given.
func (p Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.Address)
}
