package check

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// The Services of a namespace's kedify-proxies, as Kedify names them. Their
// selectors say which pods those are, whatever the labels.
const (
	proxyService      = marks.ProxyService
	proxyAdminService = "kedify-proxy-admin"
	proxyAdminPort    = 9901
)

// proxySnapshot is what splits the requests: kedify-proxies in the Rollouts'
// namespace, interceptors in their own.
type proxySnapshot struct {
	// objects are the HTTPScaledObjects as they were when the proxies were last
	// looked at.
	objects []httpScaledObject
	// service is the Service of the kedify-proxies, or "" if there are none.
	service string
	proxies []proxyLook
	// interceptors are those of ours; with Kedify's there is nothing to look at.
	interceptors []interceptorLook
	// interceptorService tells where they are, or why that is not known.
	interceptorService read[string]
}

// proxyLook is what one kedify-proxy has, by HTTPScaledObject.
type proxyLook struct {
	pod   corev1.Pod
	port  int32
	err   *readError
	state envoyState
	have  map[string]proxyRoutes
}

// proxyRoutes is what a kedify-proxy has for one HTTPScaledObject.
type proxyRoutes struct {
	version           string
	splits            []servedSplit
	clusters, warming []string
}

// defaultPatience is how long a proxy may take to serve what an annotation says: the
// annotation may have changed just before the proxy was looked at.
const defaultPatience = 5 * time.Second

// namesToServe returns the HTTPScaledObjects of the Rollouts that are checked.
func namesToServe(n namespaceSnapshot, rollout string) []string {
	var names []string
	for i := range n.rollouts.Value {
		ro := &n.rollouts.Value[i]
		if rollout != "" && rollout != ro.Name || !kedify.Uses(ro) {
			continue
		}
		config, err := kedify.ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
		if err == nil {
			names = append(names, config.Names()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// gatherProxies looks at every proxy, and again at those that do not serve what
// the HTTPScaledObjects say, until they do or patience ends.
func gatherProxies(ctx context.Context, c *cluster, opts Options, n namespaceSnapshot) proxySnapshot {
	var p proxySnapshot
	names := namesToServe(n, opts.Rollout)
	for _, name := range names {
		if o := n.httpScaledObject(name); o != nil {
			p.objects = append(p.objects, *o)
		}
	}
	if len(p.objects) == 0 {
		return p
	}
	p.service, p.proxies = findProxies(n)
	p.interceptorService, p.interceptors = findInterceptors(ctx, c, opts)
	if opts.patience == 0 {
		opts.patience = defaultPatience
	}
	deadline := time.Now().Add(opts.patience)
	for {
		p.look(ctx, c, n)
		if p.asWanted(n) || time.Now().After(deadline) || ctx.Err() != nil {
			break
		}
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

// findProxies returns the pods that the Services of kedify-proxy select.
func findProxies(n namespaceSnapshot) (string, []proxyLook) {
	for _, name := range []string{proxyAdminService, proxyService} {
		service := n.service(name)
		if service == nil || len(service.Spec.Selector) == 0 {
			continue
		}
		var found []proxyLook
		for _, pod := range livePods(n.podsMatching(service.Spec.Selector)) {
			found = append(found, proxyLook{pod: pod, port: podPort(service, pod, proxyAdminPort)})
		}
		return name, found
	}
	return "", nil
}

// podPort returns the port of a pod behind a port of a Service, or the same number
// if the Service does not say.
func podPort(service *corev1.Service, pod corev1.Pod, port int32) int32 {
	for _, p := range service.Spec.Ports {
		if p.Port != port {
			continue
		}
		if number := p.TargetPort.IntValue(); number > 0 {
			return int32(number)
		}
		for _, container := range pod.Spec.Containers {
			for _, named := range container.Ports {
				if named.Name == p.TargetPort.StrVal {
					return named.ContainerPort
				}
			}
		}
	}
	return port
}

// look asks each running proxy that has not served all splits so far, a few at a time.
func (p *proxySnapshot) look(ctx context.Context, c *cluster, n namespaceSnapshot) {
	const atOnce = 8
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	ask := func(one func()) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			one()
		})
	}
	for i := range p.proxies {
		if l := &p.proxies[i]; l.pod.Status.Phase == corev1.PodRunning && l.err == nil && !l.asWanted(n, p.objects) {
			ask(func() { l.ask(ctx, c, p.objects) })
		}
	}
	for i := range p.interceptors {
		if l := &p.interceptors[i]; l.pod.Status.Phase == corev1.PodRunning && l.err == nil && !l.asWanted(n, p.objects) {
			ask(func() { l.ask(ctx, c) })
		}
	}
	wg.Wait()
}

// asWanted is true when looking again would find nothing new.
func (p *proxySnapshot) asWanted(n namespaceSnapshot) bool {
	return !slices.ContainsFunc(p.proxies, func(l proxyLook) bool {
		return l.pod.Status.Phase == corev1.PodRunning && l.err == nil && !l.asWanted(n, p.objects)
	}) && !slices.ContainsFunc(p.interceptors, func(l interceptorLook) bool {
		return l.pod.Status.Phase == corev1.PodRunning && l.err == nil && !l.asWanted(n, p.objects)
	})
}

func (l *proxyLook) asWanted(n namespaceSnapshot, objects []httpScaledObject) bool {
	for _, o := range objects {
		want, servable := wantedSplit(n, o)
		have, asked := l.have[o.Name]
		if !asked || servable && (difference(want, have.splits) != "" || len(missingClusters(want, have.clusters)) > 0) {
			return false
		}
	}
	return true
}

// ask reads the routes once, for each HTTPScaledObject the names of its clusters,
// and what the Envoy says of its interceptor.
func (l *proxyLook) ask(ctx context.Context, c *cluster, objects []httpScaledObject) {
	l.have, l.err = map[string]proxyRoutes{}, nil
	get := func(path string, query map[string][]string) []byte {
		if l.err != nil {
			return nil
		}
		answer := c.podGet(ctx, l.pod.Namespace, l.pod.Name, l.port, path, query)
		l.err = answer.Err
		return answer.Value
	}
	understood := func(err error) {
		if l.err == nil && err != nil {
			l.err = target{version: "v1", resource: "pods", namespace: l.pod.Namespace, name: l.pod.Name, subresource: "proxy"}.failed("get", err)
		}
	}
	var routes []*routesDump
	for _, resource := range []string{dynamicRoutes, inlineRoutes} {
		data := get("/config_dump", routesQuery(resource))
		if l.err != nil {
			return
		}
		dump, err := parseRoutes(data)
		understood(err)
		routes = append(routes, dump)
	}
	for _, o := range objects {
		if l.err != nil {
			return
		}
		prefix := o.Namespace + "/" + o.Name + "/"
		var have proxyRoutes
		for _, dump := range routes {
			splits, version := dump.over(prefix)
			have.splits = append(have.splits, splits...)
			if len(splits) > 0 {
				have.version = version
			}
		}
		for resource, services := range map[string]*[]string{activeClusters: &have.clusters, warmClusters: &have.warming} {
			data := get("/config_dump", clustersQuery(resource, prefix))
			if l.err != nil {
				return
			}
			var err error
			*services, err = parseClusters(data, prefix)
			understood(err)
		}
		l.have[o.Name] = have
	}
	data := get("/stats", statsQuery())
	if l.err == nil {
		var err error
		l.state, err = parseState(data)
		understood(err)
	}
}
