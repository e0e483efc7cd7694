package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
)

// A silent connection to the xDS server does not use up the time that requests in flight
// have during a graceful shutdown.
func TestSilentConnectionDoesNotHoldUpTheShutdown(t *testing.T) {
	o := defaultSettings(t)
	freeport.Set(t, &o.ProxyPort, &o.TLSPort, &o.AdminPort, &o.MetricsPort, &o.FallbackPort, &o.XDSPort)
	log := slog.New(slog.DiscardHandler)
	p := proxy.New(o.Proxy, log)
	x, err := newXDS(o, p.Loads(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	ls, err := listen(t.Context(), o, p, p.Admin(noProblems, alive), nil, x, prometheus.NewRegistry(), log)
	if err != nil {
		t.Fatal(err)
	}
	failed := ls.serve()
	under, finish := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(under)
		<-finish
		fmt.Fprint(w, "finished")
	}))
	t.Cleanup(app.Close)
	s := newStackOf(t, o, p, x)
	s.object("demo")
	s.endpoint("demo", app.Listener.Addr().String())
	silent, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", o.XDSPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	answer := make(chan string, 1)
	go func() {
		_, text, err := ask(newClient(t, &http.Transport{}), "http", o.ProxyPort, http.MethodGet, nil)
		answer <- fmt.Sprint(text, " ", err)
	}()
	<-under
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- ls.shutdown(ctx) }()
	// Once the proxy takes no more connections, its shutdown has begun, with time left.
	for {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", o.ProxyPort))
		if err != nil {
			break
		}
		_ = c.Close()
		if ctx.Err() != nil {
			t.Fatal("the proxy is not shut down")
		}
	}
	close(finish)
	if got := <-answer; got != "finished <nil>" {
		t.Errorf("the request under way: %s", got)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}
