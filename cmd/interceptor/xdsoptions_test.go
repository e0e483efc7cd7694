package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// readXDS returns the options that result from variables and flags.
func readXDS(variables map[string]string, args ...string) (*options, error) {
	o, err := readOptions(func(name string) (string, bool) { v, ok := variables[name]; return v, ok })
	if err != nil {
		return nil, err
	}
	cmd := newServe(func(string) (string, bool) { return "", false })
	cmd.ResetFlags()
	o.flags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func TestXDSVariablesAndFlags(t *testing.T) {
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		is        func(*xdsOptions) bool
	}{
		"defaults": {is: func(o *xdsOptions) bool {
			return o.port == 5678 && o.httpPort == 8080 && o.tlsPort == 8443 && o.certFile == "" &&
				o.settings.KeepaliveTime == 30*time.Second && o.settings.KeepaliveTimeout == 5*time.Second && o.settings.MaxConnectionAge == 30*time.Minute
		}},
		"variables": {
			variables: map[string]string{
				"KEDIFY_XDS_KEEPALIVE_TIME": "1m", "KEDIFY_XDS_KEEPALIVE_TIMEOUT": "2s",
				"KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME": "3s", "KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "4",
			},
			is: func(o *xdsOptions) bool {
				s := o.settings
				return s.KeepaliveTime == time.Minute && s.KeepaliveTimeout == 2*time.Second && s.KeepaliveMinTime == 3*time.Second && s.MaxConcurrentStreams == 4
			},
		},
		"flags win": {
			variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_TIME": "1m", "KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "4"},
			args: []string{
				"--xds-keepalive-time=2m", "--xds-keepalive-timeout=3s", "--xds-keepalive-min-time=4s",
				"--xds-max-concurrent-streams=5", "--xds-linger=6s", "--xds-max-connection-age=7s", "--xds-port=7", "--kedify-proxy-port=8", "--kedify-proxy-tls-port=9",
			},
			is: func(o *xdsOptions) bool {
				s := o.settings
				return s.KeepaliveTime == 2*time.Minute && s.KeepaliveTimeout == 3*time.Second && s.KeepaliveMinTime == 4*time.Second &&
					s.MaxConcurrentStreams == 5 && s.Linger == 6*time.Second && s.MaxConnectionAge == 7*time.Second && o.port == 7 && o.httpPort == 8 && o.tlsPort == 9
			},
		},
		"files": {
			args: []string{"--xds-cert-file=c", "--xds-key-file=k", "--xds-client-ca-file=a"},
			is:   func(o *xdsOptions) bool { return o.certFile == "c" && o.keyFile == "k" && o.clientCAFile == "a" },
		},
		"names": {
			args: []string{"--xds-cert-file=c", "--xds-key-file=k", "--xds-client-ca-file=a", "--xds-require-namespaces"},
			is:   func(o *xdsOptions) bool { return o.settings.RequireNamespaces },
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := readXDS(tt.variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.is(&o.xds) {
				t.Errorf("options %+v", o.xds)
			}
		})
	}
}

func TestWhatCannotBeOfXDSIsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		says      string
	}{
		"keepalive":              {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_TIME": "30"}, says: `KEDIFY_XDS_KEEPALIVE_TIME is "30"`},
		"timeout":                {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_TIMEOUT": "0s"}, says: `KEDIFY_XDS_KEEPALIVE_TIMEOUT is "0s"`},
		"least time":             {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME": "-1s"}, says: `MIN_TIME is "-1s"`},
		"streams":                {variables: map[string]string{"KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "0"}, says: `KEDIFY_XDS_MAX_CONCURRENT_STREAMS is "0"`},
		"connections":            {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS": "-1"}, says: `MAX_UPSTREAM_CONNECTIONS is "-1"; expected a number above 0`},
		"pending":                {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS": "0"}, says: `PENDING_REQUESTS is "0"`},
		"requests":               {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS": "4294967296"}, says: `UPSTREAM_REQUESTS is "4294967296"`},
		"retries":                {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES": "many"}, says: `RETRIES is "many"`},
		"keepalive, flag":        {args: []string{"--xds-keepalive-time=0s"}, says: "--xds-*, or the environment variables KEDIFY_XDS_*: xDS setting KeepaliveTime is 0s; expected more than 0s"},
		"linger, flag":           {args: []string{"--xds-linger=-1s"}, says: "xDS setting Linger is -1s; expected 0s or more"},
		"connection age, flag":   {args: []string{"--xds-max-connection-age=10ms"}, says: "xDS setting MaxConnectionAge is 10ms; expected 1s or more, or 0s for connections of any age"},
		"streams, flag":          {args: []string{"--xds-max-concurrent-streams=0"}, says: "--xds-*"},
		"no number, flag":        {args: []string{"--kedify-proxy-max-connections=-1"}, says: "--kedify-proxy-max-connections"},
		"port":                   {args: []string{"--xds-port=0"}, says: "--xds-port"},
		"no address":             {args: []string{"--kedify-proxy-address=[::]"}, says: `--kedify-proxy-address is "[::]"; expected an IP address such as 0.0.0.0 or ::`},
		"an address of a zone":   {args: []string{"--kedify-proxy-address=fe80::1%eth0"}, says: "--kedify-proxy-address"},
		"too large a port":       {args: []string{"--kedify-proxy-port=65536"}, says: "--kedify-proxy-port"},
		"the same port":          {args: []string{"--kedify-proxy-port=80", "--kedify-proxy-tls-port=80"}, says: "--kedify-proxy-port and --kedify-proxy-tls-port are both 80"},
		"certificate alone":      {args: []string{"--xds-cert-file=c"}, says: "--xds-cert-file, --xds-key-file and --xds-client-ca-file"},
		"no authority":           {args: []string{"--xds-cert-file=c", "--xds-key-file=k"}, says: "--xds-client-ca-file"},
		"authority alone":        {args: []string{"--xds-client-ca-file=a"}, says: "--xds-cert-file"},
		"names without TLS":      {args: []string{"--xds-require-namespaces"}, says: "--xds-require-namespaces is for mutual TLS"},
		"both, variable by name": {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_TIME": "x", "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES": "x"}, says: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readXDS(tt.variables, tt.args...); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q in it", err, tt.says)
			}
		})
	}
}

// The limits reach the clusters, by flag and by variable; no limit stays no limit.
func TestLimitsReachTheClusters(t *testing.T) {
	const none = 1_000_000 // Envoy's limit if there is none
	variables := map[string]string{
		"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS": "11", "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS": "12",
		"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS": "13", "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES": "14",
	}
	for name, tt := range map[string]struct {
		variables map[string]string
		args      []string
		want      [4]uint32
	}{
		"defaults":  {want: [4]uint32{none, none, none, none}},
		"variables": {variables: variables, want: [4]uint32{11, 12, 13, 14}},
		"flags win": {
			variables: variables,
			args:      []string{"--kedify-proxy-max-connections=21", "--kedify-proxy-max-pending-requests=22", "--kedify-proxy-max-requests=0"},
			want:      [4]uint32{21, 22, none, 14},
		},
		"a flag alone": {args: []string{"--kedify-proxy-max-retries=24"}, want: [4]uint32{none, none, none, 24}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := readXDS(tt.variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			translator, err := o.xds.translator(&o.proxy, false)
			if err != nil {
				t.Fatal(err)
			}
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
		"defaults": {want: reached{
			Connect: time.Second, IdleUpstream: 90 * time.Second, KeepAlive: 30 * time.Second, ReadHeader: 10 * time.Second,
			Handshake: 10 * time.Second, IdleDownstream: 3 * time.Minute, Probes: 30, RequestKB: 64, ResponseKB: 64, Streams: 250,
			Addresses: []string{"0.0.0.0:8080", "0.0.0.0:8443"},
		}},
		"variables and flags": {
			variables: map[string]string{"KEDA_HTTP_CONNECT_TIMEOUT": "3s", "KEDA_HTTP_KEEP_ALIVE": "5s", "KEDA_HTTP_IDLE_CONN_TIMEOUT": "0s"},
			args: []string{
				"--response-header-timeout=4s", "--max-header-bytes=70000", "--read-header-timeout=6s", "--idle-timeout=7s", "--max-streams=8",
				"--kedify-proxy-address=::", "--kedify-proxy-port=81", "--kedify-proxy-tls-port=82",
			},
			want: reached{
				Connect: 3 * time.Second, ResponseHeader: 4 * time.Second, KeepAlive: 5 * time.Second, ReadHeader: 6 * time.Second,
				Handshake: 6 * time.Second, IdleDownstream: 7 * time.Second, Probes: 5, RequestKB: 69, ResponseKB: 69, Streams: 8,
				Addresses: []string{"[::]:81", "[::]:82"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := readXDS(tt.variables, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			translator, err := o.xds.translator(&o.proxy, true)
			if err != nil {
				t.Fatal(err)
			}
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

func TestFilesOfMutualTLS(t *testing.T) {
	a := newAuthority(t, "authority")
	certFile, keyFile := a.files("interceptor", a.sign("interceptor", ecdsaKey(t)))
	missing, text := filepath.Join(t.TempDir(), "missing"), a.write("text", []byte("no certificate"))
	for name, tt := range map[string]struct {
		files [3]string // certificate, key, authority
		says  string    // empty for no error
	}{
		"all":                  {files: [3]string{certFile, keyFile, a.file("ca.crt")}},
		"missing certificate":  {files: [3]string{missing, keyFile, a.file("ca.crt")}, says: "--xds-cert-file"},
		"another's key":        {files: [3]string{certFile, text, a.file("ca.crt")}, says: "--xds-key-file"},
		"missing authority":    {files: [3]string{certFile, keyFile, missing}, says: "--xds-client-ca-file"},
		"authority of no form": {files: [3]string{certFile, keyFile, text}, says: "--xds-client-ca-file: authority of clients " + text + ": no certificate in it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &xdsOptions{certFile: tt.files[0], keyFile: tt.files[1], clientCAFile: tt.files[2]}
			config, err := o.serverTLS(slog.New(slog.DiscardHandler))
			switch {
			case tt.says == "" && (err != nil || config == nil):
				t.Errorf("configuration %v, %v", config, err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("error %v, want %q in it", err, tt.says)
			}
		})
	}
	if config, err := new(xdsOptions).serverTLS(nil); config != nil || err != nil {
		t.Errorf("without files: %v, %v; want plain HTTP/2", config, err)
	}
}
