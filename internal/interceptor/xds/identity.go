package xds

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/certified"
)

// shownBy returns the namespaces that an Envoy's client certificate names, and whether
// the Envoy showed one: without mutual TLS no Envoy does.
func shownBy(p *peer.Peer) (names certified.Namespaces, shown bool) {
	info, is := p.AuthInfo.(credentials.TLSInfo)
	if !is {
		return names, false
	}
	return certified.Of(&info.State), len(info.State.VerifiedChains) > 0
}

// namespacesFor returns the namespaces that an Envoy gets, nil for all: see namespacesOf and
// granted.
func (s *Server) namespacesFor(node *corev3.Node, names certified.Namespaces) ([]string, error) {
	declared, err := namespacesOf(node)
	if err != nil {
		return nil, err
	}
	return s.granted(declared, names)
}

// granted returns the namespaces that an Envoy gets, nil for all. declared are the
// namespaces that its node metadata lists, nil without a list; granted fails unless the
// certificate names them all. A certificate that names no namespace is ignored, or
// refused with Settings.RequireNamespaces.
func (s *Server) granted(declared []string, names certified.Namespaces) ([]string, error) {
	switch {
	case names.All():
		return declared, nil
	case !names.Any() && s.settings.RequireNamespaces:
		return nil, status.Errorf(codes.PermissionDenied,
			"this kedify-proxy's certificate names no namespace, and --xds-require-namespaces asks for it; expected %s", certified.Expected)
	case !names.Any():
		return declared, nil
	case declared == nil:
		return slices.Clone(names.Names()), nil
	}
	missing := slices.DeleteFunc(slices.Clone(declared), names.Has)
	if len(missing) > 0 {
		return nil, status.Errorf(codes.PermissionDenied,
			"node.metadata.namespaces has %s, and this kedify-proxy's certificate is for %s alone; expected %s",
			printable(certified.Few(missing)), names, certified.Expected)
	}
	return declared, nil
}
