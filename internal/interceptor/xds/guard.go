package xds

import (
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
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

// panicError is a panic over one object.
type panicError struct {
	cause any
	stack string
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the interceptor failed to translate it (%v), which is an error of its own: its log has more", e.cause)
}

// validated fails for a route that Envoy would refuse, or that cannot be translated:
// a panic over one object costs the others nothing.
func (s *Server) validated(route *routes.Route) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause, string(debug.Stack())}
		}
	}()
	return s.validate(route)
}
