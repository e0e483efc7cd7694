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
	interceptors  []string            // host:port
	ready         []string            // those of them that are ready
	kedifyProxies map[string][]string // of a namespace, see figures.SetExpected
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
			if len(e.Addresses) == 0 {
				continue
			}
			name := e.Addresses[0] // any other is of the same pod
			if pod := e.TargetRef; of.Name == kedifyProxyService && pod != nil && pod.Kind == "Pod" {
				name = s.Namespace + "/" + pod.Name
			}
			all.add(of, s.AddressType, name)
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready.add(of, s.AddressType, name)
			}
		}
	}
	f := found{
		interceptors: withPort(all.of(interceptors), port), ready: withPort(ready.of(interceptors), port),
		kedifyProxies: make(map[string][]string),
	}
	for namespace := range namespaces {
		if names := ready.of(client.ObjectKey{Namespace: namespace, Name: kedifyProxyService}); len(names) > 0 {
			f.kedifyProxies[namespace] = names
		}
	}
	return f
}

// pods are the pods of Services: interceptors by address, kedify-proxies by name.
type pods map[family][]string

// family is a Service with one kind of addresses.
type family struct {
	service client.ObjectKey
	kind    discoveryv1.AddressType
}

func (p pods) add(service client.ObjectKey, kind discoveryv1.AddressType, name string) {
	p[family{service, kind}] = append(p[family{service, kind}], name)
}

// of returns each pod of a Service once: if it has two addresses, by that of IPv4.
func (p pods) of(service client.ObjectKey) []string {
	names := p[family{service, discoveryv1.AddressTypeIPv4}]
	if len(names) == 0 {
		names = p[family{service, discoveryv1.AddressTypeIPv6}]
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func withPort(addresses []string, port uint16) []string {
	for i, address := range addresses {
		addresses[i] = net.JoinHostPort(address, strconv.Itoa(int(port)))
	}
	return addresses
}
