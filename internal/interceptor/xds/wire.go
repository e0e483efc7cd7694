package xds

import (
	"context"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// kind is a type of resource. They are sent in this order.
type kind int

const (
	cds kind = iota
	eds
	rds
	lds
	sds
	kinds
)

var kindNames = [kinds]string{"cluster", "endpoints", "routes", "listener", "secret"}

const typePrefix = "type.googleapis.com/"

var typeURLs = [kinds]string{
	typePrefix + "envoy.config.cluster.v3.Cluster",
	typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment",
	typePrefix + "envoy.config.route.v3.RouteConfiguration",
	typePrefix + "envoy.config.listener.v3.Listener",
	typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret",
}

func kindOf(typeURL string) (kind, bool) {
	for k, url := range typeURLs {
		if url == typeURL {
			return kind(k), true
		}
	}
	return 0, false
}

// request is a request of an Envoy, in either protocol.
type request struct {
	node    *corev3.Node
	typeURL string
	// nonce is the nonce of the response that the request answers, empty for none.
	// refusal is why the Envoy refused that response; nil if it accepted it.
	nonce   string
	refusal *statuspb.Status
	// names are all resources that the Envoy wants, and version is the version that it
	// has, with the state of the world.
	names   []string
	version string
	// subscribe and unsubscribe change what the Envoy wants, and initial are the versions
	// of the resources that it has from an earlier stream, with delta.
	subscribe, unsubscribe []string
	initial                map[string]string
	bytes                  int // as it was sent
}

// resource is a resource to be sent.
type resource struct {
	name    string
	version version
	content mem.BufferSlice
}

func newResource(name string, v version, content []byte) resource {
	return resource{name, v, mem.BufferSlice{mem.SliceBuffer(content)}}
}

// response is what is sent to an Envoy, in either protocol.
type response struct {
	kind      kind
	nonce     string
	version   version // of all resources of the kind; for the state of the world
	text      string  // sent in place of version and of the only resource's version; empty for neither
	resources []resource
	removed   []string
}

func (r *response) textOf(v version) string {
	if r.text != "" {
		return r.text
	}
	return v.String()
}

// wire is a gRPC stream of one of the two protocols.
type wire interface {
	Context() context.Context
	receive() (*request, error)
	send(*response) error
}

// service is the gRPC service.
type service struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	server *Server
}

// StreamAggregatedResources serves the state of the world.
func (s *service) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.server.serve(sotwWire{stream}, false)
}

// DeltaAggregatedResources serves the delta protocol.
func (s *service) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.server.serve(deltaWire{stream}, true)
}

type sotwWire struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
}

func (w sotwWire) receive() (*request, error) {
	r, err := w.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce(), refusal: r.GetErrorDetail(),
		names: r.GetResourceNames(), version: r.GetVersionInfo(), bytes: proto.Size(r),
	}, nil
}

func (w sotwWire) send(r *response) error {
	return w.SendMsg(r.message())
}

type deltaWire struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (w deltaWire) receive() (*request, error) {
	r, err := w.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce(), refusal: r.GetErrorDetail(),
		subscribe: r.GetResourceNamesSubscribe(), unsubscribe: r.GetResourceNamesUnsubscribe(),
		initial: r.GetInitialResourceVersions(), bytes: proto.Size(r),
	}, nil
}

func (w deltaWire) send(r *response) error {
	return w.SendMsg(r.deltaMessage())
}

func nonceOf(n uint64) string { return strconv.FormatUint(n, 10) }
