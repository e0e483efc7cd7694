package envoy

import (
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

const (
	httpOptionsName = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	fallbackKey     = "fallback"
)

// clusterParts are the same in all clusters.
type clusterParts struct {
	eds        *clusterv3.Cluster_EdsClusterConfig
	connect    *durationpb.Duration
	buffer     *wrapperspb.UInt32Value
	breakers   *clusterv3.CircuitBreakers
	ejection   *clusterv3.OutlierDetection
	connection *clusterv3.UpstreamConnectionOptions
	bind       *corev3.BindConfig
	http1, h2c map[string]*anypb.Any
	plain      *corev3.TransportSocket
	fallback   *structpb.Struct
}

func newClusterParts(o Options) clusterParts {
	var bind *corev3.BindConfig
	if socket := userTimeout(o.UserTimeout); socket != nil {
		bind = &corev3.BindConfig{SocketOptions: socket}
	}
	return clusterParts{
		bind:    bind,
		eds:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: adsSource()},
		connect: whole(o.ConnectTimeout),
		buffer:  number(connectionBuffer),
		breakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections:     most(o.MaxConnections),
			MaxPendingRequests: most(o.MaxPendingRequests),
			MaxRequests:        most(o.MaxRequests),
			MaxRetries:         most(o.MaxRetries),
		}}},
		ejection:   ejection(),
		connection: &clusterv3.UpstreamConnectionOptions{TcpKeepalive: o.tcpKeepAlive()},
		http1: httpOptions(o, &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: true},
			},
		}),
		h2c: httpOptions(o, &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: flowControl(&corev3.Http2ProtocolOptions{ConnectionKeepalive: o.pings()}, upstreamStreams, upstreamStreamWindow),
			},
		}),
		plain:    &corev3.TransportSocket{Name: "envoy.transport_sockets.raw_buffer", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&rawbufferv3.RawBuffer{})}},
		fallback: &structpb.Struct{Fields: map[string]*structpb.Value{fallbackKey: structpb.NewBoolValue(true)}},
	}
}

// most returns the threshold of a circuit breaker. Envoy's own defaults are below those of
// Kedify, so no limit is said, too.
func most(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		n = math.MaxUint32
	}
	return number(n)
}

func httpOptions(o Options, explicit *httpv3.HttpProtocolOptions_ExplicitHttpConfig) map[string]*anypb.Any {
	return map[string]*anypb.Any{httpOptionsName: packed(&httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:          whole(o.IdleConnTimeout),
			MaxHeadersCount:      number(o.headers()),
			MaxResponseHeadersKb: number(o.headerKB()),
		},
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit},
	})}
}

// Cluster returns the cluster of a backend. It depends on the backend's name and
// protocol alone.
func (t *Translator) Cluster(b *routes.Backend) *clusterv3.Cluster {
	options := t.cluster.http1
	if b.Protocol == routes.H2C {
		options = t.cluster.h2c
	}
	return &clusterv3.Cluster{
		Name:                          b.Cluster,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:              t.cluster.eds,
		ConnectTimeout:                t.cluster.connect,
		PerConnectionBufferLimitBytes: t.cluster.buffer,
		LbPolicy:                      clusterv3.Cluster_ROUND_ROBIN,
		CircuitBreakers:               t.cluster.breakers,
		OutlierDetection:              t.cluster.ejection,
		UpstreamConnectionOptions:     t.cluster.connection,
		UpstreamBindConfig:            t.cluster.bind,
		TypedExtensionProtocolOptions: options,
		TransportSocketMatches:        []*clusterv3.Cluster_TransportSocketMatch{t.toFallback(b.Cluster)},
	}
}

// toFallback has connections of a cluster to the fallback addresses, and to no others,
// begin with a PROXY protocol header that names its object and its Service.
func (t *Translator) toFallback(cluster string) *clusterv3.Cluster_TransportSocketMatch {
	object, service, _ := routes.ParseClusterName(cluster)
	records := []*corev3.TlvEntry{{Type: routes.FallbackTLV, Value: []byte(object.String())}}
	if service != "" { // Envoy refuses an empty one
		records = append(records, &corev3.TlvEntry{Type: routes.FallbackServiceTLV, Value: []byte(service)})
	}
	return &clusterv3.Cluster_TransportSocketMatch{
		Name:  fallbackKey,
		Match: t.cluster.fallback,
		TransportSocket: &corev3.TransportSocket{
			Name: "envoy.transport_sockets.upstream_proxy_protocol",
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&proxyprotocolv3.ProxyProtocolUpstreamTransport{
				Config: &corev3.ProxyProtocolConfig{
					Version:   corev3.ProxyProtocolConfig_V2,
					AddedTlvs: records,
				},
				TransportSocket: t.cluster.plain,
			})},
		},
	}
}
