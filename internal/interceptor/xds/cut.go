package xds

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

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

// cut is what all Envoys with the same namespaces get. It is brought up to date
// by whichever of their streams is first to ask.
type cut struct {
	server     *Server
	key        string
	namespaces map[string]bool // nil for all
	streams    int             // guarded by Server.mu

	mu    sync.RWMutex
	place uint64 // in the journal
	begun bool
	hosts map[string]*host // by domain
	// built is the route configuration that was made last: streams in step
	// with one another share it.
	built struct {
		version version
		content []byte
	}
}

func (c *cut) has(namespace string) bool {
	return c.namespaces == nil || c.namespaces[namespace]
}

func (c *cut) hasCluster(name string) bool {
	object, _, ok := routes.ParseClusterName(name)
	return ok && c.has(object.Namespace)
}

// refresh brings the virtual hosts up to date.
func (c *cut) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.server.look(c.place)
	if !c.begun || !now.complete {
		c.hosts = make(map[string]*host)
		for _, domain := range now.table.Domains() {
			c.render(domain, now)
		}
	} else {
		done := make(map[string]bool)
		for _, changed := range now.changes {
			if changed.kind == aDomain && !done[changed.name] {
				done[changed.name] = true
				c.render(changed.name, now)
			}
		}
	}
	c.begun, c.place = true, now.place
}

func (c *cut) render(domain string, now view) {
	vh, found := now.refusals.virtualHost(now.table, domain, func(object types.NamespacedName) bool { return c.has(object.Namespace) })
	if !found {
		delete(c.hosts, domain)
		return
	}
	h := c.server.render.host(vh)
	if before := c.hosts[domain]; before == nil || before.version != h.version {
		c.hosts[domain] = h
	}
}

// host returns the virtual host of a domain; nil when there is none.
func (c *cut) host(domain string) *host {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.hosts[domain]
}

func (c *cut) domains() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]string, 0, len(c.hosts))
	for domain := range c.hosts {
		all = append(all, domain)
	}
	return all
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
