package envoy

import (
	"fmt"
	"net/http"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// adminName is the listener in the bootstrap that serves a part of the admin interface
// to everybody, and the cluster that is the admin interface itself. It differs from
// StatPrefix, as its connections are not those of clients.
const adminName = "kedify-proxy-admin"

// adminPaths are the paths that the listener serves, by GET alone: probes, metrics and
// this Envoy's configuration. None of them changes anything.
var adminPaths = []string{"/ready", "/stats", "/stats/prometheus", "/config_dump", "/clusters", "/server_info"}

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
	}
}

// adminListener serves the adminPaths. It is exempt from the limits for clients, so
// that probes and people who look for the cause get in when clients do not.
func adminListener(at *corev3.Address, adminPort uint16) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:            adminName,
		RouteSpecifier:        &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: adminRoutes(adminPort)},
		RequestHeadersTimeout: seconds(10),
		GenerateRequestId:     wrapperspb.Bool(false),
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{SuppressEnvoyHeaders: true})},
		}},
	}
	return &listenerv3.Listener{
		Name:                          adminName,
		Address:                       at,
		IgnoreGlobalConnLimit:         true,
		BypassOverloadManager:         true,
		PerConnectionBufferLimitBytes: number(streamWindow),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)},
			}},
		}},
	}
}

func adminRoutes(adminPort uint16) *routev3.RouteConfiguration {
	host := &routev3.VirtualHost{Name: adminName, Domains: []string{"*"}}
	for _, path := range adminPaths {
		host.Routes = append(host.Routes, &routev3.Route{
			Match: &routev3.RouteMatch{
				PathSpecifier: &routev3.RouteMatch_Path{Path: path},
				Headers: []*routev3.HeaderMatcher{{
					Name: ":method",
					HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
						MatchPattern: &matcherv3.StringMatcher_Exact{Exact: http.MethodGet},
					}},
				}},
			},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: adminName},
				Timeout:          seconds(adminTimeout),
			}},
		})
	}
	refusal := fmt.Sprintf("here only GET of %s is answered; the whole admin interface is on 127.0.0.1:%d of the pod\n",
		strings.Join(adminPaths, ", "), adminPort)
	host.Routes = append(host.Routes, &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: http.StatusForbidden,
			Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: refusal}},
		}},
	})
	return &routev3.RouteConfiguration{Name: adminName, VirtualHosts: []*routev3.VirtualHost{host}}
}
