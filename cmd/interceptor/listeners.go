package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/scrape"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// listeners are all ports of the interceptor.
type listeners struct {
	all   []listener
	proxy *proxy.Server
	xds   *xds.Server
	loads *loads.Ledger
	// own are the servers of admin and metrics, which are closed last.
	own []*http.Server
}

// listener is one port. Its serve returns nil once it is shut down.
type listener struct {
	net.Listener
	name  string
	serve func(net.Listener) error
}

// listen opens all ports before anything is served, so that a port in use stops the
// start. Without a certificate there is no port for TLS.
func listen(ctx context.Context, o *settings.Settings, p *proxy.Proxy, admin http.Handler, certificate *proxy.Certificate, x *xdsServer, registry *prometheus.Registry, log *slog.Logger) (*listeners, error) {
	ls := &listeners{proxy: proxy.NewServer(p), xds: x.Server, loads: p.Loads()}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerForTransactional(scrape.NewGatherer(registry), promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}))
	people := http.NewServeMux()
	people.Handle("/", admin)
	people.HandleFunc("GET /debug/envoys", x.ListEnvoys)
	type port struct {
		name, address string
		serve         func(net.Listener) error
	}
	bounded := func(name string, handler http.Handler) func(net.Listener) error {
		serve := ls.plain(handler, log)
		bound := p.BoundPort(name, "admin-max-connections", o.AdminConnections, o.AdminConnectionsPerAddress)
		return func(l net.Listener) error { return serve(bound.Listener(l)) }
	}
	at := func(port uint16) string { return net.JoinHostPort("", strconv.Itoa(int(port))) }
	ports := []port{
		{"admin", at(o.AdminPort), bounded("admin", people)},
		{"metrics", at(o.MetricsPort), bounded("metrics", metrics)},
		{"proxy", at(o.ProxyPort), ls.proxy.Serve},
		{"fallback", at(o.FallbackPort), func(l net.Listener) error {
			return ls.proxy.ServeFallback(l, proxy.FallbackPeers{
				TLS: x.mutual, MaxAge: o.XDS.MaxConnectionAge, RequireNamespaces: o.XDS.RequireNamespaces,
			})
		}},
		{"xDS", at(o.XDSPort), func(l net.Listener) error {
			bound := p.BoundPort("xds", "xds-max-connections", o.XDSConnections, o.XDSConnectionsPerAddress)
			return x.serve(bound.Listener(l), func() (net.Listener, error) {
				l, err := open(ctx, at(o.XDSPort))
				if err != nil {
					return nil, err
				}
				return bound.Listener(l), nil
			})
		}},
	}
	if certificate != nil {
		ports = append(ports, port{"proxy with TLS", at(o.TLSPort), func(l net.Listener) error { return ls.proxy.ServeTLS(l, certificate) }})
	}
	if o.ProfilingAddress != "" {
		ports = append(ports, port{"profiles", o.ProfilingAddress, ls.plain(profiles(), log)})
	}
	for _, port := range ports {
		l, err := open(ctx, port.address)
		if err != nil {
			for _, other := range ls.all {
				_ = other.Close()
			}
			return nil, fmt.Errorf("port %s (%s): %w", strings.TrimPrefix(port.address, ":"), port.name, err)
		}
		log.Info("listening", "for", port.name, "address", l.Addr().String())
		ls.all = append(ls.all, listener{l, port.name, port.serve})
	}
	return ls, nil
}

func open(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// profiles returns the handler of net/http/pprof.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// plain returns a function that serves a handler for people and probes.
func (ls *listeners) plain(handler http.Handler, log *slog.Logger) func(net.Listener) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		// An answer that its client does not read stays in memory.
		WriteTimeout: time.Minute,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ls.own = append(ls.own, server)
	return func(l net.Listener) error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// serve serves all ports, and returns a channel that gets the errors of those that fail.
func (ls *listeners) serve() <-chan error {
	failed := make(chan error, len(ls.all))
	for _, l := range ls.all {
		go func() {
			if err := l.serve(l.Listener); err != nil {
				failed <- fmt.Errorf("port %s (%s): %w", l.Addr(), l.name, err)
			}
		}()
	}
	return failed
}

// goodbye is how long the xDS server may take to end its streams. Those of load reports end
// after the next report, mostly within a second. The others take that long only if an Envoy
// no longer reads, or never sends anything.
const goodbye = 2 * time.Second

// shutdown ends the xDS server, so that kedify-proxies turn to another interceptor, then
// the proxy, and at last admin and metrics, which show how a drain goes, and tell scalers of
// the last requests. The time is for the requests of the proxy: an Envoy that hangs takes at
// most goodbye of it, and a scaler that hangs as much besides.
func (ls *listeners) shutdown(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, goodbye)
	ls.xds.Shutdown(short)
	cancel()
	err := ls.proxy.Shutdown(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	ls.loads.Close(last)
	cancel()
	for _, server := range ls.own {
		_ = server.Close()
	}
	return err
}
