package xds

import (
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// virtualHostsField is the number of RouteConfiguration.virtual_hosts.
const virtualHostsField = 2

// host is a virtual host, ready to be sent. It is immutable.
type host struct {
	vh      routes.VirtualHost
	version version
	// field is the virtual host as it stands in a RouteConfiguration.
	field mem.Buffer
	// clusters are the names of the clusters that it routes to, each once.
	clusters []string
}

func (r *renderer) host(vh routes.VirtualHost) *host {
	content := marshal(r.VirtualHost(vh))
	field := protowire.AppendTag(make([]byte, 0, len(content)+5), virtualHostsField, protowire.BytesType)
	h := &host{vh: vh, version: versionOf(content), field: mem.SliceBuffer(protowire.AppendBytes(field, content))}
	for _, m := range vh.Matches {
		for i := range m.Route.Backends {
			if name := m.Route.Backends[i].Cluster; !slices.Contains(h.clusters, name) {
				h.clusters = append(h.clusters, name)
			}
		}
	}
	return h
}

// isOf tells whether the virtual host was made of the same matches as vh has.
func (h *host) isOf(vh routes.VirtualHost) bool {
	return slices.EqualFunc(h.vh.Matches, vh.Matches, routes.Match.Equal)
}

// sameRouting tells whether two forms of an object, nil for none, are the same to
// an Envoy's virtual hosts.
func sameRouting(a, b *routes.Route) bool {
	change := routes.RouteChange{Before: a, After: b}
	return a == b || !change.Rerouted()
}
