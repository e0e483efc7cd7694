package xds

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// connects tells whether something listens at an address.
func connects(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// An Envoy of an interceptor that withdraws goes to another interceptor, follows it, and
// may come back after Resume. No request is lost, and resources that the Envoy has are not
// sent again.
func TestRealEnvoyIsSentAway(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name)
		}
		f.service("canary", backend(t, "canary"))
		f.commit()
		first, firstAddress := f.server, f.xds
		second := f.newServer(first.render.Translator)
		second.Update(f.builder.Table(), routes.Changes{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serve(t, second, l)
		secondAddress := l.Addr().String()
		between := newForwarder(t, firstAddress)
		f.xds = between.address
		f.start(sotw)
		f.waitFor("a.example.com", "a")
		stop := f.load("a.example.com")

		moves := func(from, to *Server, fromAddress, toAddress string, split ...string) {
			t.Helper()
			from.Withdraw()
			from.Withdraw() // changes nothing
			eventually(t, "no connection taken", func() bool { return !connects(fromAddress) })
			between.target.Store(&toAddress)
			eventually(t, "the Envoy at the other interceptor", func() bool { return len(to.connected()) == 1 && len(from.connected()) == 0 })
			f.server = to
			eventually(t, "all acknowledged there", func() bool {
				state := f.theState()
				return len(state.Types) >= 4 && state.Unacknowledged == 0
			})
			f.object("b", split...)
			table, changes := f.builder.Commit()
			before := f.pushes()
			first.Update(table, changes)
			second.Update(table, changes)
			f.waitFor("b.example.com", split[0][:len(split[0])-len("=100")])
			if got := f.pushes()["listener"] - before["listener"]; got != 0 {
				t.Errorf("%d listeners were sent", got)
			}
		}
		moves(first, second, firstAddress, secondAddress, "canary=100", "b=0")
		want := map[string]int{"cluster": 1, "endpoints": 1, "routes": 1, "listener": 0, "secret": 0}
		if diff := cmp.Diff(want, f.pushes()); diff != "" {
			t.Errorf("pushes to an Envoy that has everything else (-want +got):\n%s", diff)
		}
		first.Resume()
		first.Resume() // changes nothing
		eventually(t, "connections taken again", func() bool { return connects(firstAddress) })
		moves(second, first, secondAddress, firstAddress, "b=100", "canary=0")
		requireAnswersOf(t, stop(), "a")
		if n, m := count(first.metrics.sentAway), count(second.metrics.sentAway); n != 1 || m != 1 {
			t.Errorf("%d and %d streams counted as sent away, want one each", n, m)
		}
	})
}

// Withdraw ends streams one after another, at last those of Envoys that do not answer, and
// takes none until Resume.
func TestWithdraw(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	c := w.dialer()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	var streams []discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	for range 5 {
		s, err := c.DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds]}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	w.server.Withdraw()
	for i, s := range streams {
		var err error
		for err == nil { // the first stream has not answered
			if i > 0 {
				err = s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[cds], ResponseNonce: nonceOf(1)})
			}
			if err == nil || errors.Is(err, io.EOF) {
				_, err = s.Recv()
			}
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("stream %d ended with %v", i, err)
		}
	}
	eventually(t, "all streams ended", func() bool { return len(w.server.connected()) == 0 })
	if n := count(w.server.metrics.sentAway); n != 5 {
		t.Errorf("%d streams counted as sent away, want 5", n)
	}
}

// A server that withdraws before it serves, and is shut down before Resume, does neither.
func TestWithdrawBeforeServe(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.server.Withdraw()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := serve(t, w.server, l)
	eventually(t, "no connection taken", func() bool { return !connects(l.Addr().String()) })
	w.server.Resume()
	eventually(t, "connections taken", func() bool { return connects(l.Addr().String()) })
	w.server.Withdraw()
	eventually(t, "no connection taken", func() bool { return !connects(l.Addr().String()) })
	stop()
	w.server.Resume()
	if connects(l.Addr().String()) {
		t.Error("it serves after Shutdown")
	}
}
