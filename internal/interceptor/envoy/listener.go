package envoy

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// noMatchText is what the embedded proxy answers to a request that no object is for.
const noMatchText = "no HTTPScaledObject is for host \"%REQ(:AUTHORITY):120%\" and path \"%PATH(NQ:PATH):120%\"\n"

// Listeners returns the listener for HTTP and, with Options.TLS, the one for TLS.
func (t *Translator) Listeners() []*listenerv3.Listener {
	manager := packed(t.connectionManager())
	all := []*listenerv3.Listener{t.listener(ListenerName, t.options.HTTPPort, manager)}
	if t.options.TLS {
		l := t.listener(TLSListenerName, t.options.TLSPort, manager)
		l.FilterChains[0].TransportSocket = tlsSocket()
		l.FilterChains[0].TransportSocketConnectTimeout = whole(t.options.ReadHeader)
		all = append(all, l)
	}
	return all
}

func (t *Translator) listener(name string, port uint16, manager *anypb.Any) *listenerv3.Listener {
	address := socket(netip.AddrPortFrom(t.options.Address, port))
	address.GetSocketAddress().Ipv4Compat = takesBoth(t.options.Address)
	return &listenerv3.Listener{
		Name:                          name,
		Address:                       address,
		TcpKeepalive:                  t.options.tcpKeepAlive(),
		SocketOptions:                 userTimeout(t.options.SendTimeout), // connections inherit it
		PerConnectionBufferLimitBytes: number(connectionBuffer),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
			}},
		}},
	}
}

func (t *Translator) connectionManager() *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		CodecType:  hcmv3.HttpConnectionManager_AUTO,
		StatPrefix: StatPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: adsSource(), RouteConfigName: RouteConfigurationName,
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{SuppressEnvoyHeaders: true})},
		}},
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},

		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:     whole(t.options.Idle),
			MaxHeadersCount: number(t.options.headers()),
		},
		MaxRequestHeadersKb:   number(t.options.headerKB()),
		RequestHeadersTimeout: whole(t.options.ReadHeader),
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{
			AcceptHttp_10:  true,
			EnableTrailers: true,
			// h2c is an offer that may be ignored; without this it is an error.
			IgnoreHttp_11Upgrade: []*matcherv3.StringMatcher{{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "h2c"}, IgnoreCase: true,
			}},
		},
		Http2ProtocolOptions: flowControl(&corev3.Http2ProtocolOptions{ConnectionKeepalive: t.options.pings()}, t.options.streams(), streamWindow),

		// X-Forwarded-*, as in the embedded proxy: the address of the client is added
		// to those before it, the scheme is kept if there is one. No client is trusted
		// by its address, so no address is internal. (An empty list would mean those of
		// private networks.)
		UseRemoteAddress:  wrapperspb.Bool(true),
		XffNumTrustedHops: 1,
		InternalAddressConfig: &hcmv3.HttpConnectionManager_InternalAddressConfig{CidrRanges: []*corev3.CidrRange{{
			AddressPrefix: "255.255.255.255", PrefixLen: number(32),
		}}},
		// x-request-id is made for requests without it. Envoy makes it known to tracers by
		// changing a digit, unless told not to.
		GenerateRequestId:         wrapperspb.Bool(true),
		PreserveExternalRequestId: true,
		RequestIdExtension: &hcmv3.RequestIDExtension{TypedConfig: packed(&uuidv3.UuidRequestIdConfig{
			PackTraceReason: wrapperspb.Bool(false),
		})},
		AccessLog: t.accessLogs(),

		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,

		// The path is matched and passed on as it was sent.
		NormalizePath:        wrapperspb.Bool(false),
		StripTrailingHostDot: true,

		LocalReplyConfig: t.localReplies(),
	}
	if t.options.Edge {
		m.XffNumTrustedHops = 0
		m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{dropForwarded()}
	}
	return m
}

// ofClients matches the names of headers that describe a client: the same as in the
// embedded proxy.
const ofClients = `forwarded|x[-_]real[-_]ip|x[-_]forwarded[-_].*`

// dropForwarded removes the headers in which a client describes itself, before Envoy
// reads them.
func dropForwarded() *corev3.TypedExtensionConfig {
	mutation := &headermutationv3.HeaderMutation{Mutations: []*mutationrulesv3.HeaderMutation{{
		Action: &mutationrulesv3.HeaderMutation_RemoveOnMatch_{RemoveOnMatch: &mutationrulesv3.HeaderMutation_RemoveOnMatch{
			KeyMatcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
				SafeRegex: &matcherv3.RegexMatcher{Regex: ofClients},
			}},
		}},
	}}}
	return &corev3.TypedExtensionConfig{Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: packed(mutation)}
}

// localReplies has Envoy's own 404 state the reason, and its own 503 for lack of room say
// when to come again. Those of applications are left alone.
func (t *Translator) localReplies() *hcmv3.LocalReplyConfig {
	retryAfter := strconv.FormatInt(max(1, int64(t.options.RetryAfter/time.Second)), 10)
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: withCode(http.StatusNotFound, "kedify-proxy.no-match"),
		BodyFormatOverride: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: noMatchText},
			}},
			ContentType: "text/plain; charset=utf-8",
		},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: "x-content-type-options", Value: "nosniff"},
		}},
	}, {
		// Above a circuit breaker, or short of memory, for which there is no flag.
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{
			Filters: []*accesslogv3.AccessLogFilter{withFlags("UO"), where(`response.code_details == "overload"`)},
		}}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: "retry-after", Value: retryAfter},
		}},
	}}}
}

// withCode matches answers with a status code. Envoy wants a name for a value that can be
// changed at run time.
func withCode(code uint32, key string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_EQ, Value: &corev3.RuntimeUInt32{DefaultValue: code, RuntimeKey: key},
		}},
	}}
}

// withFlags matches answers with any of Envoy's response flags.
func withFlags(flags ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags},
	}}
}

func tlsSocket() *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.DownstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
				AlpnProtocols:                  []string{"h2", "http/1.1"},
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: SecretName, SdsConfig: adsSource()}},
			},
		})},
	}
}
