package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// A proxy that splits requests is one of two kinds. What follows is the same for both.

// proxyKind is where the proxies of a kind are, and how one of them is asked.
type proxyKind struct {
	// name is how results call one of them.
	name string
	// services have the proxies behind them, the first one that exists, at port.
	services []string
	port     int32
	// ask returns what a pod serves, by the name of each of the objects; false where it does
	// not show that.
	ask func(ctx context.Context, pod podProxy, objects []httpScaledObject) (map[string]served, bool, *readError)
	// remedy says what to do about a pod that does not serve what it should.
	remedy string
}

const proxyService = marks.ProxyService

// The kinds of proxies, with the Services that Kedify and deploy/interceptor give them.
var (
	kedifyProxies = proxyKind{
		name: "kedify-proxy", services: []string{"kedify-proxy-admin", proxyService}, port: 9901, ask: askEnvoy,
		remedy: "see whether the interceptor runs, which configures it, and whether the address of its xDS Service in the bootstrap is right",
	}
	interceptors = proxyKind{
		name: "the interceptor", services: []string{"keda-add-ons-http-interceptor-admin"}, port: 9090, ask: askInterceptor,
		remedy: "see what it says of the object",
	}
)

// defaultInterceptorNamespace is where deploy/interceptor and Kedify's charts install the
// interceptors, beside KEDA.
const defaultInterceptorNamespace = "keda"

// served is what a proxy does with the requests of an HTTPScaledObject.
type served struct {
	// splits are by host, where the proxy has one for each.
	splits []servedSplit
	// clusters are the Services for which an Envoy has an active cluster; nil for a proxy that
	// is no Envoy.
	clusters []string
	// says is what the proxy itself knows about the cause; may be empty.
	says string
}

// proxySnapshot is what splits the requests: kedify-proxies in the Rollouts'
// namespace, interceptors in their own.
type proxySnapshot struct {
	// objects are the HTTPScaledObjects as they were when the proxies were last
	// looked at.
	objects                     []httpScaledObject
	kedifyProxies, interceptors proxiesSnapshot
}

// proxiesSnapshot is the proxies of a kind.
type proxiesSnapshot struct {
	// service is the Service that selects them, or "" if there are none; or why that is not
	// known.
	service read[string]
	pods    []proxyLook
}

// proxyLook is what one proxy has, by HTTPScaledObject.
type proxyLook struct {
	pod  podProxy
	have map[string]served
	err  *readError
	// foreign is true for one that does not show what it serves, as Kedify's interceptors.
	foreign bool
}

// defaultPatience is how long a proxy may take to serve what an annotation says: the
// annotation may have changed just before the proxy was looked at.
const defaultPatience = 5 * time.Second

// gatherProxies looks at every proxy, and again at those that do not serve what
// the HTTPScaledObjects say, until they do or patience ends.
func gatherProxies(ctx context.Context, c *cluster, opts Options, s snapshot) proxySnapshot {
	var p proxySnapshot
	for _, ro := range rolloutsToCheck(s) {
		for _, name := range kedifyNames(ro) {
			if o := s.objects.httpScaledObject(name); o != nil && !slices.ContainsFunc(p.objects, func(known httpScaledObject) bool { return known.Name == name }) {
				p.objects = append(p.objects, *o)
			}
		}
	}
	if len(p.objects) == 0 {
		return p
	}
	namespace := opts.InterceptorNamespace
	if namespace == "" {
		namespace = defaultInterceptorNamespace
	}
	p.kedifyProxies = findProxies(ctx, c, opts.Namespace, kedifyProxies)
	p.interceptors = findProxies(ctx, c, namespace, interceptors)
	if opts.patience == 0 {
		opts.patience = defaultPatience
	}
	deadline := time.Now().Add(opts.patience)
	for !p.look(ctx, s.objects) && time.Now().Before(deadline) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
		for i, o := range p.objects {
			t := target{group: "http.keda.sh", version: "v1alpha1", resource: "httpscaledobjects", namespace: o.Namespace, name: o.Name}
			if now := get[httpScaledObject](ctx, c, t); now.Err == nil {
				p.objects[i] = now.Value
			}
		}
	}
	return p
}

// findProxies returns the pods that the Service of a kind selects.
func findProxies(ctx context.Context, c *cluster, namespace string, kind proxyKind) proxiesSnapshot {
	for _, name := range kind.services {
		service := get[corev1.Service](ctx, c, target{version: "v1", resource: "services", namespace: namespace, name: name})
		switch {
		case service.Err.notFound(), service.Err == nil && len(service.Value.Spec.Selector) == 0:
			continue
		case service.Err != nil:
			return proxiesSnapshot{service: read[string]{Err: service.Err}}
		}
		pods := podsBehind(ctx, c, service.Value, kind.port)
		found := proxiesSnapshot{service: read[string]{Value: object("Service", namespace, name), Err: pods.Err}}
		for _, pod := range pods.Value {
			found.pods = append(found.pods, proxyLook{pod: pod})
		}
		return found
	}
	return proxiesSnapshot{}
}

