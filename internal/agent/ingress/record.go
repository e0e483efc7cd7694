package ingress

import (
	"encoding/json"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// wiredPath is a path that points at kedify-proxy, and the backend that it had before.
type wiredPath struct {
	Host     string                          `json:"host,omitempty"`
	Path     string                          `json:"path,omitempty"`
	PathType networkingv1.PathType           `json:"pathType"`
	Service  string                          `json:"service"`
	Port     networkingv1.ServiceBackendPort `json:"port"`
	Object   string                          `json:"object"`
}

// is tells whether an entry is about a path.
func (w wiredPath) is(host string, p networkingv1.HTTPIngressPath) bool {
	return p.PathType != nil && w.Host == host && w.Path == p.Path && w.PathType == *p.PathType
}

// record is the annotation agent.WiredPathsAnnotation of an Ingress.
type record []wiredPath

// recordOf reads the annotation; none if it is not there.
func recordOf(i *networkingv1.Ingress) (record, error) {
	text, there := i.Annotations[agent.WiredPathsAnnotation]
	if !there {
		return nil, nil
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("annotation %s of Ingress %s/%s cannot be read: point its paths at your Service and remove the annotation: %w",
			agent.WiredPathsAnnotation, i.Namespace, i.Name, err)
	}
	return r, nil
}

// text returns the annotation's value.
func (r record) text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// find returns the index of the entry of a path; -1 for none.
func (r record) find(host string, p networkingv1.HTTPIngressPath) int {
	return slices.IndexFunc(r, func(w wiredPath) bool { return w.is(host, p) })
}

// without returns the entries whose paths an Ingress does not have.
func (r record) without(i *networkingv1.Ingress) (gone record) {
	for _, w := range r {
		if !slices.ContainsFunc(i.Spec.Rules, func(rule networkingv1.IngressRule) bool {
			return rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool { return w.is(rule.Host, p) })
		}) {
			gone = append(gone, w)
		}
	}
	return gone
}

// take takes out the entry of a path that somebody has changed without its backend, and
// returns it as of now: the one with the same host or path, or else the first.
func (r *record) take(host string, p networkingv1.HTTPIngressPath) *wiredPath {
	if len(*r) == 0 {
		return nil
	}
	e := max(0, slices.IndexFunc(*r, func(w wiredPath) bool { return w.Host == host || w.Path == p.Path }))
	w := (*r)[e]
	*r = slices.Delete(*r, e, e+1)
	w.Host, w.Path, w.PathType = host, p.Path, *p.PathType
	return &w
}

// PointsAt tells whether an Ingress points at kedify-proxy for an HTTPScaledObject of its
// namespace. One whose annotation cannot be read may.
func PointsAt(i *networkingv1.Ingress, object string) bool {
	r, err := recordOf(i)
	return err != nil || slices.ContainsFunc(r, func(w wiredPath) bool { return w.Object == object })
}

// isProxy tells whether a backend is kedify-proxy.
func isProxy(b networkingv1.IngressBackend) bool {
	return b.Service != nil && b.Service.Name == agent.ProxyService && b.Service.Port.Number == agent.ProxyPort
}

func proxy() *networkingv1.IngressServiceBackend {
	return &networkingv1.IngressServiceBackend{Name: agent.ProxyService, Port: networkingv1.ServiceBackendPort{Number: agent.ProxyPort}}
}
