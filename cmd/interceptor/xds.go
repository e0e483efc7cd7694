package main

import (
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// xdsServer serves kedify-proxies.
type xdsServer struct {
	*xds.Server
	// mutual is nil for plain HTTP/2.
	mutual *tls.Config
}

// newXDS makes the xDS server, which calls tell with its problems.
func newXDS(o *options, log *slog.Logger, tell func(*routes.Table, routes.Changes)) (*xdsServer, error) {
	translator, err := o.xds.translator(&o.proxy, o.certFile != "")
	if err != nil {
		return nil, err
	}
	mutual, err := o.xds.serverTLS(log)
	if err != nil {
		return nil, err
	}
	if mutual == nil && o.certFile != "" {
		log.Warn("kedify-proxies get the key of --tls-cert-file unencrypted; --xds-cert-file, --xds-key-file and --xds-client-ca-file change that")
	}
	x := &xdsServer{Server: xds.New(o.xds.settings, translator, log), mutual: mutual}
	x.OnProblems(func(opened, resolved []routes.Problem) {
		tell(nil, routes.Changes{Opened: opened, Resolved: resolved})
	})
	return x, nil
}

func (x *xdsServer) serve(l net.Listener) error { return x.Serve(l, x.mutual) }
