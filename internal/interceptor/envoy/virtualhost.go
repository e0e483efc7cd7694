package envoy

import (
	"net/http"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// streamIdle ends a stream on which nothing moved for so long.
const streamIdle = time.Hour

// VirtualHost returns the virtual host of a domain. Its last route answers what
// none of its matches wants.
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

// NoMatch returns the virtual host of all domains that have none, for a table
// without one for any host.
func (t *Translator) NoMatch() *routev3.VirtualHost {
	return t.VirtualHost(routes.VirtualHost{Domain: "*"})
}

// noMatch answers 404. The listener has the text, once for all.
var noMatch = &routev3.Route{
	Match:  pathMatch("/"),
	Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusNotFound}},
}

// appendRoutes makes a route for each of the headers of a match: one of them
// suffices, and all those of one Envoy route have to be there.
func (t *Translator) appendRoutes(to []*routev3.Route, m routes.Match) []*routev3.Route {
	name := m.Route.Name.String()
	action := &routev3.Route_Route{Route: t.action(m.Route)}
	if len(m.Headers) == 0 {
		return append(to, &routev3.Route{Name: name, Match: pathMatch(m.PathPrefix), Action: action})
	}
	for _, h := range m.Headers {
		match := pathMatch(m.PathPrefix)
		match.Headers = []*routev3.HeaderMatcher{headerMatch(h)}
		to = append(to, &routev3.Route{Name: name, Match: match, Action: action})
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
	return &routev3.HeaderMatcher{Name: h.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: h.Value}},
	}}
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
	// The weights asked for, whoever stands in for whom now: that is the
	// interceptor's to see to. Their sum is what Envoy takes: below 32 bits.
	split := &routev3.WeightedCluster{Clusters: make([]*routev3.WeightedCluster_ClusterWeight, len(r.Backends))}
	for i := range r.Backends {
		split.Clusters[i] = &routev3.WeightedCluster_ClusterWeight{Name: r.Backends[i].Cluster, Weight: number(r.Backends[i].Weight)}
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: split}
	return action
}

// retryPolicy has a request tried once more when its connection was refused, or the
// application refused it in HTTP/2: it was not processed. RouteConfiguration adds
// what else is tried again, by method.
//
// The second try leaves the priority of the first: it goes to an interceptor, where
// there is one, also when the backend has another endpoint. Envoy could try that
// first, but only with a third try for when that cannot be connected to either, and
// it does not tell tries that were sent from others. The interceptor does: it sends
// the request to another endpoint of the same backend. Without an interceptor Envoy
// goes to another endpoint itself, or to the same where there is one alone. An
// endpoint that cannot be connected to again and again gets no try for a while: see
// ejection.
//
// A timeout for response headers is Envoy's timeout of a try, which ends with the
// first header of any answer. Envoy takes it for a reset of the connection, and
// tries again what RouteConfiguration adds; an interceptor answers that at once.
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
