package xds

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// hostCache has the virtual hosts that streams use. Equal ones are made once, and shared by
// all streams, whatever their namespaces are. The cache keeps none alive.
type hostCache struct {
	mu       sync.Mutex
	byDomain map[string][]weak.Pointer[host]
}

// of returns the virtual host that was made of the same matches; nil for none.
func (c *hostCache) of(vh routes.VirtualHost) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pointer := range c.byDomain[vh.Domain] {
		if h := pointer.Value(); h != nil && h.isOf(vh) {
			return h
		}
	}
	return nil
}

func (c *hostCache) add(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	domain := h.vh.Domain
	c.byDomain[domain] = append(c.byDomain[domain], weak.Make(h))
	runtime.AddCleanup(h, c.clean, domain)
}

// clean drops the virtual hosts of a domain that no stream uses any more.
func (c *hostCache) clean(domain string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(c.byDomain[domain], func(p weak.Pointer[host]) bool { return p.Value() == nil })
	if len(left) == 0 {
		delete(c.byDomain, domain)
	} else {
		c.byDomain[domain] = left
	}
}

// virtualHost returns the virtual host of a domain in a stream's table; nil when there is
// none. An error is a panic while it was made; over are the objects that cause the panic
// on their own.
func (st *stream) virtualHost(table *routes.Table, domain string) (h *host, over []types.NamespacedName, err error) {
	vh, found := table.VirtualHost(domain, st.namespaces)
	if !found {
		return nil, nil, nil
	}
	if made := st.server.hosts.of(vh); made != nil {
		return made, nil, nil
	}
	if err := attempt(func() error { h = st.server.host(vh); return nil }); err != nil {
		return nil, st.server.panicsOver(vh), err
	}
	st.server.metrics.rendered.Inc()
	st.server.hosts.add(h)
	return h, nil, nil
}
