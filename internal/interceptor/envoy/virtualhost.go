package envoy

import (
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// streamIdle is how long a stream may be idle before Envoy ends it.
const streamIdle = time.Hour

// VirtualHost returns the virtual host of a domain. Its last route answers requests
// that none of its matches fits.
func (t *Translator) VirtualHost(vh routes.VirtualHost) *routev3.VirtualHost {
	v := &routev3.VirtualHost{
		Name: vh.Domain, Domains: []string{vh.Domain}, RetryPolicy: t.retry,
		IncludeIsTimeoutRetryHeader: true, // see routes.SecondTryHeader
	}
	for _, m := range vh.Matches {
		v.Routes = t.appendRoutes(v.Routes, m)
	}
	v.Routes = append(v.Routes, noMatch)
	return v
}

// NoMatch returns the virtual host "*" that answers 404, for a table that has none for
// any host.
func (t *Translator) NoMatch() *routev3.VirtualHost {
	return t.VirtualHost(routes.VirtualHost{Domain: "*"})
}

// noMatch answers 404. The text is in the listener, once for all virtual hosts.
var noMatch = &routev3.Route{
	Match:  pathMatch("/"),
	Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusNotFound}},
}

// appendRoutes adds an Envoy route for each header of a match: any one of them suffices
// for the match, while one Envoy route needs all of its headers.
func (t *Translator) appendRoutes(to []*routev3.Route, m routes.Match) []*routev3.Route {
	name := m.Route.Name.String()
	action := &routev3.Route_Route{Route: t.action(m.Route)}
	var metadata *corev3.Metadata
	if m.Route.AccessLog {
		metadata = accessLogMetadata
	}
	if len(m.Headers) == 0 {
		return append(to, &routev3.Route{Name: name, Match: pathMatch(m.PathPrefix), Action: action, Metadata: metadata})
	}
	for _, h := range m.Headers {
		match := pathMatch(m.PathPrefix)
		match.Headers = []*routev3.HeaderMatcher{headerMatch(h)}
		to = append(to, &routev3.Route{Name: name, Match: match, Action: action, Metadata: metadata})
	}
	return to
}

func pathMatch(prefix string) *routev3.RouteMatch {
	if prefix == "/" {
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}}
	}
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: prefix}}
}

func headerMatch(h routes.Header) *routev3.HeaderMatcher {
	if h.Value == "" {
		return &routev3.HeaderMatcher{Name: h.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	}
	return isHeader(h.Name, h.Value)
}

func (t *Translator) action(r *routes.Route) *routev3.RouteAction {
	action := &routev3.RouteAction{Timeout: &durationpb.Duration{}, IdleTimeout: t.idle}
	if r.ResponseHeader != nil && *r.ResponseHeader != t.options.ResponseHeader {
		action.RetryPolicy = retryPolicy(*r.ResponseHeader)
	}
	if len(r.Backends) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: r.Backends[0].Cluster}
		return action
	}
	// The weights asked for: whether another backend stands in now is up to the
	// interceptor. Their sum is below 32 bits, as Envoy requires.
	split := &routev3.WeightedCluster{Clusters: make([]*routev3.WeightedCluster_ClusterWeight, len(r.Backends))}
	for i := range r.Backends {
		split.Clusters[i] = &routev3.WeightedCluster_ClusterWeight{Name: r.Backends[i].Cluster, Weight: number(r.Backends[i].Weight)}
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: split}
	return action
}

// retryPolicy has Envoy retry a request once if its connection was refused, or if the
// application refused its stream in HTTP/2: it was not processed. RouteConfiguration
// adds other retries, by method.
//
// The second try leaves the priority of the first: it goes to an interceptor, if there
// is one, even if the backend has another endpoint. Envoy could try that endpoint
// first, but only with a third try in case it cannot be connected to either, and Envoy
// does not distinguish tries that were sent from those that were not. The interceptor
// does: it sends the request to another endpoint of the same backend. Without an
// interceptor Envoy goes to another endpoint itself, or to the same if there is only
// one. An endpoint that repeatedly cannot be connected to gets no requests for a while:
// see ejection.
//
// The timeout for response headers is Envoy's timeout of a try, which ends with the
// first header of any response. Envoy treats it as a reset of the connection, and
// retries what RouteConfiguration adds; an interceptor answers such a retry at once.
func retryPolicy(responseHeader time.Duration) *routev3.RetryPolicy {
	policy := &routev3.RetryPolicy{
		RetryOn:    "connect-failure,refused-stream",
		NumRetries: number(1),
		RetryHostPredicate: []*routev3.RetryPolicy_RetryHostPredicate{{
			Name:       "envoy.retry_host_predicates.previous_hosts",
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: packed(&previoushostsv3.PreviousHostsPredicate{})},
		}},
		HostSelectionRetryMaxAttempts: 5,
		RetryPriority: &routev3.RetryPolicy_RetryPriority{
			Name:       "envoy.retry_priorities.previous_priorities",
			ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{TypedConfig: packed(&previousprioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 1})},
		},
	}
	if responseHeader > 0 {
		policy.PerTryTimeout = durationpb.New(responseHeader)
	}
	return policy
}
