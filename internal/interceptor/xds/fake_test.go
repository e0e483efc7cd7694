package xds

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// newWorldLike returns the server of another replica, with the same table.
func newWorldLike(w *world) *Server {
	s := w.newServer(w.server.render.Translator)
	s.Update(w.builder.Table(), routes.Changes{})
	return s
}

// dialer serves a world in memory, and returns a client of its server.
func (w *world) dialer() discoveryv3.AggregatedDiscoveryServiceClient { return w.dialerTo(w.server) }

func (w *world) dialerTo(server *Server) discoveryv3.AggregatedDiscoveryServiceClient {
	w.t.Helper()
	l := bufconn.Listen(64 << 10)
	serve(w.t, server, l)
	c, err := grpc.NewClient("passthrough:///fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return discoveryv3.NewAggregatedDiscoveryServiceClient(c)
}

var theNode = &corev3.Node{Id: envoy.NodeID}

// fake is an Envoy that sends requests as a real one does, and refuses what a test wants
// it to refuse.
type fake struct {
	t    testing.TB
	sotw bool
	node *corev3.Node
	send func(k kind, nonce, refusal string, subscribe []string) error
	// next returns a response, and the version of each resource; in the state of the
	// world, the one version of the response.
	next func() (*response, []string, error)
	end  context.CancelFunc
	// refuse returns why the Envoy refuses a route configuration or a cluster, empty
	// when it accepts it. It is called by one goroutine.
	refuse func(is proto.Message) string
	// deaf has the clusters whose endpoints the Envoy does not subscribe to.
	deaf map[string]bool
	// comesBack tells that the Envoy was connected before.
	comesBack bool

	mu          sync.Mutex
	clusters    map[string]*clusterv3.Cluster
	assignments map[string]*endpointv3.ClusterLoadAssignment
	routes      *routev3.RouteConfiguration
	received    [kinds]int // responses
	resources   [kinds]int // in these responses
	named       []string   // names in the last subscription
	// versions has the version of each resource that the Envoy has, by its name; in the
	// state of the world, the one version of a type, by "".
	versions [kinds]map[string]string
	// keeps has the domains that may not be missing from any configuration from now on.
	keeps  []string
	faults []string
}

// newFake connects an Envoy for these namespaces, or for all if none is given.
func newFake(t testing.TB, client discoveryv3.AggregatedDiscoveryServiceClient, sotw bool, namespaces ...string) *fake {
	t.Helper()
	node := theNode
	if len(namespaces) > 0 {
		list := make([]*structpb.Value, len(namespaces))
		for i, name := range namespaces {
			list[i] = structpb.NewStringValue(name)
		}
		node = &corev3.Node{Id: envoy.NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"namespaces": structpb.NewListValue(&structpb.ListValue{Values: list}),
		}}}
	}
	f := &fake{
		t: t, sotw: sotw, node: node, deaf: make(map[string]bool), refuse: func(proto.Message) string { return "" },
		clusters: make(map[string]*clusterv3.Cluster), assignments: make(map[string]*endpointv3.ClusterLoadAssignment),
	}
	for k := range f.versions {
		f.versions[k] = make(map[string]string)
	}
	f.connect(client)
	return f
}

func (f *fake) connect(client discoveryv3.AggregatedDiscoveryServiceClient) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.t.Cleanup(cancel)
	f.end = cancel
	if f.sotw {
		f.speakSotW(ctx, client)
	} else {
		f.speakDelta(ctx, client)
	}
}

// again ends the stream, and returns the fake as it comes back on another one, with the
// resources that it has. It may not lose a domain then that it serves now.
func (f *fake) again(client discoveryv3.AggregatedDiscoveryServiceClient) *fake {
	f.t.Helper()
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	g := &fake{
		t: f.t, sotw: f.sotw, node: f.node, deaf: f.deaf, refuse: f.refuse, comesBack: true,
		clusters: maps.Clone(f.clusters), assignments: maps.Clone(f.assignments), routes: f.routes,
		named: slices.Clone(f.named), faults: f.faults,
	}
	for k := range f.versions {
		g.versions[k] = maps.Clone(f.versions[k])
	}
	for _, vh := range f.routes.GetVirtualHosts() {
		g.keeps = append(g.keeps, vh.GetName())
	}
	g.connect(client)
	return g
}

func refused(why string) *statuspb.Status {
	if why == "" {
		return nil
	}
	return &statuspb.Status{Code: 13, Message: why}
}

