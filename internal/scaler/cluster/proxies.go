package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// settling is how long a new scaler only listens, so that it has seen enough to divide by.
const settling = 10 * time.Second

// Streams are those of interceptors, see package streams.
type Streams interface {
	Set(interceptors []string)
	Tried() bool
}

// Proxies tells figures and streams which proxies there are.
type Proxies struct {
	Cache   cache.Cache
	Figures *figures.Figures
	Streams Streams
	// Interceptors is the Service of the interceptors' admin ports, and Port their number.
	Interceptors client.ObjectKey
	Port         uint16

	began atomic.Pointer[time.Time]
	ready atomic.Bool
}

// Start follows the EndpointSlices of a synced cache until the context is done.
func (p *Proxies) Start(ctx context.Context) error {
	informer, err := p.Cache.GetInformer(ctx, &discoveryv1.EndpointSlice{})
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is still to be read
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	}); err != nil {
		return err
	}
	for {
		if err := p.update(ctx); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Proxies) update(ctx context.Context) error {
	var list discoveryv1.EndpointSliceList
	if err := p.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	found := read(list.Items, p.Interceptors, p.Port)
	p.Figures.SetExpected(found.ready, found.kedifyProxies)
	p.Streams.Set(found.interceptors)
	if p.began.Load() == nil {
		now := time.Now()
		p.began.Store(&now)
	}
	return nil
}

// Ready returns an error until each interceptor's stream has been tried, and figures have
// been collected for 10 s. From then on it returns nil: figures tell of a proxy that is
// missing later.
func (p *Proxies) Ready() error {
	if p.ready.Load() {
		return nil
	}
	began := p.began.Load()
	switch {
	case began == nil:
		return errors.New("this scaler has not read the EndpointSlices of interceptors yet: try again")
	case time.Since(*began) < settling:
		return fmt.Errorf("this scaler has started %v ago, and knows rates after %v: try again", time.Since(*began).Round(time.Second), settling)
	case !p.Streams.Tried():
		return errors.New("this scaler has not reached all interceptors yet: try again")
	}
	p.ready.Store(true)
	return nil
}

// found are the proxies in EndpointSlices.
type found struct {
	interceptors  []string // host:port
	ready         []string // those of them that are ready
	kedifyProxies map[string][]string
}

// read returns the proxies of EndpointSlices. An interceptor that is not ready may be one
// that has lost the API server, and still gets the reports of kedify-proxies.
func read(endpointSlices []discoveryv1.EndpointSlice, interceptors client.ObjectKey, port uint16) found {
	all, ready := make(pods), make(pods)
	namespaces := make(map[string]bool)
	for _, s := range endpointSlices {
		of := client.ObjectKey{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		if of.Name == kedifyProxyService {
			namespaces[of.Namespace] = true
		}
		for _, e := range s.Endpoints {
			all.add(of, s.AddressType, e.Addresses)
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready.add(of, s.AddressType, e.Addresses)
			}
		}
	}
	f := found{
		interceptors: withPort(all.of(interceptors), port), ready: withPort(ready.of(interceptors), port),
		kedifyProxies: make(map[string][]string),
	}
	for namespace := range namespaces {
		if addresses := ready.of(client.ObjectKey{Namespace: namespace, Name: kedifyProxyService}); len(addresses) > 0 {
			f.kedifyProxies[namespace] = addresses
		}
	}
	return f
}

// pods are the addresses of Services' pods.
type pods map[family][]string

// family is a Service with one kind of addresses.
type family struct {
	service client.ObjectKey
	kind    discoveryv1.AddressType
}

func (p pods) add(service client.ObjectKey, kind discoveryv1.AddressType, addresses []string) {
	if len(addresses) > 0 { // more than one are of the same pod
		p[family{service, kind}] = append(p[family{service, kind}], addresses[0])
	}
}

// of returns the address of each pod of a Service once: if it has two, the one of IPv4. A
// kedify-proxy is expected to report from it.
func (p pods) of(service client.ObjectKey) []string {
	addresses := p[family{service, discoveryv1.AddressTypeIPv4}]
	if len(addresses) == 0 {
		addresses = p[family{service, discoveryv1.AddressTypeIPv6}]
	}
	return slices.Compact(slices.Sorted(slices.Values(addresses)))
}

func withPort(addresses []string, port uint16) []string {
	for i, address := range addresses {
		addresses[i] = net.JoinHostPort(address, strconv.Itoa(int(port)))
	}
	return addresses
}
