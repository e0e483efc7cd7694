package envoy

import (
	"fmt"
	"net/http"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	healthcheckv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	connectionlimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// adminName is the listener in the bootstrap that serves a part of the admin interface
// to everybody, and the cluster that is the admin interface itself. It differs from
// StatPrefix, as its connections are not those of clients.
const adminName = "kedify-proxy-admin"

// readyName is the listener in the bootstrap for the kubelet's probes.
const readyName = "kedify-proxy-ready"

// adminPaths are the paths that the listener serves, by GET alone: probes, metrics and
// this Envoy's configuration. None of them changes anything.
var adminPaths = []string{"/ready", "/stats", "/stats/prometheus", "/config_dump", "/clusters", "/server_info"}

// What everybody together may use of the admin interface.
const (
	// adminConnections bounds the connections of the listener. Those beyond are closed.
	adminConnections = 200
	// adminDumps bounds the requests at a time for adminPaths, but /ready, which needs no
	// admin interface. Envoy makes the whole answer in memory, which can be as much as its
	// configuration is. Requests beyond are answered 503 with Retry-After.
	adminDumps = 2
	// adminIdle, in seconds, is for a connection without a request, and for a client that
	// reads nothing of an answer. It is less than `kubectl canary check` takes to give up.
	adminIdle = 5
)

// adminTimeout, in seconds, is for the config dump of an Envoy with thousands of
// clusters.
const adminTimeout = 60

// loopback returns the address of the admin interface itself.
func loopback(port uint16) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

func adminCluster(at *corev3.Address) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 adminName,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       seconds(1),
		LoadAssignment:       assignmentOf(adminName, at),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxRequests: number(adminDumps),
		}}},
		PerConnectionBufferLimitBytes: number(connectionBuffer),
	}
}

// adminListener serves the adminPaths. It is exempt from the limits for clients, so
// that probes and people who look for the cause get in when clients do not. It has limits
// of its own. /ready is answered by Envoy's workers: the admin interface has one thread,
// which may be busy with a dump.
//
// readyName is the same for /ready alone, at a port that only the kubelet can reach where
// NetworkPolicies are enforced: those who fill the other port's limits do not make the pod
// unready.
func adminListener(name string, at *corev3.Address, hosts *routev3.VirtualHost) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: name, VirtualHosts: []*routev3.VirtualHost{hosts},
		}},
		RequestHeadersTimeout:     seconds(adminIdle),
		GenerateRequestId:         wrapperspb.Bool(false),
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: seconds(adminIdle)},
		StreamIdleTimeout:         seconds(adminTimeout),
		LocalReplyConfig:          adminReplies(),
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.health_check",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&healthcheckv3.HealthCheck{
				PassThroughMode: wrapperspb.Bool(false),
				Headers:         []*routev3.HeaderMatcher{isHeader(":path", "/ready"), isHeader(":method", http.MethodGet)},
			})},
		}, {
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{SuppressEnvoyHeaders: true})},
		}},
	}
	return &listenerv3.Listener{
		Name:                          name,
		Address:                       at,
		IgnoreGlobalConnLimit:         true,
		BypassOverloadManager:         true,
		PerConnectionBufferLimitBytes: number(connectionBuffer),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name: "envoy.filters.network.connection_limit",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(&connectionlimitv3.ConnectionLimit{
					StatPrefix: name, MaxConnections: wrapperspb.UInt64(adminConnections),
				})},
			}, {
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)},
			}},
		}},
	}
}

// adminReplies has /ready say what the admin interface says, and refusals for lack of room
// when to come again.
func adminReplies() *hcmv3.LocalReplyConfig {
	text := func(text string) *corev3.SubstitutionFormatString {
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
		}}
	}
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		{Filter: withFlags("LH"), BodyFormatOverride: text("DRAINING\n")},
		{Filter: withCode(http.StatusOK, adminName+".ready"), BodyFormatOverride: text("LIVE\n")},
		{Filter: withFlags("UO"), HeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "retry-after", Value: "1"}}}},
	}}
}

func isHeader(name, value string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value}},
	}}
}

func adminRoutes(adminPort uint16) *routev3.VirtualHost {
	host := &routev3.VirtualHost{Name: adminName, Domains: []string{"*"}, Routes: []*routev3.Route{{
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: strings.Join(adminPaths, "|")}},
			Headers:       []*routev3.HeaderMatcher{isHeader(":method", http.MethodGet)},
		},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: adminName},
			Timeout:          seconds(adminTimeout),
			IdleTimeout:      seconds(adminIdle),
		}},
	}}}
	refusal := fmt.Sprintf("here only GET of %s is answered; the whole admin interface is on 127.0.0.1:%d of the pod\n",
		strings.Join(adminPaths, ", "), adminPort)
	host.Routes = append(host.Routes, refuseWith(refusal))
	return host
}

func readyRoutes() *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: readyName, Domains: []string{"*"}, Routes: []*routev3.Route{refuseWith("here only GET of /ready is answered\n")}}
}

func refuseWith(text string) *routev3.Route {
	return &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: http.StatusForbidden,
			Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
		}},
	}
}
