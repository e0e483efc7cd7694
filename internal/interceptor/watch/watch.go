package watch

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// Consumer receives each table, in order, from one goroutine. It must be quick: the
// next table waits for it.
type Consumer interface {
	// Update is called for the first table, whatever is in it, and then
	// whenever something changed; also now and then with the same table and no
	// changes, to see whether it returns.
	Update(table *routes.Table, changes routes.Changes)
}

// ConsumerFunc is a Consumer that is a function.
type ConsumerFunc func(table *routes.Table, changes routes.Changes)

// Update is part of Consumer.
func (f ConsumerFunc) Update(table *routes.Table, changes routes.Changes) { f(table, changes) }

// Options say what is watched, and what receives the tables.
type Options struct {
	// Namespace is the one to watch; empty for all.
	Namespace string
	// Policy is what tables are made by; routes.DefaultPolicy where it is zero.
	Policy routes.Policy
	// Consumers receive each table, one after the other.
	Consumers []Consumer
	// AddressService is a Service, in any namespace, whose addresses are passed to
	// OnAddresses; the zero value for none.
	AddressService types.NamespacedName
	// AddressPort is the name of a port of AddressService. If the Service has only one
	// port, that one is used, whatever its name.
	AddressPort string
	// OnAddresses is called with the ClusterIPs of AddressService, of all families, and
	// its port: before the first table, and then whenever they change. If there are
	// none, why says what is wrong with the Service. It is called by the goroutine that
	// calls the Consumers.
	OnAddresses func(addresses []netip.AddrPort, why string)
	// Renew is how often each watch is renewed, so that LastSeen follows what the API
	// server answers; whole seconds, 1 s or more. With 0 a watch lasts 5 to 10 minutes.
	Renew time.Duration
	Log   *slog.Logger
}

func (o *Options) policy() routes.Policy {
	if o.Policy == (routes.Policy{}) {
		return routes.DefaultPolicy()
	}
	return o.Policy
}

// addressApart tells whether AddressService is in a namespace that is not watched.
func (o *Options) addressApart() bool {
	a := o.AddressService
	return a.Name != "" && o.Namespace != "" && o.Namespace != a.Namespace
}

// Watch feeds a routing table from a cluster. It is a prometheus.Collector too.
type Watch struct {
	options   Options
	client    *client
	contact   *contact
	metrics   *metrics
	changes   chan change
	pulse     *pulse
	published atomic.Pointer[published]
}

// New makes a Watch. It makes no request, and fails only on an invalid configuration.
func New(config *rest.Config, options Options) (*Watch, error) {
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	m := newMetrics()
	changes := make(chan change, backlog)
	return &Watch{
		options: options, client: client, metrics: m, contact: newContact(options.Log, m),
		changes: changes, pulse: newPulse(changes, options.Log),
	}, nil
}

// Run watches until ctx ends. It is to be called once.
func (w *Watch) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range w.sources() {
		s.renew = w.options.Renew
		running.Go(func() { s.run(ctx, w.changes, w.contact) })
	}
	f := newFeed(&w.options, w.metrics)
	f.passes = &w.pulse.passes
	f.publish = w.published.Store
	f.run(ctx, w.changes)
	running.Wait()
}

// Healthy fails when changes have not got through for a minute: none becomes a table,
// or a Consumer does not return. It must be called at least every 15 s: of a longer
// time between two calls, only 15 s count. It does not fail because the API server does
// not answer: the last table is served then. It never waits.
func (w *Watch) Healthy() error { return w.pulse.check() }

// LastSeen returns when the API server last granted the watch that was granted longest
// ago, of those that tables are made of. Everything that the API server sent before has
// got through to the Consumers. It is zero until all have been granted.
func (w *Watch) LastSeen() time.Time {
	if s := w.published.Load(); s != nil {
		return s.at
	}
	return time.Time{}
}

// ServiceEndpoints returns the addresses in the EndpointSlices of AddressService, of pods
// that are ready and of others. They may not be changed.
func (w *Watch) ServiceEndpoints() []netip.Addr {
	if s := w.published.Load(); s != nil {
		return s.endpoints
	}
	return nil
}

// Limits is for a usage.Collector: the matches of the namespace that has most.
func (w *Watch) Limits() []usage.Limit {
	matches := 0
	if s := w.published.Load(); s != nil {
		matches = s.matches
	}
	return []usage.Limit{{Name: "max-matches-per-namespace", Used: float64(matches), Max: float64(w.options.policy().MaxMatchesPerNamespace)}}
}

func (w *Watch) sources() []*source {
	o := &w.options
	sources := []*source{
		w.client.httpScaledObjects(o.Namespace),
		w.client.services(o.Namespace),
		w.client.endpointSlices(o.Namespace),
	}
	if o.addressApart() {
		sources = append(sources, w.client.addresses(o.AddressService), w.client.addressSlices(o.AddressService))
	}
	return sources
}

// The resources, as people and RBAC name them.
var (
	serviceResource       = corev1.SchemeGroupVersion.WithResource("services")
	endpointSliceResource = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

// one returns the field selector of the object with this name.
func one(name string) string { return fields.OneTermEqualSelector("metadata.name", name).String() }

// Describe is part of prometheus.Collector.
func (w *Watch) Describe(descs chan<- *prometheus.Desc) { w.metrics.describe(descs) }

// Collect is part of prometheus.Collector.
func (w *Watch) Collect(collected chan<- prometheus.Metric) { w.metrics.collect(collected) }
