package ingress

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/trigger"
)

// namespace is what the paths of a namespace's Ingresses are decided by.
type namespace struct {
	objects []httpv1alpha1.HTTPScaledObject
	rules   ordered
	// paths are those of all Ingresses, by class: a controller serves the Ingresses of one.
	paths map[string][]requests
	// ready returns nil if an object's requests may be sent to kedify-proxy now, else why not.
	ready func(*httpv1alpha1.HTTPScaledObject) error
	// proxiesGone tells that there is no kedify-proxy any more.
	proxiesGone bool
	// samePort tells whether two ports of a Service are one, a name and a number say.
	samePort func(service string, a, b networkingv1.ServiceBackendPort) bool
}

// decision is what becomes of an Ingress.
type decision struct {
	changes []change
	record  record
	// wired are HTTPScaledObjects with a path that points at kedify-proxy already, notWired
	// those with one that is to, and why it does not.
	wired    []string
	notWired map[string]string
	// partly says of paths that fit an HTTPScaledObject in part what is in the way.
	partly map[string][]string
	// rewritten are the HTTPScaledObjects whose paths somebody has written back, and which
	// are pointed at kedify-proxy again.
	rewritten []string
	// later are the backends that wired paths get when they are put back.
	later []*networkingv1.IngressServiceBackend
}

func newDecision() *decision {
	return &decision{notWired: make(map[string]string), partly: make(map[string][]string)}
}

var errUndefined = errors.New("its pathType leaves to the controller which requests it admits: set it to Prefix or Exact")

// change is a backend that a path gets.
type change struct {
	rule, path int
	where      string // for people
	object     string
	backend    *networkingv1.IngressServiceBackend
}

// withoutWiring returns a decision that only puts back.
func (d *decision) withoutWiring(before record) *decision {
	less := *d
	for _, c := range d.changes {
		if c.toProxy() {
			less.notWired[c.object] = "the API server refuses to have an Ingress point at kedify-proxy: the Event NotWritten on the Ingress says why"
		}
	}
	less.changes = slices.DeleteFunc(slices.Clone(d.changes), change.toProxy)
	less.record = slices.DeleteFunc(slices.Clone(d.record), func(w wiredPath) bool { return !slices.Contains(before, w) })
	less.rewritten = nil
	return &less
}

// toProxy tells whether a change points at kedify-proxy.
func (c change) toProxy() bool { return c.backend.Name == agent.ProxyService }

// decide compares the paths of an Ingress with what they should be. before is what the agent
// has written down about it. An Ingress that is left alone, for a reason, is only put back.
func (n *namespace) decide(i *networkingv1.Ingress, before record, leftAlone error) *decision {
	d, moved := newDecision(), before.without(i)
	for r, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for p, path := range rule.HTTP.Paths {
			if path.Backend.Service != nil {
				at := change{rule: r, path: p, where: fmt.Sprintf("path %s of host %s", path.Path, orAny(rule.Host))}
				n.decidePath(d, at, n.paths[classOf(i)], rule.Host, path, before, &moved, leftAlone)
			}
		}
	}
	return d
}

func (n *namespace) decidePath(d *decision, at change, paths []requests, host string, path networkingv1.HTTPIngressPath, before record, moved *record, leftAlone error) {
	var was *wiredPath
	if e := before.find(host, path); e >= 0 {
		was = &before[e]
	}
	q, defined := requestsOf(host, path)
	if isProxy(path.Backend) {
		if was == nil && path.PathType != nil {
			was = moved.take(host, path)
		}
		n.decideWired(d, at, paths, q, defined, was)
		return
	}
	object, partly := n.objectFor(path.Backend.Service, paths, q, defined)
	if partly != nil {
		d.partly[object.Name] = append(d.partly[object.Name], fmt.Sprintf("%s stays as it is: %v", at.where, partly))
		return
	}
	if object == nil {
		return
	}
	why := leftAlone
	if why == nil && n.proxiesGone {
		why = errNoProxy
	}
	if why == nil {
		why = n.ready(object)
	}
	if why != nil {
		d.notWired[object.Name] = why.Error()
		return
	}
	if was != nil && was.Object == object.Name {
		d.rewritten = append(d.rewritten, object.Name)
	}
	d.record = append(d.record, wiredPath{
		Host: host, Path: path.Path, PathType: *path.PathType, Service: path.Backend.Service.Name, Port: path.Backend.Service.Port, Object: object.Name,
	})
	at.object, at.backend = object.Name, proxy()
	d.changes = append(d.changes, at)
	d.notWired[object.Name] = "the controller of its Ingress is given time to know kedify-proxy"
}

