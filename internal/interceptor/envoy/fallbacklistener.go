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

// If a transport socket has both a PROXY protocol header and TLS, Envoy writes the
// header before TLS, in plain text: anybody on the network path could change which
// object a request is for. So the clusters of backends write it to an internal listener
// of Envoy, whose connections to the interceptor have TLS. That also makes one TLS
// context in each Envoy, and not one for each cluster.

// fallbackTries is how many connections to interceptors are tried for one connection of
// a cluster: the next is likely to meet another interceptor.
const fallbackTries = 3

// fallbackUserTimeout is the default of the interceptor's --tcp-user-timeout, as a
// bootstrap does not know what is set. Without it only keep-alive notices an
// interceptor whose node is gone, and keep-alive does not run while there is something
// to send.
const fallbackUserTimeout = time.Minute

// fallbackBuffer is what Envoy buffers, in bytes, at each of the three places that such a
// connection passes besides that of its cluster. A client that does not read an answer
// fills them all.
const fallbackBuffer = 48 << 10

// addFallback has an Envoy with mutual TLS reach the fallback listener over mutual TLS.
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
		Name: "envoy.bootstrap.internal_listener", TypedConfig: packed(&internallistenerv3.InternalListener{BufferSizeKb: number(fallbackBuffer >> 10)}),
	})
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, &listenerv3.Listener{
		Name:                          FallbackListenerName,
		ListenerSpecifier:             &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		PerConnectionBufferLimitBytes: number(fallbackBuffer),
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
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, &clusterv3.Cluster{
		Name:                 FallbackListenerName,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		ConnectTimeout:       seconds(2), // includes the TLS handshake
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			// The clusters of backends have limits.
			MaxConnections: most(0), MaxPendingRequests: most(0),
		}}},
		PerConnectionBufferLimitBytes: number(fallbackBuffer),
		UpstreamConnectionOptions:     &clusterv3.UpstreamConnectionOptions{TcpKeepalive: keepAlive.tcpKeepAlive()},
		UpstreamBindConfig:            &corev3.BindConfig{SocketOptions: userTimeout(fallbackUserTimeout)},
		LoadAssignment:                assignmentOf(FallbackListenerName, address),
		TransportSocket:               mutualTLS(o, xdsHost),
	})
	return nil
}