func (f *fake) speakSotW(ctx context.Context, client discoveryv3.AggregatedDiscoveryServiceClient) {
	s, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	wanted, last := [kinds][]string{}, [kinds]string{}
	f.send = func(k kind, nonce, refusal string, subscribe []string) error {
		if nonce == "" {
			nonce = last[k]
		}
		last[k] = nonce
		if k == eds {
			wanted[k] = f.named
		} else {
			wanted[k] = append(wanted[k], subscribe...)
		}
		return s.Send(&discoveryv3.DiscoveryRequest{
			Node: f.node, TypeUrl: typeURLs[k], ResponseNonce: nonce, ErrorDetail: refused(refusal), ResourceNames: wanted[k],
			VersionInfo: f.versions[k][""],
		})
	}
	f.next = func() (*response, []string, error) {
		m, err := s.Recv()
		if err != nil {
			return nil, nil, err
		}
		k, _ := kindOf(m.GetTypeUrl())
		r := &response{kind: k, nonce: m.GetNonce()}
		for _, a := range m.GetResources() {
			r.resources = append(r.resources, newResource("", 0, a.GetValue()))
		}
		return r, []string{m.GetVersionInfo()}, nil
	}
}

func (f *fake) speakDelta(ctx context.Context, client discoveryv3.AggregatedDiscoveryServiceClient) {
	s, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	wanted, asked := make(map[string]bool), [kinds]bool{}
	f.send = func(k kind, nonce, refusal string, subscribe []string) error {
		r := &discoveryv3.DeltaDiscoveryRequest{Node: f.node, TypeUrl: typeURLs[k], ResponseNonce: nonce, ErrorDetail: refused(refusal), ResourceNamesSubscribe: subscribe}
		if f.comesBack && !asked[k] {
			r.InitialResourceVersions = f.versions[k]
		}
		asked[k] = true
		if k == eds {
			for _, name := range f.named {
				if !wanted[name] {
					wanted[name] = true
					r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, name)
				}
			}
			for name := range wanted {
				if !slices.Contains(f.named, name) {
					delete(wanted, name)
					r.ResourceNamesUnsubscribe = append(r.ResourceNamesUnsubscribe, name)
				}
			}
		}
		return s.Send(r)
	}
	f.next = func() (*response, []string, error) {
		m, err := s.Recv()
		if err != nil {
			return nil, nil, err
		}
		k, _ := kindOf(m.GetTypeUrl())
		r := &response{kind: k, nonce: m.GetNonce(), removed: m.GetRemovedResources()}
		var texts []string
		for _, a := range m.GetResources() {
			r.resources = append(r.resources, newResource(a.GetName(), 0, a.GetResource().GetValue()))
			texts = append(texts, a.GetVersion())
		}
		return r, texts, nil
	}
}

// run asks for everything and answers until the stream ends.
func (f *fake) run() {
	go func() {
		for _, ask := range []struct {
			k     kind
			names []string
		}{{cds, nil}, {rds, []string{envoy.RouteConfigurationName}}} {
			if f.send(ask.k, "", "", ask.names) != nil {
				return
			}
		}
		if f.comesBack && f.send(eds, "", "", nil) != nil {
			return
		}
		for {
			r, texts, err := f.next()
			if err != nil {
				return
			}
			refusal, asks := f.take(r, texts)
			if f.send(r.kind, r.nonce, refusal, nil) != nil {
				return
			}
			if asks && f.send(eds, "", "", nil) != nil {
				return
			}
		}
	}()
}

// take applies a response, and records its versions if it is accepted. A real Envoy does
// both at once, too: it never comes back with a version of other resources than it has.
func (f *fake) take(r *response, texts []string) (refusal string, asks bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if refusal, asks = f.apply(r); refusal == "" {
		f.record(r, texts)
	}
	return refusal, asks
}

// record records the versions of a response. It is called with mu held.
func (f *fake) record(r *response, texts []string) {
	if f.sotw {
		f.versions[r.kind][""] = texts[0]
		return
	}
	for i, is := range r.resources {
		f.versions[r.kind][is.name] = texts[i]
	}
	for _, name := range r.removed {
		delete(f.versions[r.kind], name)
	}
}

