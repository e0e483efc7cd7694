package server

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

const (
	// maxRequest is room for the metadata of a trigger.
	maxRequest = 1 << 20
	// maxStreams bounds what one connection may have open. KEDA has one connection to a
	// scaler, with a stream of each ScaledObject.
	maxStreams = 50_000
	// drainTime is how long requests under way may take when the scaler stops.
	drainTime = 5 * time.Second
)

// Serve serves KEDA, and gRPC's health service, until the context is done. Then streams end
// with OK, and requests under way are answered.
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
	grpc_health_v1.RegisterHealthServer(server, health{ready: s.ready})
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

// health is gRPC's health service, of the whole server. It is not watched.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	ready func() error
}

// Check tells whether figures are known.
func (h health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if h.ready() != nil {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}
