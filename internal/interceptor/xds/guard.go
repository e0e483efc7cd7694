package xds

import (
	"fmt"
	"runtime/debug"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// guard recovers from a panic and ends only the stream that panicked: its Envoy keeps
// what it has and reconnects, and the embedded proxy goes on serving requests.
func (s *Server) guard(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("a panic while serving an Envoy; this is an error of the interceptor", "panic", cause, "stack", string(debug.Stack()))
			err = status.Errorf(codes.Internal, "panic: %v", cause)
		}
	}()
	return handle(srv, stream)
}

// panicError is a panic while objects were translated, recovered by attempt.
type panicError struct {
	cause any
	stack string
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the interceptor failed to translate it (%v), which is an error of its own: its log has more", e.cause)
}

// attempt calls do and returns a panic as an error, so that a panic over one object does
// not affect the others.
func attempt(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause, string(debug.Stack())}
		}
	}()
	return do()
}

// validated fails for a route that Envoy would refuse, or that cannot be translated.
func (s *Server) validated(route *routes.Route) error {
	return attempt(func() error { return s.validate(route) })
}

// panicsOver returns the objects that each, on their own, make the rendering of a virtual
// host panic; none if only several of them together do.
func (s *Server) panicsOver(vh routes.VirtualHost) (objects []types.NamespacedName) {
	for i, m := range vh.Matches {
		alone := routes.VirtualHost{Domain: vh.Domain, Matches: vh.Matches[i : i+1]}
		if attempt(func() error { s.host(alone); return nil }) != nil && !slices.Contains(objects, m.Route.Name) {
			objects = append(objects, m.Route.Name)
		}
	}
	return objects
}
