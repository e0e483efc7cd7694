package xds

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// scope is what Envoys with the same namespaces have in common: which objects they
// get, and the resources, which are made for the first of them and reused for the
// others. It does not say what any Envoy has.
type scope struct {
	server     *Server
	key        string
	namespaces routes.Namespaces
	streams    int // guarded by Server.mu

	mu sync.Mutex
	// hosts are the virtual hosts that were made last, by domain.
	hosts map[string]*host
	// built is the route configuration that was made last; nil when no stream sends it.
	built *configuration
}

// configuration is a route configuration as it is sent.
type configuration struct {
	version version
	content []byte
	senders int
}

func (s *scope) has(object types.NamespacedName) bool {
	return s.namespaces.HasObject(object)
}

func (s *scope) hasCluster(name string) bool {
	object, _, ok := routes.ParseClusterName(name)
	return ok && s.has(object)
}

// host returns the virtual host of a domain in a stream's table; nil when there is
// none. An error is a panic while it was made; over are the objects that cause the panic
// on their own. The virtual host is kept for other streams if it is that of the current
// table too: a virtual host that only one Envoy has goes with its stream.
func (s *scope) host(table, current *routes.Table, domain string) (h *host, over []types.NamespacedName, err error) {
	vh, found := table.VirtualHost(domain, s.namespaces)
	s.mu.Lock()
	made := s.hosts[domain]
	if !found {
		delete(s.hosts, domain)
	}
	s.mu.Unlock()
	if !found {
		return nil, nil, nil
	}
	if made != nil && made.isOf(vh) {
		return made, nil, nil
	}
	if err := attempt(func() error { h = s.server.host(vh); return nil }); err != nil {
		return nil, s.server.panicsOver(vh), err
	}
	s.server.metrics.rendered.Inc()
	if slices.ContainsFunc(vh.Matches, func(m routes.Match) bool { return m.Route != current.Route(m.Route.Name) }) {
		return h, nil, nil
	}
	s.mu.Lock()
	s.hosts[domain] = h
	s.mu.Unlock()
	return h, nil, nil
}

// sendConfiguration calls send with the route configuration of these virtual hosts.
// Streams that send it at the same time share it. It is dropped after the last of them:
// with ten thousand hosts it has 10 MB.
func (s *scope) sendConfiguration(v version, hosts []*host, send func(content []byte) error) error {
	c := s.acquire(v, hosts)
	defer s.release(c)
	return send(c.content)
}

func (s *scope) acquire(v version, hosts []*host) *configuration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built == nil || s.built.version != v {
		size := len(s.server.envelope)
		for _, h := range hosts {
			size += len(h.field)
		}
		content := append(make([]byte, 0, size), s.server.envelope...)
		for _, h := range hosts {
			content = append(content, h.field...)
		}
		s.built = &configuration{version: v, content: content}
	}
	s.built.senders++
	return s.built
}

func (s *scope) release(c *configuration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.senders--; c.senders == 0 && s.built == c {
		s.built = nil
	}
}
