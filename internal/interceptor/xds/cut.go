package xds

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// virtualHostsField is the number of RouteConfiguration.virtual_hosts.
const virtualHostsField = 2

// host is a virtual host, ready to be sent. It is immutable.
type host struct {
	vh      routes.VirtualHost
	version version
	// field is the virtual host as it stands in a RouteConfiguration.
	field []byte
	// clusters are those that it names, each once.
	clusters []string
}

func (r *renderer) host(vh routes.VirtualHost) *host {
	content := marshal(r.VirtualHost(vh))
	field := protowire.AppendTag(make([]byte, 0, len(content)+5), virtualHostsField, protowire.BytesType)
	h := &host{vh: vh, version: versionOf(content), field: protowire.AppendBytes(field, content)}
	for _, m := range vh.Matches {
		for i := range m.Route.Backends {
			if name := m.Route.Backends[i].Cluster; !slices.Contains(h.clusters, name) {
				h.clusters = append(h.clusters, name)
			}
		}
	}
	return h
}

// isOf tells whether the virtual host is made of the same as another would be.
func (h *host) isOf(vh routes.VirtualHost) bool {
	return slices.EqualFunc(h.vh.Matches, vh.Matches, func(a, b routes.Match) bool {
		return a.PathPrefix == b.PathPrefix && slices.Equal(a.Headers, b.Headers) && sameRouting(a.Route, b.Route)
	})
}

// sameRouting tells whether two forms of an object, nil for none, are the same to
// an Envoy's virtual hosts.
func sameRouting(a, b *routes.Route) bool {
	change := routes.RouteChange{Before: a, After: b}
	return a == b || !change.Rerouted()
}

// cut is what Envoys with the same namespaces have in common: which objects they
// get, and the work of making resources, which the first of them does for the
// others. It says nothing of what any of them has.
type cut struct {
	server     *Server
	key        string
	namespaces map[string]bool // nil for all
	streams    int             // guarded by Server.mu

	mu sync.Mutex
	// hosts are the virtual hosts that were made last, by domain.
	hosts map[string]*host
	// built is the route configuration that was made last.
	built struct {
		version version
		content []byte
	}
}

func (c *cut) has(object types.NamespacedName) bool {
	return c.namespaces == nil || c.namespaces[object.Namespace]
}

func (c *cut) hasCluster(name string) bool {
	object, _, ok := routes.ParseClusterName(name)
	return ok && c.has(object)
}

// host returns the virtual host of a domain in a table; nil when there is none.
func (c *cut) host(table *routes.Table, domain string) *host {
	vh, found := table.VirtualHost(domain, c.has)
	c.mu.Lock()
	made := c.hosts[domain]
	if !found {
		delete(c.hosts, domain)
	}
	c.mu.Unlock()
	if !found {
		return nil
	}
	if made != nil && made.isOf(vh) {
		return made
	}
	h := c.server.render.host(vh)
	c.mu.Lock()
	c.hosts[domain] = h
	c.mu.Unlock()
	return h
}

// configuration returns the route configuration of these virtual hosts.
func (c *cut) configuration(v version, hosts []*host) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.built.version == v {
		return c.built.content
	}
	size := len(c.server.envelope)
	for _, h := range hosts {
		size += len(h.field)
	}
	content := append(make([]byte, 0, size), c.server.envelope...)
	for _, h := range hosts {
		content = append(content, h.field...)
	}
	c.built.version, c.built.content = v, content
	return content
}
