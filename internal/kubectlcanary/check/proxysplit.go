package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// servable calls look for each HTTPScaledObject of the Rollout whose split a proxy can
// serve.
func servable(s snapshot, config kedify.Config, look func(o httpScaledObject, want []weightedbackends.Backend) []Result) []Result {
	var results []Result
	for _, o := range s.proxies.objects {
		if !slices.Contains(config.Names(), o.Name) {
			continue
		}
		if want, servable := wantedSplit(s.objects, o); servable {
			results = append(results, look(o, want)...)
		}
	}
	return results
}

// checkProxies: every kedify-proxy of the namespace does with the requests of each
// HTTPScaledObject what its annotation says.
func checkProxies(s snapshot, _ *v1alpha1.Rollout, config kedify.Config) []Result {
	return servable(s, config, func(o httpScaledObject, want []weightedbackends.Backend) []Result {
		return checkKedifyProxies(s.proxies, o, want)
	})
}

// checkInterceptors: every interceptor does with the requests of each HTTPScaledObject what
// its annotation says. Without kedify-proxies the interceptors split by themselves.
func checkInterceptors(s snapshot, _ *v1alpha1.Rollout, config kedify.Config) []Result {
	return servable(s, config, func(o httpScaledObject, want []weightedbackends.Backend) []Result {
		return checkInterceptorsOf(s.proxies, o, want)
	})
}

func checkKedifyProxies(p proxySnapshot, o httpScaledObject, want []weightedbackends.Backend) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if p.service == "" {
		return nil
	}
	get := fmt.Sprintf("kubectl -n %s describe deployment %s", o.Namespace, proxyService)
	var results []Result
	good, forbidden := 0, false
	for _, l := range p.proxies {
		pod := object("Pod", l.pod.Namespace, l.pod.Name)
		switch {
		case l.pod.Status.Phase != corev1.PodRunning:
			results = append(results, warning(pod, "kedify-proxy does not run: "+podProblem(l.pod), fmt.Sprintf("kubectl -n %s describe pod %s", l.pod.Namespace, l.pod.Name)))
		case l.err != nil && l.err.forbidden():
			if !forbidden { // the others are forbidden alike
				results = append(results, couldNotLook(pod, l.err))
			}
			forbidden = true
		case l.err != nil && !podReady(l.pod):
			results = append(results, failure(pod, fmt.Sprintf("kedify-proxy is not ready, and does not answer at port %d: it does once an interceptor has configured it", l.port), seeInterceptor(l)))
		case l.err != nil:
			results = append(results, warning(pod, "could not look: "+l.err.Error(), byHand(l)))
		default:
			if lacks := l.lacks(o, want); lacks != "" {
				results = append(results, failure(pod, "kedify-proxy "+lacks+l.state.text()+l.version(o), l.remedy(o)))
				continue
			}
			good++
		}
	}
	switch {
	case len(p.proxies) == 0:
		results = append(results, warning(object("Service", o.Namespace, p.service), "selects no pod: requests to kedify-proxy are not answered", get))
	case good > 0:
		results = append(results, ok(at, fmt.Sprintf("%s of kedify-proxy: %s, as asked", count(good, "pod"), describeWanted(want))))
	}
	return results
}

// lacks says what of a split a kedify-proxy does not have, or "".
func (l proxyLook) lacks(o httpScaledObject, want []weightedbackends.Backend) string {
	have := l.have[o.Name]
	var lacks []string
	if missing := missingClusters(want, have.clusters); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, service := range missing {
			names[i] = o.Namespace + "/" + o.Name + "/" + service
			if slices.Contains(have.warming, service) {
				names[i] += " (it waits for its endpoints)"
			}
		}
		lacks = append(lacks, "has no active cluster "+strings.Join(names, ", "))
	}
	if text := difference(want, have.splits); text != "" {
		lacks = append(lacks, text)
	}
	return strings.Join(lacks, "; ")
}

func (l proxyLook) version(o httpScaledObject) string {
	if version := l.have[o.Name].version; version != "" {
		return " (routes of version " + version + ")"
	}
	return ""
}

func (s envoyState) text() string {
	text := ""
	if s.known && !s.connected {
		text += "; it is not connected to the interceptor"
	}
	if s.rejected > 0 {
		text += fmt.Sprintf("; it has refused %s", count(int(s.rejected), "update"))
	}
	return text
}

// remedy depends on what the kedify-proxy says of its connection.
func (l proxyLook) remedy(o httpScaledObject) string {
	look := fmt.Sprintf("kubectl -n %s describe httpscaledobject %s shows what the interceptor says of it", o.Namespace, o.Name)
	switch {
	case l.state.known && !l.state.connected:
		return seeInterceptor(l)
	case l.state.rejected > 0:
		return fmt.Sprintf("kubectl -n %s logs %s says why; %s", l.pod.Namespace, l.pod.Name, look)
	}
	return look + "; by hand: " + byHand(l)
}

// seeInterceptor is for a kedify-proxy that no interceptor speaks to.
func seeInterceptor(l proxyLook) string {
	return fmt.Sprintf("see whether the interceptor runs, and whether the address of its xDS Service in the bootstrap is right: kubectl -n %s logs %s", l.pod.Namespace, l.pod.Name)
}

// byHand returns the commands of the guide that look at a kedify-proxy.
func byHand(l proxyLook) string {
	return fmt.Sprintf("kubectl -n %s port-forward pod/%s %d:%d, then curl -s localhost:%d/config_dump", l.pod.Namespace, l.pod.Name, l.port, l.port, l.port)
}

func checkInterceptorsOf(p proxySnapshot, o httpScaledObject, want []weightedbackends.Backend) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if err := p.interceptorService.Err; err != nil {
		return []Result{couldNotLook(at, err)}
	}
	if p.interceptorService.Value == "" {
		return nil
	}
	var results []Result
	good, forbidden := 0, false
	for _, l := range p.interceptors {
		pod := object("Pod", l.pod.Namespace, l.pod.Name)
		describe := fmt.Sprintf("kubectl -n %s describe pod %s", l.pod.Namespace, l.pod.Name)
		switch {
		case l.foreign: // not ours: it shows no routes
		case l.pod.Status.Phase != corev1.PodRunning:
			results = append(results, warning(pod, "the interceptor does not run: "+podProblem(l.pod), describe))
		case l.err != nil && l.err.forbidden():
			if !forbidden {
				results = append(results, couldNotLook(pod, l.err))
			}
			forbidden = true
		case l.err != nil:
			results = append(results, warning(pod, "could not look: "+l.err.Error(), describe))
		case l.routes == nil:
			results = append(results, warning(pod, "could not look: it was not asked in time", "allow more with --timeout"))
		default:
			text := difference(want, l.routes.of(o))
			if text == "" {
				good++
				continue
			}
			if problem := l.routes.problem(o); problem != "" {
				text += "; it says: " + problem
			}
			results = append(results, failure(pod, "the interceptor "+text,
				fmt.Sprintf("kubectl -n %s describe httpscaledobject %s; kubectl -n %s logs %s", o.Namespace, o.Name, l.pod.Namespace, l.pod.Name)))
		}
	}
	switch {
	case len(p.interceptors) == 0:
		results = append(results, warning(p.interceptorService.Value, "selects no pod: no weight reaches a proxy, and requests to the interceptor are not answered", "scale its Deployment up, or install deploy/interceptor"))
	case good > 0:
		results = append(results, ok(at, fmt.Sprintf("%s of the interceptor: %s, as asked", count(good, "pod"), describeWanted(want))))
	}
	return results
}
