package xds

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// scaler follows what interceptors report.
type scaler struct {
	mu      sync.Mutex
	sources map[string]loadreport.Source            // by ID; those that have ended, too
	objects map[string]map[string]loadreport.Object // by ID and object
}

// follow starts a scaler of these interceptors' ledgers.
func follow(t testing.TB, ledgers ...*loads.Ledger) *scaler {
	t.Helper()
	s := &scaler{sources: make(map[string]loadreport.Source), objects: make(map[string]map[string]loadreport.Object)}
	for _, ledger := range ledgers {
		server := httptest.NewServer(ledger)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = response.Body.Close() })
		go func() {
			lines := json.NewDecoder(response.Body)
			for {
				var m loadreport.Message
				if lines.Decode(&m) != nil {
					return
				}
				s.take(m)
			}
		}()
	}
	return s
}

func (s *scaler) take(m loadreport.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range m.Sources {
		if s.objects[source.ID] == nil {
			s.objects[source.ID] = make(map[string]loadreport.Object)
		}
		for _, o := range source.Objects {
			s.objects[source.ID][o.Namespace+"/"+o.Name] = o
		}
		source.Objects = nil
		s.sources[source.ID] = source
	}
}

// of returns the requests of an object over all Sources, and those that are under way at
// Sources that have not ended.
func (s *scaler) of(object string) (requests, active int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, objects := range s.objects {
		requests += objects[object].Requests
		if !s.sources[id].Ended {
			active += objects[object].Active
		}
	}
	return requests, active
}

// streams returns how many load reporting streams there are.
func (s *scaler) streams() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.sources {
		if source.Address != "" && !source.Ended && !source.WithoutLoadReports {
			n++
		}
	}
	return n
}

// counts waits until an object has had so many requests, and so many are under way.
func (s *scaler) counts(t *testing.T, object string, requests, active int64) {
	t.Helper()
	var r, a int64
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if r, a = s.of(object); r == requests && a == active {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has had %d requests, of which %d are under way; want %d and %d", object, r, a, requests, active)
		}
	}
}

// reported waits for so many more reports to a server. An Envoy counts the requests of a
// cluster from the first report after it was added.
func reported(t *testing.T, s *Server, more int) {
	t.Helper()
	before := count(s.metrics.loadReports)
	eventually(t, "more load reports", func() bool { return count(s.metrics.loadReports) >= before+more })
}

// send sends so many requests for a host, which are answered.
func (f *fleet) send(host string, n int) {
	f.t.Helper()
	for range n {
		if answer := f.get(host); answer == "" || answer[0] <= '9' {
			f.t.Fatalf("%s answers %s", host, answer)
		}
	}
}

// Each request counts once, over both Services of a canary. One that takes long is under
// way until it ends.
func TestRealEnvoyReportsRequests(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, sotw bool) {
		t.Parallel()
		f := newFleet(t)
		f.service("stable", backend(t, "stable"))
		f.service("canary", backend(t, "canary"))
		f.object("app", "stable=50", "canary=50")
		f.service("other", backend(t, "other"))
		f.object("other")
		finish := make(chan struct{})
		slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-finish }))
		t.Cleanup(slow.Close)
		f.service("slow", slow.Listener.Addr().String())
		f.object("slow")
		f.commit()
		s := follow(t, f.ledger)
		f.start(sotw)
		reported(t, f.server, 3)

		f.send("app.example.com", 200)
		f.send("other.example.com", 3)
		var ended sync.WaitGroup
		for range 7 {
			ended.Go(func() { f.get("slow.example.com") })
		}
		s.counts(t, "demo/app", 200, 0)
		s.counts(t, "demo/other", 3, 0)
		s.counts(t, "demo/slow", 7, 7)
		reported(t, f.server, 2)
		s.counts(t, "demo/slow", 7, 7)
		close(finish)
		ended.Wait()
		s.counts(t, "demo/slow", 7, 0)
		s.counts(t, "demo/app", 200, 0)
	})
}

// A request that is handed over to an interceptor is counted there, and not reported.
func TestRealEnvoyReportsNoRequestsThatItHandsOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fallback := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fallback") })}
	go func() { _ = fallback.Serve(&proxyproto.Listener{Listener: l}) }()
	t.Cleanup(func() { _ = fallback.Close() })
	f.server.SetFallback([]netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())})
	app := backend(t, "app")
	f.service("app", app)
	f.object("app")
	f.commit()
	s := follow(t, f.ledger)
	f.start(false)
	reported(t, f.server, 3)
	f.send("app.example.com", 5)
	s.counts(t, "demo/app", 5, 0)
	f.service("app")
	f.commit()
	f.waitFor("app.example.com", "fallback")
	f.send("app.example.com", 20)
	reported(t, f.server, 2)
	reachesPod, _ := s.of("demo/app") // some of those that waited, too
	f.send("app.example.com", 20)
	reported(t, f.server, 2)
	s.counts(t, "demo/app", reachesPod, 0)
}

