package xds

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// The memory that the server keeps for names that an Envoy makes up is limited, over all
// of its requests.
func TestEnvoyThatAsksForTooMuch(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := w.dialer().DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const each = 10000
	most := maxUnknownBytes/(each*clusterBytes) + 1
	for i := range most {
		r := &discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[eds]}
		for n := range each {
			r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, fmt.Sprint("demo/made-up/", i, "-", n))
		}
		if s.Send(r) != nil {
			break // Recv has the error
		}
	}
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d names: %v; expected ResourceExhausted", most*each, err)
	}
}

// An Envoy that comes back with far more clusters than are left is told to remove the
// others, and ends with those that are left. Its routes are those of before, or the current
// ones already.
func TestEnvoyWithManyClustersThatHaveGone(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		t.Run("routes of before", func(t *testing.T) { manyClustersThatHaveGone(t, sotw, false) })
		t.Run("current routes", func(t *testing.T) { manyClustersThatHaveGone(t, sotw, true) })
	})
}

func manyClustersThatHaveGone(t *testing.T, sotw, currentRoutes bool) {
	w := newWorld(t, envoy.Options{})
	client := w.dialer()
	e := newFake(t, client, sotw)
	w.service("app", "10.0.0.1:80")
	w.service("gone", "10.0.0.2:80")
	w.object("app")
	w.object("gone")
	w.commit()
	e.run()
	e.has(w)

	locked(e, func() bool {
		for i := range 20000 {
			name := fmt.Sprint("demo/gone-", i, "/app")
			e.clusters[name], e.assignments[name] = e.clusters["demo/gone/gone"], e.assignments["demo/gone/gone"]
			e.named = append(e.named, name)
			if !sotw {
				e.versions[cds][name], e.versions[eds][name] = e.versions[cds]["demo/gone/gone"], e.versions[eds]["demo/gone/gone"]
			}
		}
		if sotw { // whose version is that of all clusters
			e.versions[cds][""], e.versions[eds][""] = "2", "2"
		}
		return true
	})
	if !currentRoutes {
		e.end()
	}
	w.builder.DeleteHTTPScaledObject(objectNamed("gone"))
	w.commit()
	if currentRoutes {
		e.has(w)
	}
	e = e.again(client)
	e.keeps = []string{"app.example.com"}
	e.run()
	eventually(t, "the clusters that have gone being removed", func() bool {
		return locked(e, func() bool { return len(e.clusters) == 1 && e.clusters["demo/app/app"] != nil })
	})
	e.has(w)
	e.check()
}

// open opens a stream, waits for an answer, and returns a channel for the error at its end.
func open(t *testing.T, client discoveryv3.AggregatedDiscoveryServiceClient) (ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s, err := client.DeltaAggregatedResources(ctx)
	if err == nil {
		_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[lds]}) // Recv has the error
		_, err = s.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		_, err := s.Recv()
		end <- err
	}()
	return end
}

func displaced(t *testing.T, ended <-chan error) {
	t.Helper()
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("a stream ends with %v; expected Unavailable", err)
	}
}

// The limit of streams on a connection also applies to all connections of an address
// together. The newest streams are served.
func TestStreamsOfOneAddress(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.streamLimit = peerlimit.New(10, 2) })
	w.commit()
	at := w.listen()
	first := open(t, clientFrom(t, "127.0.0.2", at))
	open(t, clientFrom(t, "127.0.0.2", at))
	open(t, clientFrom(t, "127.0.0.2", at))
	displaced(t, first)
	if got, want := w.server.Limits(), []usage.Limit{{Name: "xds-max-streams", Used: 2, Max: 10}, {Name: "xds-max-concurrent-streams", Used: 2, Max: 2}}; !slices.Equal(got, want) {
		t.Errorf("limits %v; expected %v", got, want)
	}
}

// When there are as many streams as there may be, an Envoy of another address gets its
// configuration all the same, and the address that has most streams loses one.
func TestStreamsOfAllAddresses(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.streamLimit = peerlimit.New(4, 4) })
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	at := w.listen()
	stranger := func() discoveryv3.AggregatedDiscoveryServiceClient { return clientFrom(t, "127.0.0.2", at) }
	first := open(t, stranger())
	for range 3 {
		open(t, stranger())
	}
	e := newFake(t, clientFrom(t, "127.0.0.3", at), false)
	e.run()
	e.has(w)
	displaced(t, first)
	if used := w.server.Limits()[0].Used; used > 4 {
		t.Errorf("%v streams; expected 4 at most", used)
	}
}

// listen serves a world on a TCP port of 127.0.0.1, and returns the port.
func (w *world) listen() int {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	serve(w.t, w.server, l)
	return l.Addr().(*net.TCPAddr).Port
}

// clientFrom returns a client that connects from an address to a port of 127.0.0.1.
func clientFrom(t testing.TB, address string, port int) discoveryv3.AggregatedDiscoveryServiceClient {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := grpc.NewClient(fmt.Sprint("passthrough:///127.0.0.1:", port), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) { return d.DialContext(ctx, "tcp", at) }),
		grpc.WithDisableRetry(), // which keeps what was sent
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return discoveryv3.NewAggregatedDiscoveryServiceClient(c)
}

