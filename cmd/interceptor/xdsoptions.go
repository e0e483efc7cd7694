package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// xdsOptions are the settings of the xDS server, and of the kedify-proxies that it
// programs.
type xdsOptions struct {
	port                            uint16
	certFile, keyFile, clientCAFile string
	settings                        xds.Settings

	address                                       string // of kedify-proxies' listeners
	httpPort, tlsPort                             uint16
	connections, pendingRequests, requests, tries uint32
}

func (o *xdsOptions) readEnvironment(lookup func(string) (string, bool)) error {
	*o = xdsOptions{port: 5678, settings: xds.DefaultSettings(), address: "0.0.0.0", httpPort: 8080, tlsPort: 8443}
	wrong := []error{o.settings.ReadEnvironment(lookup)}
	for _, limit := range []struct {
		name string
		into *uint32
	}{
		{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS", &o.connections},
		{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS", &o.pendingRequests},
		{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS", &o.requests},
		{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES", &o.tries},
	} {
		wrong = append(wrong, readNumber(lookup, limit.name, "a number above 0", limit.into))
	}
	return errors.Join(wrong...)
}

func (o *xdsOptions) flags(f *pflag.FlagSet) {
	f.Uint16Var(&o.port, "xds-port", o.port, "port that kedify-proxies get their configuration from")
	f.StringVar(&o.certFile, "xds-cert-file", o.certFile, "certificate of the xDS server, PEM, for mutual TLS; read again when it changes; plain HTTP/2 when left out")
	f.StringVar(&o.keyFile, "xds-key-file", o.keyFile, "key of the xDS server's certificate, PEM")
	f.StringVar(&o.clientCAFile, "xds-client-ca-file", o.clientCAFile, "authority of the kedify-proxies' certificates, PEM; read again when it changes")
	f.BoolVar(&o.settings.RequireNamespaces, "xds-require-namespaces", o.settings.RequireNamespaces, "turn away kedify-proxies whose certificate names no namespace, and connections to the fallback port without TLS")
	f.DurationVar(&o.settings.KeepaliveTime, "xds-keepalive-time", o.settings.KeepaliveTime, "how long a kedify-proxy may be silent before it is asked whether it lives (KEDIFY_XDS_KEEPALIVE_TIME)")
	f.DurationVar(&o.settings.KeepaliveTimeout, "xds-keepalive-timeout", o.settings.KeepaliveTimeout, "how long it has to answer (KEDIFY_XDS_KEEPALIVE_TIMEOUT)")
	f.DurationVar(&o.settings.KeepaliveMinTime, "xds-keepalive-min-time", o.settings.KeepaliveMinTime, "how often a kedify-proxy may ask the same (KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME)")
	f.DurationVar(&o.settings.MaxConnectionAge, "xds-max-connection-age", o.settings.MaxConnectionAge, "how old a connection of a kedify-proxy becomes, and up to a third more, before it makes another, so that they spread over the interceptors again, and its certificate is looked at anew; 0 for any age")
	f.Uint32Var(&o.settings.MaxConcurrentStreams, "xds-max-concurrent-streams", o.settings.MaxConcurrentStreams, "streams of one connection, and of all connections from one address; each kedify-proxy has one (KEDIFY_XDS_MAX_CONCURRENT_STREAMS)")
	f.DurationVar(&o.settings.Linger, "xds-linger", o.settings.Linger, "how long a cluster stays in a kedify-proxy after the last route to it")
	f.StringVar(&o.address, "kedify-proxy-address", o.address, "IP address on which kedify-proxies take requests; with :: they take them over IPv6 and IPv4, on nodes that have IPv6")
	f.Uint16Var(&o.httpPort, "kedify-proxy-port", o.httpPort, "port on which kedify-proxies take requests")
	f.Uint16Var(&o.tlsPort, "kedify-proxy-tls-port", o.tlsPort, "port on which kedify-proxies take requests with TLS, when there is a certificate")
	f.Uint32Var(&o.connections, "kedify-proxy-max-connections", o.connections, "connections of a kedify-proxy to one backend, 0 for any number (KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS)")
	f.Uint32Var(&o.pendingRequests, "kedify-proxy-max-pending-requests", o.pendingRequests, "requests that wait for one of them (KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS)")
	f.Uint32Var(&o.requests, "kedify-proxy-max-requests", o.requests, "requests at a time to one backend (KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS)")
	f.Uint32Var(&o.tries, "kedify-proxy-max-retries", o.tries, "requests to one backend that are being tried again at a time (KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES)")
}

func (o *xdsOptions) validate() error {
	if files := []string{o.certFile, o.keyFile, o.clientCAFile}; slices.Contains(files, "") && strings.Join(files, "") != "" {
		return errors.New("--xds-cert-file, --xds-key-file and --xds-client-ca-file: give all for mutual TLS, or none for plain HTTP/2")
	}
	if o.settings.RequireNamespaces && o.certFile == "" {
		return errors.New("--xds-require-namespaces is for mutual TLS: give --xds-cert-file, --xds-key-file and --xds-client-ca-file, too")
	}
	if o.port == 0 || o.httpPort == 0 || o.tlsPort == 0 {
		return errors.New("--xds-port, --kedify-proxy-port and --kedify-proxy-tls-port: expected ports from 1 to 65535")
	}
	if address, err := netip.ParseAddr(o.address); err != nil || address.Zone() != "" {
		return fmt.Errorf("--kedify-proxy-address is %q; expected an IP address such as 0.0.0.0 or ::", o.address)
	}
	if o.httpPort == o.tlsPort {
		return fmt.Errorf("--kedify-proxy-port and --kedify-proxy-tls-port are both %d; expected two ports", o.httpPort)
	}
	if err := o.settings.Validate(); err != nil {
		return fmt.Errorf("the flags --xds-*, or the environment variables KEDIFY_XDS_*: %w", err)
	}
	return nil
}

// translator returns a Translator whose resources behave as the embedded proxy does, as
// far as both have the same settings.
func (o *xdsOptions) translator(p *proxy.Settings, withTLS bool) (*envoy.Translator, error) {
	address, err := netip.ParseAddr(o.address)
	if err != nil {
		return nil, fmt.Errorf("--kedify-proxy-address: %w", err)
	}
	return envoy.NewTranslator(envoy.Options{
		Address: address, HTTPPort: o.httpPort, TLSPort: o.tlsPort, TLS: withTLS, Edge: p.Edge,
		ResponseHeader: p.ResponseHeader,
		Connections: envoy.Connections{
			ConnectTimeout: p.ConnectTimeout, IdleConnTimeout: p.IdleConnTimeout, KeepAlive: p.KeepAlive, UserTimeout: p.UserTimeout,
			MaxHeaderBytes: p.MaxHeaderBytes, ReadHeader: p.ReadHeader, Idle: p.Idle, SendTimeout: p.SendTimeout, MaxStreams: p.MaxStreams,
		},
		MaxConnections: limit(o.connections), MaxPendingRequests: limit(o.pendingRequests),
		MaxRequests: limit(o.requests), MaxRetries: limit(o.tries),
	})
}

// limit returns nil for 0, which is for no limit.
func limit(n uint32) *uint32 {
	if n == 0 {
		return nil
	}
	return &n
}

// serverTLS returns the configuration for mutual TLS; nil for plain HTTP/2.
func (o *xdsOptions) serverTLS(log *slog.Logger) (*tls.Config, error) {
	if o.certFile == "" {
		return nil, nil
	}
	certificate, err := proxy.LoadCertificate(o.certFile, o.keyFile, log)
	if err != nil {
		return nil, fmt.Errorf("--xds-cert-file and --xds-key-file: %w", err)
	}
	clients, err := proxy.LoadAuthority(o.clientCAFile, log)
	if err != nil {
		return nil, fmt.Errorf("--xds-client-ca-file: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: certificate.Get,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Get(),
		// With a session ticket, a client could resume after its authority was removed.
		SessionTicketsDisabled: true,
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := config.Clone()
		current.ClientCAs = clients.Get()
		return current, nil
	}
	return config, nil
}
