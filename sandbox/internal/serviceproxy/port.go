package serviceproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Forward listens on from, an address of this network namespace, and forwards
// connections to the endpoint to, as a Service does. When ctx ends, it stops
// listening and resets the connections. protocol is TCP or UDP. The error says why
// it cannot listen.
func Forward(ctx context.Context, protocol corev1.Protocol, from, to netip.AddrPort, log *slog.Logger) error {
	l, err := listen(ctx, frontend{protocol, from}, backends{endpoints: []netip.AddrPort{to}}, log)
	if err != nil {
		return fmt.Errorf("listen on %s %s: %w", protocol, from, reason(err))
	}
	context.AfterFunc(ctx, l.close)
	return nil
}