// decideWired decides about a path that points at kedify-proxy. Without an entry somebody else
// has pointed it there.
func (n *namespace) decideWired(d *decision, at change, paths []requests, q requests, defined bool, was *wiredPath) {
	if was == nil {
		for i := range n.objects {
			if o := &n.objects[i]; isWanted(o) && defined && n.rules.covers(o, q) {
				d.wired = append(d.wired, o.Name)
			}
		}
		return
	}
	object := n.object(was.Object)
	at.object, at.backend = was.Object, putBack(*was, object)
	if object != nil && isWanted(object) && !n.proxiesGone {
		err := errUndefined
		if defined {
			err = n.rules.admits(object, q, paths)
		}
		if err == nil {
			d.record = append(d.record, *was)
			d.wired = append(d.wired, object.Name)
			d.later = append(d.later, at.backend)
			return
		}
		d.partly[object.Name] = append(d.partly[object.Name], fmt.Sprintf("%s is put back: %v", at.where, err))
	}
	d.changes = append(d.changes, at)
	if n.proxiesGone {
		d.notWired[was.Object] = errNoProxy.Error()
	}
}

// putBack returns the backend that a path gets back: the Service that is the object's now,
// with the Ingress's own port.
func putBack(was wiredPath, object *httpv1alpha1.HTTPScaledObject) *networkingv1.IngressServiceBackend {
	service := was.Service
	if object != nil {
		service = object.Spec.ScaleTargetRef.Service
	}
	return &networkingv1.IngressServiceBackend{Name: service, Port: was.Port}
}

// objectFor returns the object that all requests of a path belong to, and whose Service they
// go to. If it has some of them only, an error says what it does not have.
func (n *namespace) objectFor(backend *networkingv1.IngressServiceBackend, paths []requests, q requests, defined bool) (object *httpv1alpha1.HTTPScaledObject, partly error) {
	for i := range n.objects {
		o := &n.objects[i]
		target := o.Spec.ScaleTargetRef
		if !isWanted(o) || target.Service != backend.Name || !n.rules.overlaps(o, q, defined) {
			continue
		}
		var err error
		switch {
		case !defined:
			err = errUndefined
		case !n.samePort(target.Service, backend.Port, portOf(target)):
			err = fmt.Errorf("its port of Service %s is not the one of HTTPScaledObject %s: use the same", target.Service, o.Name)
		default:
			err = n.rules.admits(o, q, paths)
		}
		if err == nil {
			return o, nil
		}
		object, partly = o, err
	}
	return object, partly
}

func (n *namespace) object(name string) *httpv1alpha1.HTTPScaledObject {
	i := slices.IndexFunc(n.objects, func(o httpv1alpha1.HTTPScaledObject) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &n.objects[i]
}

// isWanted tells whether an object's Ingresses are to point at kedify-proxy.
func isWanted(o *httpv1alpha1.HTTPScaledObject) bool {
	if agent.OwnerOf(o) == nil || o.DeletionTimestamp != nil {
		return false
	}
	text, there := o.Annotations[agent.AutowireAnnotation]
	if !there {
		return false
	}
	kinds, err := trigger.Autowire(text)
	return err == nil && slices.Contains(kinds, trigger.Ingress)
}

func portOf(target httpv1alpha1.ScaleTargetRef) (port networkingv1.ServiceBackendPort) {
	if target.Port != nil {
		port.Number = *target.Port
	}
	if target.PortName != nil {
		port.Name = *target.PortName
	}
	return port
}

func orAny(host string) string {
	if host == "" {
		return anyHost
	}
	return host
}

// explain says why an object is not wired, with what was found out about its Ingresses.
func explain(o *httpv1alpha1.HTTPScaledObject, why string, partly []string) string {
	switch {
	case why != "":
		return why
	case len(partly) > 0:
		return strings.Join(partly, "; ")
	}
	target := o.Spec.ScaleTargetRef
	port := portOf(target)
	text := port.Name
	if text == "" {
		text = fmt.Sprint(port.Number)
	}
	return fmt.Sprintf("no Ingress of the namespace has a path of its hosts with the backend %s:%s, or kedify-proxy:%d", target.Service, text, agent.ProxyPort)
}
