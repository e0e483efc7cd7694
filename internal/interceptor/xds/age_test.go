package xds

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// forwarder stands in for a Service: it forwards each new connection to the target that
// is set at that time.
type forwarder struct {
	address string
	target  atomic.Pointer[string]
}

func newForwarder(t *testing.T, target string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f := &forwarder{address: l.Addr().String()}
	f.target.Store(&target)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go f.forward(from)
		}
	}()
	return f
}

func (f *forwarder) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", *f.target.Load())
	if err != nil {
		return // the client sees its connection closed
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// An Envoy whose connection is old makes a new one, which may be to another interceptor.
// No request is lost, and resources that the Envoy has are not sent again.
func TestRealEnvoyConnectsAgainWhenItsConnectionIsOld(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t, func(s *Server) { s.settings.MaxConnectionAge = 2 * time.Second })
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name)
		}
		f.service("canary", backend(t, "canary"))
		f.commit()
		between := newForwarder(t, f.xds)
		f.xds = between.address
		f.start(sotw)
		f.waitFor("a.example.com", "a")
		stop := f.load("a.example.com")

		first, second := f.server, f.newServer(f.server.render.Translator)
		second.settings.MaxConnectionAge = 0
		second.Update(f.builder.Table(), routes.Changes{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		serve(t, second, l)
		address := l.Addr().String()
		between.target.Store(&address)
		eventually(t, "the Envoy at the other interceptor", func() bool { return len(second.connected()) == 1 && len(first.connected()) == 0 })
		f.server = second
		eventually(t, "all acknowledged there", func() bool {
			state := f.theState()
			return len(state.Types) >= 4 && state.Unacknowledged == 0
		})
		for _, is := range f.theState().Types {
			if is.Acknowledged == nil || is.Sent != nil {
				t.Errorf("%s: sent %+v, acknowledged %+v; expected that it has it", is.Type, is.Sent, is.Acknowledged)
			}
		}
		f.object("b", "b=0", "canary=100")
		f.commit()
		f.waitFor("b.example.com", "canary")
		want := map[string]int{"cluster": 1, "endpoints": 1, "routes": 1, "listener": 0, "secret": 0}
		if diff := cmp.Diff(want, f.pushes()); diff != "" {
			t.Errorf("pushes to an Envoy that has everything else (-want +got):\n%s", diff)
		}
		requireAnswersOf(t, stop(), "a")
		if n := f.envoy.Stat("cluster_manager.cluster_modified"); n != 0 {
			t.Errorf("%d clusters were modified", n)
		}
	})
}

// If an Envoy has answered everything, the server ends its stream before gRPC cuts the
// connection; if it has not, gRPC cuts the connection.
func TestStreamEndsBeforeItsConnectionIsCut(t *testing.T) {
	for name, answers := range map[string]bool{"everything answered": true, "no answer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.MaxConnectionAge = 3 * time.Second })
			w.service("app", "10.0.0.1:80")
			w.object("app")
			w.commit()
			s, err := w.dialer().DeltaAggregatedResources(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds]}); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				var m *discoveryv3.DeltaDiscoveryResponse
				if m, err = s.Recv(); err == nil && answers {
					_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()})
				}
			}
			if said := strings.Contains(status.Convert(err).Message(), "--xds-max-connection-age"); said != answers || status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ended with %v; expected that the server ended it: %v", err, answers)
			}
		})
	}
}

// A stream that is old enough ends once the Envoy has answered everything; the streams of
// a fleet do not end at the same time.
func TestAgeOfAStream(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.MaxConnectionAge = time.Hour })
	ends := make(map[time.Duration]bool)
	for range 100 {
		before := time.Now()
		st := newStream(w.server, nil, true)
		if st.ends.Before(before.Add(66*time.Minute)) || st.ends.After(time.Now().Add(78*time.Minute)) {
			t.Fatalf("a stream ends after %v; expected 66 to 78 minutes", st.ends.Sub(before))
		}
		ends[st.ends.Sub(before).Truncate(time.Minute)] = true
	}
	if len(ends) < 3 {
		t.Errorf("100 streams end within %d minutes", len(ends))
	}

	st := newStream(w.server, nil, true)
	if next, err := st.age(2 * time.Hour); err != nil || next > 79*time.Minute {
		t.Errorf("a new stream: %v, %v", next, err)
	}
	st.ends = time.Now().Add(-time.Minute)
	st.channels[eds].flights["1"] = &flight{}
	if next, err := st.age(time.Minute); err != nil || next != time.Minute {
		t.Errorf("an old stream with a response that is not answered: %v, %v", next, err)
	}
	clear(st.channels[eds].flights)
	if _, err := st.age(time.Minute); status.Code(err) != codes.Unavailable {
		t.Errorf("an old stream: %v; expected Unavailable", err)
	}

	w.server.settings.MaxConnectionAge = 0
	if st := newStream(w.server, nil, true); !st.ends.IsZero() {
		t.Error("a stream of any age has an end")
	}
}
