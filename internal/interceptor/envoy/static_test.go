package envoy

import (
	"net/netip"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// resources are all that an Envoy gets for a table.
type resources struct {
	clusters  []*clusterv3.Cluster
	endpoints []*endpointv3.ClusterLoadAssignment
	routes    *routev3.RouteConfiguration
	listeners []*listenerv3.Listener
}

// newTranslator makes a Translator with the Connections of the embedded proxy where the
// options have none.
func newTranslator(t testing.TB, o Options) *Translator {
	t.Helper()
	defaultTo(&o.Connections, asEmbedded())
	return NewTranslator(o)
}

func translate(tr *Translator, table *routes.Table, fallback []netip.AddrPort) resources {
	r := resources{listeners: tr.Listeners()}
	for route := range table.Routes() {
		for i := range route.Backends {
			r.clusters = append(r.clusters, tr.Cluster(&route.Backends[i]))
			r.endpoints = append(r.endpoints, tr.Endpoints(&route.Backends[i], Fallback{Addresses: fallback}))
		}
	}
	var hosts []*routev3.VirtualHost
	for vh := range table.VirtualHosts(nil) {
		hosts = append(hosts, tr.VirtualHost(vh))
	}
	if !slices.Contains(table.Domains(), "*") {
		hosts = append(hosts, tr.NoMatch())
	}
	r.routes = tr.RouteConfiguration(hosts)
	return r
}

// static returns a bootstrap that contains what an interceptor would send, on free ports.
func static(t testing.TB, tr *Translator, table *routes.Table, fallback []netip.AddrPort) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{
		Admin:           &bootstrapv3.Admin{Address: socket(netip.MustParseAddrPort("127.0.0.1:0"))},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{},
	}
	r := translate(tr, table, fallback)
	for i, c := range r.clusters {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.EdsClusterConfig = nil
		c.LoadAssignment = r.endpoints[i]
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	l := r.listeners[0]
	l.Address = socket(netip.MustParseAddrPort("127.0.0.1:0"))
	manager := new(hcmv3.HttpConnectionManager)
	if err := l.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: r.routes}
	l.FilterChains[0].Filters[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)}
	b.StaticResources.Listeners = []*listenerv3.Listener{l}
	return b
}
