package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// ingressPath is a path of an Ingress whose requests are for hosts of an HTTPScaledObject.
type ingressPath struct {
	ingress ingress
	// text is host and path.
	text, service string
	// wired is true where the path points at kedify-proxy.
	wired bool
	// within is true where each of its requests is the object's.
	within bool
}

// checkIngresses: where a trigger asks for it, the Ingress points at kedify-proxy.
func checkIngresses(s snapshot, ro *v1alpha1.Rollout, _ kedify.Config) []Result {
	var results []Result
	for _, from := range s.objects.scaledObjectsOf(ro.Name) {
		o := s.objects.httpScaledObject(from.Name)
		if !s.agent.serves(from) || o == nil || o.DeletionTimestamp != nil || !o.madeFrom(from) {
			continue // reported by httpscaledobject-in-step
		}
		for _, metadata := range from.kedifyTriggers() {
			if slices.Contains(words(metadata["trafficAutowire"]), "ingress") {
				results = append(results, checkIngress(s, ro, *o)...)
			}
		}
	}
	return results
}

func checkIngress(s snapshot, ro *v1alpha1.Rollout, o httpScaledObject) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if s.agent.ingresses.Err != nil {
		return []Result{couldNotLook(at, s.agent.ingresses.Err)}
	}
	paths := pathsOf(s.agent.ingresses.Value, o)
	why, notWired := o.Annotations[marks.NotWired]
	var wired []string
	for _, p := range paths {
		if p.wired {
			wired = append(wired, p.ingress.Name+" ("+p.text+")")
		}
	}
	if notWired || len(wired) == 0 {
		result := notWiredBecause(s, ro, o, paths)
		result.Message = oneLine("requests pass no proxy, and are neither split nor counted: " + strings.TrimSuffix("not wired, "+why, ", ") + "; " + result.Message)
		return []Result{result}
	}
	var results []Result
	for _, p := range paths {
		if stable, _ := rolloutspec.Services(ro); !p.wired && p.within && p.service == stable {
			result := p.left(s.agent, "")
			result.Status = Warning
			results = append(results, result)
		}
	}
	return append(results, ok(at, "Ingress "+strings.Join(wired, ", ")+" points at "+proxyService))
}

// notWiredBecause says why no path points at kedify-proxy, and what to do.
func notWiredBecause(s snapshot, ro *v1alpha1.Rollout, o httpScaledObject, paths []ingressPath) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	stable, _ := rolloutspec.Services(ro)
	hosts := strings.Join(o.Spec.Hosts, ", ")
	if len(paths) == 0 {
		return failure(at, "no Ingress of the namespace is for "+hosts, "create one, or correct hosts in the trigger: kubectl -n "+o.Namespace+" get ingress")
	}
	candidate := slices.IndexFunc(paths, func(p ingressPath) bool { return p.within && (p.wired || p.service == stable) })
	if candidate < 0 {
		p := paths[0]
		at := object("Ingress", o.Namespace, p.ingress.Name)
		edit := fmt.Sprintf("kubectl -n %s edit ingress %s", o.Namespace, p.ingress.Name)
		if !p.within {
			return failure(at, fmt.Sprintf("its path %s admits requests that are not for %s (pathPrefixes %s)", p.text, o.Name, strings.Join(o.Spec.PathPrefixes, ", "))+s.agent.said("Ingress", p.ingress.Name),
				"give the prefix a path of its own: "+edit)
		}
		return failure(at, fmt.Sprintf("its path %s has Service %s as backend, want the stable Service %s", p.text, p.service, stable)+s.agent.said("Ingress", p.ingress.Name), "correct the backend: "+edit)
	}
	if proxies, err := readyProxies(s.objects); err == nil && proxies == 0 {
		return failure(object("Service", o.Namespace, proxyService), "has no ready kedify-proxy",
			fmt.Sprintf("kubectl -n %s describe deployment %s; kubectl -n %s describe pods -l %s=%s", o.Namespace, proxyService, o.Namespace, nameLabel, proxyService))
	}
	return paths[candidate].left(s.agent, describe("httpscaledobject", o.Namespace, o.Name))
}

// left says why a path that could point at kedify-proxy does not.
func (p ingressPath) left(a agentSnapshot, otherwise string) Result {
	at := object("Ingress", p.ingress.Namespace, p.ingress.Name)
	until := p.ingress.Annotations[marks.LeftAlone]
	if end, err := time.Parse(time.RFC3339, until); err == nil && end.After(a.now) {
		return failure(at, "something writes its backends back again and again: the agent leaves it alone until "+until,
			fmt.Sprintf("have GitOps leave spec.rules alone (docs/gitops.md); then: kubectl -n %s annotate ingress %s %s-", p.ingress.Namespace, p.ingress.Name, marks.LeftAlone))
	}
	if otherwise == "" {
		otherwise = describe("ingress", p.ingress.Namespace, p.ingress.Name)
	}
	return failure(at, fmt.Sprintf("its path %s points at Service %s", p.text, p.service)+a.away()+a.said("Ingress", p.ingress.Name),
		"if it stays so, see the Events: "+otherwise)
}

// readyProxies counts the ready kedify-proxies of the namespace.
func readyProxies(n namespaceSnapshot) (int, *readError) {
	service := n.service(proxyService)
	if n.services.Err != nil || n.endpointSlices.Err != nil {
		return 0, cmp.Or(n.services.Err, n.endpointSlices.Err)
	}
	if service == nil {
		return 0, nil
	}
	port := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == marks.ProxyPort })
	if port < 0 {
		return 0, nil
	}
	return readyEndpoints(n.endpointSlices.Value, *service, &service.Spec.Ports[port]), nil
}

// pathsOf returns the paths of Ingresses for hosts of an HTTPScaledObject.
func pathsOf(ingresses []ingress, o httpScaledObject) []ingressPath {
	var found []ingressPath
	for _, ing := range ingresses {
		for _, rule := range ing.Spec.Rules {
			if !slices.ContainsFunc(o.Spec.Hosts, func(host string) bool { return covers(host, rule.Host) }) {
				continue
			}
			for _, p := range rule.HTTP.Paths {
				backend := p.Backend.Service
				found = append(found, ingressPath{
					ingress: ing, text: rule.Host + p.Path, service: backend.Name,
					wired:  backend.Name == proxyService && backend.Port.Number == marks.ProxyPort,
					within: atOrBelow(p.Path, o.Spec.PathPrefixes),
				})
			}
		}
	}
	return found
}

// covers tells whether each request for an Ingress' host is one for a host of an
// HTTPScaledObject, which may be *.example.com, or * for any.
func covers(host, ofIngress string) bool {
	parent, wildcard := strings.CutPrefix(host, "*.")
	return host == "*" || host == ofIngress || wildcard && strings.HasSuffix(ofIngress, "."+parent)
}

// atOrBelow tells whether a path is at or below one of the prefixes; none is all.
func atOrBelow(path string, prefixes []string) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(prefix string) bool {
		prefix = strings.TrimSuffix(prefix, "/")
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	})
}
