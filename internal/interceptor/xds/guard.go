package xds

import (
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// guard ends a stream that panics, and nothing but that: its Envoy keeps what it
// has and comes again, and requests of the embedded proxy go on.
func (s *Server) guard(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("a panic while serving an Envoy; this is an error of the interceptor", "panic", cause, "stack", string(debug.Stack()))
			err = status.Errorf(codes.Internal, "panic: %v", cause)
		}
	}()
	return handle(srv, stream)
}
