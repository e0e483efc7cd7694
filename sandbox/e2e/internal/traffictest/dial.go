package traffictest

import (
	"context"
	"net"
)

// Dial connects to the proxy, whatever it is asked to connect to.
func (p Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.Address)
}
