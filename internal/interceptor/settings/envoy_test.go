package settings

import (
	"errors"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// The limits reach the clusters, by flag and by variable; no limit stays no limit.
func TestLimitsReachTheClusters(t *testing.T) {
	const none = math.MaxUint32 // Envoy's limit if there is none
	variables := map[string]string{
		"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS": "11", "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS": "12",
		"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS": "13", "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES": "14",
	}
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		want      [4]uint32
	}{
		"defaults":  {want: [4]uint32{8192, 8192, 8192, none}},
		"variables": {variables: variables, want: [4]uint32{11, 12, 13, 14}},
		"flags win": {
			variables: variables,
			args:      []string{"--kedify-proxy-max-connections=21", "--kedify-proxy-max-pending-requests=22", "--kedify-proxy-max-requests=0"},
			want:      [4]uint32{21, 22, none, 14},
		},
		"a flag alone": {args: []string{"--kedify-proxy-max-retries=24"}, want: [4]uint32{8192, 8192, 8192, 24}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := read(tt.variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			translator := envoy.NewTranslator(s.Envoy())
			breakers := translator.Cluster(&routes.Backend{Cluster: "demo/app/app"}).GetCircuitBreakers().GetThresholds()
			if len(breakers) != 1 {
				t.Fatalf("%d thresholds", len(breakers))
			}
			b := breakers[0]
			got := [4]uint32{b.GetMaxConnections().GetValue(), b.GetMaxPendingRequests().GetValue(), b.GetMaxRequests().GetValue(), b.GetMaxRetries().GetValue()}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("connections, pending, requests, retries (-want +got):\n%s", diff)
			}
		})
	}
}

