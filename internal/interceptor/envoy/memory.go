package envoy

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// unusedStats matches the statistics of clusters that nobody would miss: those of what no
// cluster here has, such as subsets, zones, requests of high priority and ejection by
// statuses, and those of updates, which the interceptor has. They would be a sixth of the
// memory of an Envoy with thousands of clusters. None is of requests or connections.
const unusedStats = `cluster\..*\.(lb_(subsets|zone|local|recalculate)_.*|circuit_breakers\.high\..*|` +
	`outlier_detection\.ejections_(total|.*(success_rate|percentage|gateway_failure|5xx|degradation))|` +
	`assignment_.*|init_fetch_timeout|upstream\.proxyprotocol\..*|(default|fallback)\.total_match_count|` +
	`update_.*|version|version_text|max_host_weight|membership_(degraded|excluded))`

// releasedAtOnce is how many bytes of free memory Envoy returns to the kernel each second.
const releasedAtOnce = 32 << 20

// saveMemory keeps an Envoy small that has thousands of clusters, most of which get no
// requests.
func saveMemory(b *bootstrapv3.Bootstrap) {
	// A cluster has no statistics of requests before its first, and no part in a worker.
	b.DeferredStatOptions = &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true}
	b.ClusterManager = &bootstrapv3.ClusterManager{EnableDeferredClusterCreation: true}
	b.StatsConfig = &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
		StatsMatcher: &metricsv3.StatsMatcher_ExclusionList{ExclusionList: &matcherv3.ListStringMatcher{
			Patterns: []*matcherv3.StringMatcher{{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
				SafeRegex: &matcherv3.RegexMatcher{Regex: unusedStats},
			}}},
		}},
	}}
	// What the start has used would never be returned otherwise.
	b.MemoryAllocatorManager = &bootstrapv3.MemoryAllocatorManager{BytesToRelease: releasedAtOnce}
}
