package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// xdsServer serves kedify-proxies.
type xdsServer struct {
	*xds.Server
	// mutual is nil for plain HTTP/2.
	mutual *tls.Config
}

// newXDS makes the xDS server, which tells the ledger what kedify-proxies report, and calls
// tell with its problems.
func newXDS(o *settings.Settings, ledger *loads.Ledger, log *slog.Logger, tell func(*routes.Table, routes.Changes)) (*xdsServer, error) {
	mutual, err := serverTLS(o, log)
	if err != nil {
		return nil, err
	}
	if mutual == nil && o.CertFile != "" {
		log.Warn("kedify-proxies get the key of --tls-cert-file unencrypted; --xds-cert-file, --xds-key-file and --xds-client-ca-file change that")
	}
	x := &xdsServer{Server: xds.New(o.XDS, envoy.NewTranslator(o.Envoy()), ledger, log), mutual: mutual}
	x.OnProblems(func(opened, resolved []routes.Problem) {
		tell(nil, routes.Changes{Opened: opened, Resolved: resolved})
	})
	return x, nil
}

func (x *xdsServer) serve(l net.Listener, open func() (net.Listener, error)) error {
	return x.Serve(l, x.mutual, open)
}

// serverTLS returns the configuration for mutual TLS; nil for plain HTTP/2.
func serverTLS(o *settings.Settings, log *slog.Logger) (*tls.Config, error) {
	if o.XDSCertFile == "" {
		return nil, nil
	}
	certificate, err := proxy.LoadCertificate(o.XDSCertFile, o.XDSKeyFile, log)
	if err != nil {
		return nil, fmt.Errorf("--xds-cert-file and --xds-key-file: %w", err)
	}
	clients, err := proxy.LoadAuthority(o.XDSClientCAFile, log)
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
