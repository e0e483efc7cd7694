// Package loadbalancer gives Services of type LoadBalancer addresses of a range that
// is local to the sandbox's node. Connections to such an address are handled by the
// service proxy, which reads the address from the Service's status.
package loadbalancer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

const (
	// requestTimeout bounds one request to the API server.
	requestTimeout = 10 * time.Second
	// retryAfter is the pause before a status that could not be written is tried
	// again.
	retryAfter = time.Second
)

// Controller writes addresses to the status of Services. Use New.
type Controller struct {
	client   kubernetes.Interface
	events   record.EventRecorder
	log      *slog.Logger
	services corelisters.ServiceLister
	synced   cache.InformerSynced
	changed  chan struct{} // holds one at most
	addresses
	// said is, for each Service, the last refusal that was reported in an Event.
	said map[types.UID]string
}

// New watches Services by factory, which the caller starts afterwards, and gives
// out the IPv4 addresses of cidr but those that end in 0 or 255.
func New(factory informers.SharedInformerFactory, client kubernetes.Interface, cidr netip.Prefix,
	events record.EventRecorder, log *slog.Logger,
) (*Controller, error) {
	addresses, err := newAddresses(cidr)
	if err != nil {
		return nil, fmt.Errorf("load balancer: %w", err)
	}
	services := factory.Core().V1().Services()
	c := &Controller{
		client: client, events: events, log: log, services: services.Lister(),
		changed: make(chan struct{}, 1), addresses: addresses, said: map[types.UID]string{},
	}
	registration, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.kick() }, UpdateFunc: func(any, any) { c.kick() }, DeleteFunc: func(any) { c.kick() },
	})
	if err != nil {
		return nil, fmt.Errorf("load balancer: watch Services: %w", err)
	}
	c.synced = registration.HasSynced
	return c, nil
}

func (c *Controller) kick() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run assigns and releases addresses until ctx ends. Services then keep theirs.
func (c *Controller) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot write load balancer addresses; trying again", "err", err)
			time.AfterFunc(retryAfter, c.kick)
		}
	}
}

// reconcile looks at all Services: which addresses are free depends on all of
// them, and there are few.
func (c *Controller) reconcile(ctx context.Context) error {
	list, err := c.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	// In the order of their creation, so that a Service that has an address keeps it.
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var mine []*corev1.Service
	known := map[types.UID]bool{}
	for _, service := range list {
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			known[service.UID] = true
			if service.Spec.LoadBalancerClass == nil {
				mine = append(mine, service)
			}
		}
	}
	c.forget(known)
	for uid := range c.said {
		if !known[uid] {
			delete(c.said, uid)
		}
	}
	// Addresses that Services have come before those that Services ask for.
	for _, service := range mine {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ip, err := netip.ParseAddr(ingress.IP); err == nil {
				c.adopt(service.UID, ip)
			}
		}
	}
	var failed error
	for _, service := range list {
		failed = errors.Join(failed, c.reconcileOne(ctx, service))
	}
	return failed
}

func (c *Controller) reconcileOne(ctx context.Context, service *corev1.Service) error {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if slices.ContainsFunc(service.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return c.contains(i.IP) }) {
			return c.write(ctx, service, nil)
		}
		return nil
	}
	if class := service.Spec.LoadBalancerClass; class != nil {
		c.refuse(service, "UnsupportedLoadBalancerClass", fmt.Errorf(
			"spec.loadBalancerClass %q: the sandbox gives addresses to Services without a class only; leave the field out, or run a controller of that class", *class))
		return nil
	}
	ip, err := c.assign(service.UID, service.Spec.LoadBalancerIP)
	if err != nil {
		c.refuse(service, "LoadBalancerAddress", err)
	} else {
		delete(c.said, service.UID)
	}
	if !ip.IsValid() {
		return nil
	}
	want := []corev1.LoadBalancerIngress{{IP: ip.String()}}
	have := service.Status.LoadBalancer.Ingress
	if len(have) == 1 && have[0].IP == want[0].IP && have[0].Hostname == "" {
		return nil
	}
	return c.write(ctx, service, want)
}

// refuse reports in an Event, once, why a Service does not get what it asks for.
func (c *Controller) refuse(service *corev1.Service, reason string, err error) {
	if c.said[service.UID] == err.Error() {
		return
	}
	c.said[service.UID] = err.Error()
	c.events.Event(service, corev1.EventTypeWarning, reason, err.Error())
}

func (c *Controller) write(ctx context.Context, service *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	// The UID makes sure that it is this Service and not another of the same name.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": ingress}},
	})
	if err != nil {
		return fmt.Errorf("Service %s/%s: encode the status: %w", service.Namespace, service.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = c.client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // The watch is about to say that it has gone.
	}
	if err != nil {
		return fmt.Errorf("status of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	if len(ingress) > 0 {
		c.events.Event(service, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer at "+ingress[0].IP)
	}
	return nil
}
