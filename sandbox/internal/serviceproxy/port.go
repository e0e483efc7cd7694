package serviceproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Forward carries connections to an address of this network namespace to an
// endpoint, as those to a Service are, until ctx ends: it stops to listen then and
// resets the connections. protocol is TCP or UDP. The error says why it cannot
// listen.
func Forward(ctx context.Context, protocol corev1.Protocol, from, to netip.AddrPort, log *slog.Logger) error {
	l, err := listen(ctx, frontend{protocol, from}, backends{endpoints: []netip.AddrPort{to}}, log)
	if err != nil {
		return fmt.Errorf("listen on %s %s: %w", protocol, from, reason(err))
	}
	context.AfterFunc(ctx, l.close)
	return nil
}
