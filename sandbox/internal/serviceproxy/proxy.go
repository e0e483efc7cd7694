// Package serviceproxy makes Services reachable, as kube-proxy does: it listens on
// every ClusterIP, load balancer address and port in the node's network namespace,
// where the whole ranges of these addresses are local, and on node ports of the
// node's address, and forwards each connection to a ready endpoint.
package serviceproxy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// retryAfter is the delay before another attempt to listen on a Service's address.
const retryAfter = 2 * time.Second

// Proxy forwards connections to Services. Use New.
type Proxy struct {
	log      *slog.Logger
	node     Node
	events   record.EventRecorder
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	synced   []cache.InformerSynced
	queue    workqueue.TypedInterface[string]

	mu    sync.Mutex
	state map[string]map[frontend]listener // by Service, "namespace/name"
	said  map[string]string                // by Service; the faults that its last Event names
}

// Node is where the proxy runs.
type Node struct {
	Name string
	IP   netip.Addr // answers on node ports
}

// listener serves one frontend.
type listener interface {
	// update changes where new connections go.
	update(backends)
	// close stops accepting. Connections made before go on.
	close()
}

// New watches Services and EndpointSlices by factory, which the caller starts
// afterwards. A Service that asks for something that the proxy does not support
// gets an Event.
func New(factory informers.SharedInformerFactory, node Node, events record.EventRecorder, log *slog.Logger) (*Proxy, error) {
	services := factory.Core().V1().Services()
	endpointSlices := factory.Discovery().V1().EndpointSlices()
	p := &Proxy{
		log:      log,
		node:     node,
		events:   events,
		services: services.Lister(),
		slices:   endpointSlices.Lister(),
		queue:    workqueue.NewTyped[string](),
		state:    map[string]map[frontend]listener{},
		said:     map[string]string{},
	}
	s, err := services.Informer().AddEventHandler(handler(p.enqueue))
	if err != nil {
		return nil, fmt.Errorf("service proxy: watch Services: %w", err)
	}
	e, err := endpointSlices.Informer().AddEventHandler(handler(func(object any) {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			p.queue.Add(slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName])
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("service proxy: watch EndpointSlices: %w", err)
	}
	p.synced = []cache.InformerSynced{s.HasSynced, e.HasSynced}
	return p, nil
}

func handler(f func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    f,
		UpdateFunc: func(_, object any) { f(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			f(object)
		},
	}
}

func (p *Proxy) enqueue(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		p.queue.Add(key)
	}
}

// Run forwards until ctx ends, and then closes all listeners and connections.
func (p *Proxy) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), p.synced...) {
		return
	}
	stop := context.AfterFunc(ctx, p.queue.ShutDown)
	defer stop()
	for {
		key, shutdown := p.queue.Get()
		if shutdown {
			break
		}
		p.sync(ctx, key)
		p.queue.Done(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, listeners := range p.state {
		for _, l := range listeners {
			l.close()
		}
	}
	clear(p.state)
}

func (p *Proxy) sync(ctx context.Context, key string) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	want := map[frontend]backends{}
	var faults []string
	service, err := p.services.Services(namespace).Get(name)
	switch {
	case err == nil:
		selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name})
		endpointSlices, err := p.slices.EndpointSlices(namespace).List(selector)
		if err != nil {
			p.log.Error("list EndpointSlices", "service", key, "err", err)
			return
		}
		want = frontends(service, endpointSlices, p.node)
		faults = unsupported(service)
	case !apierrors.IsNotFound(err):
		p.log.Error("get Service", "service", key, "err", err)
		return
	}
	faults = append(faults, p.apply(ctx, key, want)...)
	p.report(key, service, faults)
}

// report emits an Event with the faults of a Service whenever they change.
func (p *Proxy) report(key string, service *corev1.Service, faults []string) {
	slices.Sort(faults)
	text := strings.Join(faults, "; ")
	if text == "" {
		delete(p.said, key)
		return
	}
	if p.said[key] != text {
		p.said[key] = text
		p.events.Event(service, corev1.EventTypeWarning, "ServiceProxy", text)
	}
}

// unsupported lists the features that a Service asks for and the proxy does not
// have.
func unsupported(service *corev1.Service) []string {
	var faults []string
	if ips := service.Spec.ExternalIPs; len(ips) > 0 {
		faults = append(faults, fmt.Sprintf("spec.externalIPs %s: the sandbox carries no connections to them; use a Service of type LoadBalancer", strings.Join(ips, ", ")))
	}
	for _, port := range service.Spec.Ports {
		if port.Protocol == corev1.ProtocolSCTP {
			faults = append(faults, fmt.Sprintf("spec.ports: port %d: the sandbox carries TCP and UDP, not SCTP", port.Port))
		}
	}
	return faults
}

// apply opens, updates and closes listeners until they match want. It returns a
// fault for each address that it cannot listen on; these are tried again. A
// frontend without endpoints has no listener, so that the kernel refuses
// connections.
func (p *Proxy) apply(ctx context.Context, key string, want map[frontend]backends) (faults []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.state[key]
	if have == nil {
		have = map[frontend]listener{}
		p.state[key] = have
	}
	for f, l := range have {
		if len(want[f].endpoints) == 0 {
			l.close()
			delete(have, f)
			p.log.Debug("closed", "service", key, "protocol", f.protocol, "address", f.address)
		}
	}
	for f, b := range want {
		if len(b.endpoints) == 0 {
			continue
		}
		if l, ok := have[f]; ok {
			l.update(b)
			continue
		}
		l, err := listen(ctx, f, b, p.log.With("service", key))
		if err != nil {
			p.log.Warn("cannot listen; trying again", "service", key, "protocol", f.protocol, "address", f.address, "err", err)
			faults = append(faults, fmt.Sprintf("cannot listen on %s %s: %v; trying again", f.protocol, f.address, reason(err)))
			time.AfterFunc(retryAfter, func() { p.queue.Add(key) })
			continue
		}
		have[f] = l
		p.log.Debug("listening", "service", key, "protocol", f.protocol, "address", f.address, "endpoints", len(b.endpoints))
	}
	if len(have) == 0 {
		delete(p.state, key)
	}
	return faults
}

// reason is the system's error alone: the text before it repeats the address.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

// weight is the rendezvous hash of a client and an endpoint.
func weight(client netip.Addr, endpoint netip.AddrPort) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(client.String() + " " + endpoint.String()))
	return h.Sum64()
}