// The embedded proxy's settings for connections apply to kedify-proxies, too; the defaults
// are the same.
func TestSettingsOfTheProxyReachEnvoy(t *testing.T) {
	type reached struct {
		Connect, ResponseHeader, IdleUpstream, KeepAlive, ReadHeader, Handshake, IdleDownstream time.Duration

		Probes, RequestKB, ResponseKB, Streams uint32
		Addresses                              []string
	}
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		want      reached
	}{
		"defaults": {args: []string{"--tls-cert-file=c", "--tls-key-file=k"}, want: reached{
			Connect: time.Second, IdleUpstream: 90 * time.Second, KeepAlive: 30 * time.Second, ReadHeader: 10 * time.Second,
			Handshake: 10 * time.Second, IdleDownstream: 3 * time.Minute, Probes: 30, RequestKB: 64, ResponseKB: 64, Streams: 250,
			Addresses: []string{"0.0.0.0:8080", "0.0.0.0:8443"},
		}},
		"variables and flags": {
			variables: map[string]string{"KEDA_HTTP_CONNECT_TIMEOUT": "3s", "KEDA_HTTP_KEEP_ALIVE": "5s", "KEDA_HTTP_IDLE_CONN_TIMEOUT": "0s"},
			args: []string{
				"--response-header-timeout=4s", "--max-header-bytes=70000", "--read-header-timeout=6s", "--idle-timeout=7s", "--max-streams=8",
				"--tls-cert-file=c", "--tls-key-file=k", "--kedify-proxy-address=::", "--kedify-proxy-port=81", "--kedify-proxy-tls-port=82",
			},
			want: reached{
				Connect: 3 * time.Second, ResponseHeader: 4 * time.Second, KeepAlive: 5 * time.Second, ReadHeader: 6 * time.Second,
				Handshake: 6 * time.Second, IdleDownstream: 7 * time.Second, Probes: 5, RequestKB: 69, ResponseKB: 69, Streams: 8,
				Addresses: []string{"[::]:81", "[::]:82"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := read(tt.variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			translator := envoy.NewTranslator(s.Envoy())
			c := translator.Cluster(&routes.Backend{Cluster: "demo/app/app"})
			listeners := translator.Listeners()
			var upstream httpv3.HttpProtocolOptions
			var manager hcmv3.HttpConnectionManager
			if err := errors.Join(
				c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"].UnmarshalTo(&upstream),
				listeners[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager),
			); err != nil {
				t.Fatal(err)
			}
			got := reached{
				Connect:        c.GetConnectTimeout().AsDuration(),
				ResponseHeader: translator.NoMatch().GetRetryPolicy().GetPerTryTimeout().AsDuration(),
				IdleUpstream:   upstream.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(),
				KeepAlive:      manager.GetHttp2ProtocolOptions().GetConnectionKeepalive().GetInterval().AsDuration(),
				ReadHeader:     manager.GetRequestHeadersTimeout().AsDuration(),
				Handshake:      listeners[1].GetFilterChains()[0].GetTransportSocketConnectTimeout().AsDuration(),
				IdleDownstream: manager.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(),
				Probes:         c.GetUpstreamConnectionOptions().GetTcpKeepalive().GetKeepaliveInterval().GetValue(),
				RequestKB:      manager.GetMaxRequestHeadersKb().GetValue(),
				ResponseKB:     upstream.GetCommonHttpProtocolOptions().GetMaxResponseHeadersKb().GetValue(),
				Streams:        manager.GetHttp2ProtocolOptions().GetMaxConcurrentStreams().GetValue(),
			}
			if upstream.GetCommonHttpProtocolOptions().GetIdleTimeout() == nil {
				t.Error("an unused connection to an application is kept for as long as Envoy likes")
			}
			for _, l := range listeners {
				at := l.GetAddress().GetSocketAddress()
				got.Addresses = append(got.Addresses, net.JoinHostPort(at.GetAddress(), fmt.Sprint(at.GetPortValue())))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what Envoy is told (-want +got):\n%s", diff)
			}
		})
	}
}

// Kedify's chart turns the access log of kedify-proxies on by its format. The flags win.
func TestAccessLogOfKedifyProxies(t *testing.T) {
	for name, tt := range map[string]struct {
		chart string
		args  []string
		want  [2]string
	}{
		"neither":             {want: [2]string{"off", "json"}},
		"the chart's JSON":    {chart: "json", want: [2]string{"all", "json"}},
		"the chart's text":    {chart: "plaintext", want: [2]string{"all", "text"}},
		"a flag":              {args: []string{"--kedify-proxy-access-log=annotated", "--kedify-proxy-access-log-format=text"}, want: [2]string{"annotated", "text"}},
		"a flag and the text": {chart: "plaintext", args: []string{"--kedify-proxy-access-log=annotated"}, want: [2]string{"annotated", "text"}},
		"off by a flag":       {chart: "plaintext", args: []string{"--kedify-proxy-access-log=off", "--kedify-proxy-access-log-format=json"}, want: [2]string{"off", "json"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := read(map[string]string{"KEDIFY_PROXY_ACCESS_LOG_TYPE": tt.chart}, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			o := s.Envoy()
			if got := [2]string{o.AccessLog, o.AccessLogFormat}; got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// So does KEDA's chart with that of the embedded proxy. The flags win, and the log says so.
func TestAccessLogOfTheEmbeddedProxy(t *testing.T) {
	for name, tt := range map[string]struct {
		chart string
		args  []string
		want  [2]string
		told  bool
	}{
		"neither":          {want: [2]string{"off", "json"}},
		"the chart":        {chart: "true", want: [2]string{"all", "json"}},
		"not by the chart": {chart: "false", want: [2]string{"off", "json"}},
		"flags":            {chart: "false", args: []string{"--access-log=annotated", "--access-log-format=text"}, want: [2]string{"annotated", "text"}},
		"off by a flag":    {chart: "true", args: []string{"--access-log=off"}, want: [2]string{"off", "json"}, told: true},
		"text by a flag":   {chart: "true", args: []string{"--access-log-format=text"}, want: [2]string{"all", "text"}},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]string{"KEDA_HTTP_LOG_REQUESTS": tt.chart}
			s, _, err := read(variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := [2]string{s.Proxy.AccessLog, s.Proxy.AccessLogFormat}; got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if told := said(t, []string{"KEDA_HTTP_LOG_REQUESTS=" + tt.chart}, tt.args...); len(told) > 0 != tt.told {
				t.Errorf("the log says %v", told)
			}
		})
	}
}