// apply applies a response as Envoy does, and records as a fault what would harm a real
// Envoy. It is called with mu held.
func (f *fake) apply(r *response) (refusal string, asks bool) {
	f.received[r.kind]++
	f.resources[r.kind] += len(r.resources)
	switch r.kind {
	case cds:
		there := make(map[string]bool)
		var why []string
		for _, is := range r.resources {
			c := &clusterv3.Cluster{}
			f.decode(is, c)
			there[c.GetName()] = true
			if reason := f.refuse(c); reason != "" {
				why = append(why, c.GetName()+": "+reason)
				continue
			}
			f.clusters[c.GetName()] = c
		}
		removed := r.removed
		if f.sotw {
			for name := range f.clusters {
				if !there[name] {
					removed = append(removed, name)
				}
			}
		}
		for _, name := range removed {
			if f.names(name) {
				f.fault("cluster %s is removed while a route names it", name)
			}
			delete(f.clusters, name)
			delete(f.assignments, name)
		}
		f.named = nil
		for _, name := range slices.Sorted(maps.Keys(f.clusters)) {
			if !f.deaf[name] {
				f.named = append(f.named, name)
			}
		}
		if len(why) > 0 {
			refusal = "Error adding/updating cluster(s) " + strings.Join(why, ", ")
		}
		return refusal, true
	case eds:
		for _, is := range r.resources {
			a := &endpointv3.ClusterLoadAssignment{}
			f.decode(is, a)
			f.assignments[a.GetClusterName()] = a
		}
	case rds:
		rc := &routev3.RouteConfiguration{}
		f.decode(r.resources[0], rc)
		if reason := f.refuse(rc); reason != "" {
			return reason, false
		}
		f.routes = rc
		for _, domain := range f.keeps {
			if !slices.ContainsFunc(rc.GetVirtualHosts(), func(vh *routev3.VirtualHost) bool { return vh.GetName() == domain }) {
				f.fault("%s is not served any more", domain)
			}
		}
		for _, name := range namedBy(rc) {
			if f.assignments[name] == nil {
				f.fault("a route names cluster %s, which has no endpoints assigned", name)
			}
		}
	}
	return "", false
}

func (f *fake) decode(is resource, m proto.Message) {
	if err := proto.Unmarshal(is.content.Materialize(), m); err != nil {
		f.fault("%v", err)
	}
}

func (f *fake) fault(format string, arguments ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, arguments...))
}

func (f *fake) names(cluster string) bool {
	return f.routes != nil && slices.Contains(namedBy(f.routes), cluster)
}

func namedBy(rc *routev3.RouteConfiguration) []string {
	var all []string
	for _, vh := range rc.GetVirtualHosts() {
		for _, r := range vh.GetRoutes() {
			if name := r.GetRoute().GetCluster(); name != "" {
				all = append(all, name)
			}
			for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
				all = append(all, w.GetName())
			}
		}
	}
	return all
}

// locked reads what the fake has, under its lock.
func locked[T any](f *fake, read func() T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return read()
}

// split returns the clusters that share the requests of a domain, with their weights;
// empty without such a domain.
func (f *fake) split(domain string) string {
	return locked(f, func() string {
		for _, vh := range f.routes.GetVirtualHosts() {
			if vh.GetName() == domain {
				return splitOf(vh)
			}
		}
		return ""
	})
}

func splitOf(vh *routev3.VirtualHost) string {
	var all []string
	for _, r := range vh.GetRoutes() {
		if name := r.GetRoute().GetCluster(); name != "" {
			all = append(all, name)
		}
		for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
			all = append(all, fmt.Sprint(w.GetName(), "=", w.GetWeight().GetValue()))
		}
	}
	return strings.Join(all, " ")
}

// has waits until the fake has the route configuration of the world's table.
func (f *fake) has(w *world) {
	f.t.Helper()
	want := marshal(w.configuration())
	eventually(f.t, "the fake Envoy having everything", func() bool {
		return locked(f, func() bool { return f.routes != nil && string(marshal(f.routes)) == string(want) })
	})
}

// configuration is the route configuration that an Envoy of all namespaces should have.
func (w *world) configuration() *routev3.RouteConfiguration {
	var vhs []*routev3.VirtualHost
	for vh := range w.builder.Table().VirtualHosts(nil) {
		vhs = append(vhs, w.server.render.VirtualHost(vh))
	}
	if len(vhs) == 0 || vhs[0].GetName() != "*" {
		vhs = slices.Insert(vhs, 0, w.server.render.NoMatch())
	}
	return w.server.render.RouteConfiguration(vhs)
}

func (f *fake) check() {
	f.t.Helper()
	for _, fault := range locked(f, func() []string { return f.faults }) {
		f.t.Error(fault)
	}
}

// isHTTP2 tells whether Envoy speaks HTTP/2 to a cluster.
func isHTTP2(c *clusterv3.Cluster) bool {
	for _, a := range c.GetTypedExtensionProtocolOptions() {
		var options httpv3.HttpProtocolOptions
		if a.UnmarshalTo(&options) == nil && options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil {
			return true
		}
	}
	return false
}

func sorted(names string) string {
	all := strings.Fields(names)
	slices.Sort(all)
	return strings.Join(all, " ")
}

func onHost(host, prefix string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.Hosts, o.Spec.PathPrefixes = []string{host}, []string{prefix}
	}
}
