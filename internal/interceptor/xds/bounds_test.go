package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// The number of made-up names that the server keeps for an Envoy is limited.
func TestEnvoyThatAsksForTooMuch(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	client := w.dialer()
	for what, ask := range map[string]func(names []string) *discoveryv3.DeltaDiscoveryRequest{
		"endpoints": func(names []string) *discoveryv3.DeltaDiscoveryRequest {
			return &discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[eds], ResourceNamesSubscribe: names}
		},
		"routes": func(names []string) *discoveryv3.DeltaDiscoveryRequest {
			return &discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[rds], ResourceNamesSubscribe: names}
		},
		"clusters from elsewhere": func(names []string) *discoveryv3.DeltaDiscoveryRequest {
			r := &discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds], InitialResourceVersions: make(map[string]string)}
			for _, name := range names {
				r.InitialResourceVersions[name] = "1"
			}
			return r
		},
	} {
		t.Run(what, func(t *testing.T) {
			names := make([]string, maxUnknown+1)
			for i := range names {
				names[i] = fmt.Sprint("demo/made-up/", i)
			}
			for _, tt := range []struct {
				names []string
				want  codes.Code
			}{{names, codes.ResourceExhausted}, {names[:100], codes.OK}} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				s, err := client.DeltaAggregatedResources(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(ask(tt.names)); err != nil {
					t.Fatal(err)
				}
				if tt.want == codes.OK { // another request is answered
					if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[lds]}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Recv(); status.Code(err) != tt.want {
					t.Errorf("%d names: %v; expected %v", len(tt.names), err, tt.want)
				}
			}
		})
	}
}

// The limit of streams on a connection also applies to all connections of an address
// together.
func TestStreamsOfOneAddress(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.MaxConcurrentStreams = 2 })
	w.commit()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var ends []func()
	for i := range 3 {
		s, err := w.dialer().StreamAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&discoveryv3.DiscoveryRequest{Node: theNode, TypeUrl: typeURLs[lds]}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		if i == 2 {
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "--xds-max-concurrent-streams") {
				t.Errorf("the third stream: %v; expected ResourceExhausted, with the flag", err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, func() { _ = s.CloseSend() })
	}
	ends[0]()
	eventually(t, "room for another", func() bool {
		s, err := w.dialer().StreamAggregatedResources(ctx)
		if err == nil {
			err = s.Send(&discoveryv3.DiscoveryRequest{Node: theNode, TypeUrl: typeURLs[lds]})
		}
		if err == nil {
			_, err = s.Recv()
		}
		return err == nil
	})
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
	st := &stream{server: w.server, scope: &scope{server: w.server}, table: table, shared: table, routes: newRouteSync(), clusters: newClusterSync()}
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
	back := &stream{server: w.server, scope: st.scope, table: table, shared: table, routes: newRouteSync(), clusters: newClusterSync(), log: w.server.log}
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
		back.routes.noteHad(text)
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
		st.look()
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
	if n := len(stays.scope.hosts); n != 0 {
		t.Errorf("%d virtual hosts are kept of Envoys that have gone", n)
	}
}
