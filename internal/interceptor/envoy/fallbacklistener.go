package envoy

import (
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	internallistenerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/internal_listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Envoy writes a PROXY protocol header ahead of TLS, in the clear, when a transport
// socket has both: anybody on the way could change whose the requests are. So the
// clusters of backends write it to a listener within Envoy, whose connections to the
// interceptor have TLS. That is one context of TLS in each Envoy, too, and not one for
// each cluster.

// fallbackTries is how many connections to interceptors are tried for one of a
// cluster's: the next is likely to meet another interceptor.
const fallbackTries = 3

// fallbackUserTimeout is that of the interceptor's --tcp-user-timeout unless it is set,
// of which a bootstrap knows nothing. Without it an interceptor whose node is gone is
// noticed by keep-alive alone, which does not run while there is something to send.
const fallbackUserTimeout = time.Minute

// addFallback has an Envoy with mutual TLS reach the fallback listener by it.
func addFallback(b *bootstrapv3.Bootstrap, o BootstrapOptions) error {
	address, _, err := addressOf("fallback address", o.FallbackAddress)
	if err != nil {
		return err
	}
	_, xdsHost, err := addressOf("xDS address", o.XDSAddress)
	if err != nil {
		return err
	}
	b.BootstrapExtensions = append(b.BootstrapExtensions, &corev3.TypedExtensionConfig{
		Name: "envoy.bootstrap.internal_listener", TypedConfig: packed(&internallistenerv3.InternalListener{}),
	})
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, &listenerv3.Listener{
		Name:              FallbackListenerName,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "envoy.filters.network.tcp_proxy",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(&tcpproxyv3.TcpProxy{
				StatPrefix:         FallbackListenerName,
				ClusterSpecifier:   &tcpproxyv3.TcpProxy_Cluster{Cluster: FallbackListenerName},
				MaxConnectAttempts: number(fallbackTries),
				// Requests have timeouts of their own.
				IdleTimeout: &durationpb.Duration{},
			})},
		}}}},
	})
	keepAlive := Connections{KeepAlive: 30 * time.Second}
	outOfTheWay := number(1_000_000) // the clusters of backends have bounds
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, &clusterv3.Cluster{
		Name:                 FallbackListenerName,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		ConnectTimeout:       seconds(2), // with the handshake of TLS
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: outOfTheWay, MaxPendingRequests: outOfTheWay,
		}}},
		UpstreamConnectionOptions: &clusterv3.UpstreamConnectionOptions{TcpKeepalive: keepAlive.tcpKeepAlive()},
		UpstreamBindConfig:        &corev3.BindConfig{SocketOptions: userTimeout(fallbackUserTimeout)},
		LoadAssignment:            assignmentOf(FallbackListenerName, address),
		TransportSocket:           mutualTLS(o, xdsHost),
	})
	return nil
}