// Requests are counted while an interceptor restarts, and over streams that end as they are
// old: each is reported to one of two interceptors.
func TestRealEnvoyReportsOverRestartsAndMoves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, sotw bool) {
		t.Parallel()
		f := newFleet(t)
		f.service("app", backend(t, "app"))
		f.object("app")
		f.commit()
		other := f.another()
		s := follow(t, f.ledger, other.server.ledger)
		between := newForwarder(t, f.xds)
		f.xds, between.address = between.address, f.xds
		f.start(sotw)
		reported(t, f.server, 3)
		f.send("app.example.com", 100)
		s.counts(t, "demo/app", 100, 0)

		f.xds = between.address
		f.stop()
		f.send("app.example.com", 10)
		f.restart()
		f.send("app.example.com", 10)
		s.counts(t, "demo/app", 120, 0)

		f.stop()
		between.target.Store(&other.address)
		f.send("app.example.com", 30)
		s.counts(t, "demo/app", 150, 0)
		if n := s.streams(); n != 1 {
			t.Errorf("there are %d streams of load reports; want 1", n)
		}
	})
}

// interceptor is another one with the same table.
type interceptor struct {
	server  *Server
	address string
}

func (f *fleet) another() *interceptor {
	f.t.Helper()
	own := f.ledger
	f.ledger = loads.New(func(object types.NamespacedName) bool { return f.committed.Load().Route(object) != nil })
	is := &interceptor{server: newWorldLike(f.world)}
	f.ledger = own
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	is.address = l.Addr().String()
	serve(f.t, is.server, l)
	return is
}

// Streams of load reports end as connections age, each right after a report, so that
// nothing is lost.
func TestRealEnvoyReportsToAnotherInterceptorInTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(s *Server) { s.settings.MaxConnectionAge = 2 * time.Second })
	f.service("app", backend(t, "app"))
	f.object("app")
	f.commit()
	other := f.another()
	s := follow(t, f.ledger, other.server.ledger)
	between := newForwarder(t, f.xds)
	f.xds = between.address
	f.start(false)
	reported(t, f.server, 2)
	between.target.Store(&other.address)
	var sent int64
	for count(other.server.metrics.loadReports) < 2 {
		f.send("app.example.com", 1)
		sent++
	}
	s.counts(t, "demo/app", sent, 0)
}

// When an interceptor has lost the API server, its Envoys go on reporting to it, also after
// it is back.
func TestRealEnvoyReportsToAnInterceptorThatWithdraws(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.service("app", backend(t, "app"))
	f.object("app")
	f.commit()
	other := f.another()
	s := follow(t, f.ledger, other.server.ledger)
	between := newForwarder(t, f.xds)
	first := f.xds
	f.xds = between.address
	f.start(false)
	reported(t, f.server, 3)
	f.send("app.example.com", 10)
	between.target.Store(&other.address)
	f.server.Withdraw()
	eventually(t, "the Envoy at the other interceptor", func() bool { return len(other.server.connected()) == 1 && len(f.server.connected()) == 0 })
	f.server.cut(f.server.withdrawal) // cuts no Envoy that answers
	f.send("app.example.com", 10)
	s.counts(t, "demo/app", 20, 0)
	f.server.Resume()
	eventually(t, "connections taken again", func() bool { return connects(first) })
	f.send("app.example.com", 10)
	s.counts(t, "demo/app", 30, 0)
	if n, m := count(f.server.metrics.loadReports), count(other.server.metrics.loadReports); n == 0 || m != 0 {
		t.Errorf("%d reports to the interceptor and %d to the other; want all to the first", n, m)
	}
}

// An Envoy whose bootstrap is an earlier one takes its configuration and does not report:
// scalers are told, and told when that is over.
func TestRealEnvoyWithoutLoadReports(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(s *Server) { s.reporters.patience = 10 * time.Millisecond })
	f.service("app", backend(t, "app"))
	f.object("app")
	f.commit()
	s := follow(t, f.ledger)
	without := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, source := range s.sources {
			if source.WithoutLoadReports && !source.Ended && source.Address == "127.0.0.1" {
				n++
			}
		}
		return n
	}
	f.earlier = true
	f.start(false)
	f.waitFor("app.example.com", "app")
	eventually(t, "a proxy without load reports", func() bool { return without() == 1 })
	f.envoy.Stop()
	eventually(t, "the proxy being gone", func() bool { return without() == 0 })
	f.earlier = false
	f.start(false)
	reported(t, f.server, 1)
	eventually(t, "no proxy without load reports", func() bool { return without() == 0 && s.streams() == 1 })
}