// look asks each running proxy that has not served all splits so far, a few at a time, and tells
// whether looking again would find nothing new.
func (p *proxySnapshot) look(ctx context.Context, n namespaceSnapshot) (settled bool) {
	const atOnce = 8
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	behind := func(l proxyLook) bool {
		return l.pod.running() && l.err == nil && !l.foreign && slices.ContainsFunc(p.objects, func(o httpScaledObject) bool {
			want, servable := wantedSplit(n, o)
			have, asked := l.have[o.Name]
			return !asked || servable && have.difference(o, want) != ""
		})
	}
	for _, of := range []struct {
		kind proxyKind
		pods []proxyLook
	}{{kedifyProxies, p.kedifyProxies.pods}, {interceptors, p.interceptors.pods}} {
		for i := range of.pods {
			l := &of.pods[i]
			if !behind(*l) {
				continue
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				have, shows, err := of.kind.ask(ctx, l.pod, p.objects)
				l.have, l.foreign, l.err = have, err == nil && !shows, err
			})
		}
	}
	wg.Wait()
	return !slices.ContainsFunc(p.kedifyProxies.pods, behind) && !slices.ContainsFunc(p.interceptors.pods, behind)
}

// checkKedifyProxies: every kedify-proxy of the namespace does with the requests of each
// HTTPScaledObject what its annotation says.
func checkKedifyProxies(r subject) []Result {
	return r.checkProxies(kedifyProxies, r.proxies.kedifyProxies)
}

// checkInterceptors: every interceptor does, too. Without kedify-proxies the interceptors split
// by themselves.
func checkInterceptors(r subject) []Result {
	return r.checkProxies(interceptors, r.proxies.interceptors)
}

func (r subject) checkProxies(kind proxyKind, proxies proxiesSnapshot) []Result {
	var results []Result
	for _, o := range r.proxies.objects {
		want, servable := wantedSplit(r.objects, o)
		if !slices.Contains(r.kedify.Names(), o.Name) || !servable {
			continue
		}
		at := object("HTTPScaledObject", o.Namespace, o.Name)
		switch {
		case proxies.service.Err != nil:
			results = append(results, couldNotLook(at, proxies.service.Err))
		case proxies.service.Value != "" && len(proxies.pods) == 0:
			results = append(results, warning(proxies.service.Value, "selects no pod: no weight reaches "+kind.name+", and requests to it are not answered", "scale its Deployment up, or install it"))
		}
		good := 0
		for _, l := range proxies.pods {
			if result, bad := l.check(kind, o, want); bad && !slices.Contains(results, result) {
				results = append(results, result)
			} else if !bad && !l.foreign {
				good++
			}
		}
		if good > 0 {
			results = append(results, ok(at, fmt.Sprintf("%s of %s: %s, as asked", count(good, "pod"), kind.name, describeWanted(want))))
		}
	}
	return results
}

// check returns what is wrong with a proxy for an HTTPScaledObject, if anything is.
func (l proxyLook) check(kind proxyKind, o httpScaledObject, want []weightedbackends.Backend) (Result, bool) {
	at := object("Pod", l.pod.Namespace, l.pod.Name)
	in := fmt.Sprintf("kubectl -n %s", l.pod.Namespace)
	see := fmt.Sprintf("%s: kubectl -n %s describe httpscaledobject %s; %s logs %s; by hand: %s port-forward pod/%s %d", kind.remedy, o.Namespace, o.Name, in, l.pod.Name, in, l.pod.Name, l.pod.port)
	switch {
	case l.foreign:
		return Result{}, false
	case !l.pod.running():
		return warning(at, podState(l.pod.Pod), fmt.Sprintf("%s describe pod %s", in, l.pod.Name)), true
	case l.err != nil && l.err.forbidden():
		alike := *l.err
		alike.Name = "" // the others are forbidden alike
		return couldNotLook("Namespace "+l.pod.Namespace, &alike), true
	case l.err != nil && !podReady(l.pod.Pod):
		return failure(at, fmt.Sprintf("is not ready, and does not answer at port %d", l.pod.port), see), true
	case l.err != nil:
		return couldNotLook(at, l.err), true
	}
	difference := l.have[o.Name].difference(o, want)
	if difference == "" {
		return Result{}, false
	}
	return failure(at, kind.name+" "+difference, see), true
}

// difference says what of a split a proxy does not do, or "" when all is as wanted.
func (have served) difference(o httpScaledObject, want []weightedbackends.Backend) string {
	var texts []string
	for _, w := range want {
		if w.Weight > 0 && have.clusters != nil && !slices.Contains(have.clusters, w.Service) {
			texts = append(texts, fmt.Sprintf("has no active cluster %s/%s/%s", o.Namespace, o.Name, w.Service))
		}
	}
	if text := difference(want, have.splits); text != "" {
		texts = append(texts, text)
	}
	if len(texts) > 0 && have.says != "" {
		texts = append(texts, have.says)
	}
	return strings.Join(texts, "; ")
}