// A version lists as many forms as fit, those that the Envoy serves first.
func TestVersionTextIsBounded(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	const n = 2000
	name := func(i int) string { return fmt.Sprintf("app%04d", i) }
	for i := range n {
		w.objectIn("demo", name(i), nil, "app=1")
	}
	table := w.commit()
	st := &stream{server: w.server, table: table, shared: table, routes: newRouteSync(), clusters: newClusterSync()}
	served := table.Route(objectNamed(name(n - 1)))
	other := *served
	other.Backends = slices.Clone(served.Backends)
	other.Backends[0].Weight = 2
	st.routes.table = st.routes.table.With(served.Name, &other)
	for route := range table.Routes() {
		st.routes.pending[route.Name] = &pendingObject{quarantined: true}
	}
	text := st.versionText(5, st.routes.table)
	if len(text) > maxVersionText || len(text) < maxVersionText-100 {
		t.Errorf("the version has %d bytes; expected %d at most, and not much less", len(text), maxVersionText)
	}
	if parseVersion(text) != 5 {
		t.Errorf("the version is %v; expected 5", parseVersion(text))
	}

	// Another stream reads the version back.
	back := &stream{server: w.server, table: table, shared: table, routes: newRouteSync(), clusters: newClusterSync(), log: w.server.log}
	back.clusters.of(served.Backends[0].Cluster).assigned = absent + 1
	back.touchAllObjects()
	back.restore(text)
	if r := back.routes.table.Route(served.Name); r == nil || r.Backends[0].Weight != 2 || r.Backends[0].Cluster != served.Backends[0].Cluster {
		t.Errorf("the form that is served is read as %+v", r)
	}
	if p := back.routes.pending[objectNamed(name(0))]; !p.restored || back.routes.table.Route(objectNamed(name(0))) != nil {
		t.Error("one that is not served is not read as such")
	}

	// A version that is malformed or too long restores no route.
	for _, text := range []string{"", "1", "5 x", `5 {"demo/app0000":7}`, `5 {"demo/app0000":{"hosts":["A"],"paths":["/"],"split":[{"service":"app","weight":1}]}}`,
		`5 {"other/app":null,"x":null}`, text + strings.Repeat(" ", maxVersionText)} {
		back.routes = newRouteSync()
		back.touchAllObjects()
		back.routes.setHad(text)
		back.restore(back.routes.had)
		if n := back.routes.table.Len(); n != 0 {
			t.Errorf("%.60q makes %d routes", text, n)
		}
	}
}

// The memory that the server uses for an Envoy does not grow with the length of the names
// and versions that the Envoy sends.
func TestEnvoyThatSaysLongWords(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	const most = 100 << 10
	long := func(i int) string { return "demo/app/" + strings.Repeat("a", most) + fmt.Sprint(i) }
	st := newStream(w.server, nil, true)
	for i := range 20 {
		st.handleRequest(&request{typeURL: long(i)})
		for k := range kinds {
			st.handleRequest(&request{
				typeURL: typeURLs[k], version: long(i), subscribe: []string{long(i)}, names: []string{long(i)},
				initial: map[string]string{long(i): "1", envoy.RouteConfigurationName: long(i)},
			})
		}
	}
	kept := len(st.routes.had)
	for name := range st.ignored {
		kept += len(name)
	}
	for name := range st.clusters.known {
		kept += len(name)
	}
	for k := range st.channels {
		for name := range st.channels[k].wanted {
			kept += len(name)
		}
		for name := range st.small[k] {
			kept += len(name)
		}
	}
	if kept > most {
		t.Errorf("%d bytes of what an Envoy says are kept; expected less than one long name", kept)
	}
}

// The form of an object that an Envoy reports is not kept once its stream has ended.
func TestFormsOfOneEnvoyGoWithItsStream(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	route := w.commit().Route(objectNamed("app"))
	stays := newStream(w.server, nil, true)
	for i := range 10 {
		st := stays
		if i > 0 {
			st = newStream(w.server, nil, true)
		}
		if err := w.server.join(st, nil); err != nil {
			t.Fatal(err)
		}
		st.refresh()
		st.subscribe(route.Backends[0].Cluster, absent+1)
		domain := fmt.Sprint("made-up-", i, ".example.com")
		st.restore(fmt.Sprintf(`5 {"demo/app":{"uid":%q,"hosts":[%q],"paths":["/"],"split":[{"service":"app","weight":1}]}}`, route.UID, domain))
		if push := st.newPush(nil); push.hosts[domain] == nil {
			t.Fatalf("the form that the Envoy has is not in its first configuration, which has %v", push.hosts)
		}
		if i > 0 {
			w.server.leave(st)
		}
	}
	eventually(t, "no virtual host kept of Envoys that have gone", func() bool {
		runtime.GC()
		w.server.hosts.mu.Lock()
		defer w.server.hosts.mu.Unlock()
		return len(w.server.hosts.byDomain) == 0
	})
}
