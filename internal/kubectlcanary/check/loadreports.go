package check

import (
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// checkLoadReports: every kedify-proxy of the namespace of a Rollout that is scaled by
// requests reports what it counts.
func checkLoadReports(s snapshot, ro *v1alpha1.Rollout, _ kedify.Config) []Result {
	scaled := slices.ContainsFunc(s.objects.scaledObjectsOf(ro.Name), func(o scaledObject) bool { return len(o.scalerTriggers()) > 0 })
	if !scaled {
		return nil
	}
	var results []Result
	good := 0
	for _, l := range s.proxies.proxies {
		switch {
		case l.err != nil || len(l.have) == 0: // reported by kedify-proxy-split
		case l.state.reportsLoad:
			good++
		default:
			results = append(results, failure(object("Pod", l.pod.Namespace, l.pod.Name),
				"this kedify-proxy reports no requests, as its bootstrap has no load_stats_config: the figures of its namespace's HTTPScaledObjects are errors",
				fmt.Sprintf("apply deploy/kedify-proxy of this release, or print your bootstrap again with interceptor bootstrap; then kubectl -n %s rollout restart deployment %s", l.pod.Namespace, proxyService)))
		}
	}
	if good > 0 {
		results = append(results, ok("Namespace "+ro.Namespace, count(good, "pod")+" of kedify-proxy: reports requests"))
	}
	return results
}
