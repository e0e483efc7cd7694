package server

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

const (
	// maxRequest is room for the metadata of a trigger.
	maxRequest = 1 << 20
	// maxStreams bounds what one connection may have open. KEDA has one connection to a
	// scaler, with a stream of each ScaledObject, which takes 12 KB.
	maxStreams = 20_000
	// drainTime is how long requests under way may take when the scaler stops.
	drainTime = 5 * time.Second
)

// Serve serves KEDA until the context is done. Then streams end with OK, and requests under
// way are answered.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(16<<10), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(10*time.Second),
		// Streams of a KEDA that is gone without a word end.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.countRequest), grpc.StreamInterceptor(s.countStream),
	)
	externalscaler.RegisterExternalScalerServer(server, s)
	stopped := make(chan struct{})
	defer func() { <-stopped }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(stopped)
		<-ctx.Done()
		s.streams.end()
		late := time.AfterFunc(drainTime, server.Stop)
		defer late.Stop()
		server.GracefulStop()
	}()
	return server.Serve(l)
}
