package gatewayapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of the routes.
const Group = "gateway.networking.k8s.io"

// Kind is a kind of route.
type Kind string

// The kinds of routes that a Rollout may name.
const (
	HTTPRoute Kind = "HTTPRoute"
	GRPCRoute Kind = "GRPCRoute"
	TCPRoute  Kind = "TCPRoute"
	TLSRoute  Kind = "TLSRoute"
	UDPRoute  Kind = "UDPRoute"
)

// Kinds are all kinds of routes, in the order in which a Rollout's routes are
// listed.
var Kinds = []Kind{HTTPRoute, GRPCRoute, TCPRoute, TLSRoute, UDPRoute}

// TakesHeaderRoutes tells whether the rules of the kind match headers.
func (k Kind) TakesHeaderRoutes() bool { return k == HTTPRoute || k == GRPCRoute }

// Resource is the name of the kind's resource in lower case, as in RBAC.
func (k Kind) Resource() string { return strings.ToLower(string(k)) + "s" }

// groupResource is the kind's resource.
func (k Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: Group, Resource: k.Resource()}
}

// key is the configuration's key for one route of the kind; httpRoutes and
// httpRouteSelector are made of it.
func (k Kind) key() string {
	protocol, _ := strings.CutSuffix(string(k), "Route")
	return strings.ToLower(protocol) + "Route"
}

// known tells whether the kind is one of Kinds.
func (k Kind) known() bool { return slices.Contains(Kinds, k) }
