package xds

import (
	"context"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// If a cluster is no longer needed after an outage of the interceptor, it is removed from
// Envoy after the routes to it, as always.
func TestRealEnvoyMissesTheEndOfASplit(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		f.service("app", backend(t, "app"))
		f.service("canary", backend(t, "canary"))
		f.object("app", "app=50", "canary=50")
		f.commit()
		f.start(sotw)
		stop := f.load("app.example.com")
		eventually(t, "both in use", func() bool { return f.envoy.Stat("cluster.demo/app/canary.upstream_rq_total") > 0 })
		for range 2 {
			f.stop()
			eventually(t, "the stream's end", func() bool { return f.envoy.Stat("control_plane.connected_state") == 0 })
			removed := f.envoy.Stat("cluster_manager.cluster_removed")
			f.object("app")
			f.builder.Commit() // no interceptor is running
			f.restart()
			eventually(t, "the canary's cluster removed", func() bool { return f.envoy.Stat("cluster_manager.cluster_removed") > removed })
			f.object("app", "app=50", "canary=50")
			f.commit()
			canary := f.envoy.Stat("cluster.demo/app/canary.upstream_rq_total")
			eventually(t, "canary requests", func() bool { return f.envoy.Stat("cluster.demo/app/canary.upstream_rq_total") > canary })
		}
		answers := stop()
		for answer, n := range answers {
			if answer != "app" && answer != "canary" {
				t.Errorf("%d requests were answered %q, of %v", n, answer, answers)
			}
		}
	})
}

// In the state of the world, the only sign of which clusters an Envoy has when it comes
// back is its subscription to endpoints.
func TestSotWKeepsWhatWentUntilTheRoutesAreKnown(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.Linger = 0 })
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s, err := w.dialer().StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(k kind, version, nonce string, names ...string) {
		t.Helper()
		r := &discoveryv3.DiscoveryRequest{Node: theNode, TypeUrl: typeURLs[k], VersionInfo: version, ResponseNonce: nonce, ResourceNames: names}
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	// No interceptor has sent "nonsense": the Envoy must not get a cluster of that name.
	has := []string{"demo/app/app", "demo/app/canary", "demo/gone/gone", "nonsense"}
	const before = "00000000000000ff"
	send(cds, before, "")
	send(rds, before, "", envoy.RouteConfigurationName)
	send(eds, before, "", has...)
	var clusters [][]string // names in each response
	var order []string
	for !slices.Equal(order, []string{"cluster", "endpoints", "routes", "cluster"}) {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("after %v: %v", order, err)
		}
		k, _ := kindOf(m.GetTypeUrl())
		order = append(order, kindNames[k])
		if len(order) > 4 {
			t.Fatalf("responses %v", order)
		}
		switch k {
		case cds:
			var names []string
			for _, a := range m.GetResources() {
				c := &clusterv3.Cluster{}
				if err := a.UnmarshalTo(c); err != nil {
					t.Fatal(err)
				}
				names = append(names, c.GetName())
			}
			clusters = append(clusters, names)
			send(cds, m.GetVersionInfo(), m.GetNonce())
		case eds:
			send(eds, m.GetVersionInfo(), m.GetNonce(), has...)
		case rds:
			send(rds, m.GetVersionInfo(), m.GetNonce(), envoy.RouteConfigurationName)
		}
	}
	want := [][]string{{"demo/app/app", "demo/app/canary", "demo/gone/gone"}, {"demo/app/app"}}
	if diff := cmp.Diff(want, clusters); diff != "" {
		t.Errorf("clusters of each response (-want +got):\n%s", diff)
	}
}

// An Envoy that never subscribes to endpoints does not wait for ever for its clusters.
func TestSotWWithoutEndpointsGetsClusters(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.settle = 20 * time.Millisecond })
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s, err := w.dialer().StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds], VersionInfo: "of another control plane"}); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); err != nil || len(m.GetResources()) != 1 {
		t.Errorf("clusters %v, %v", m, err)
	}
}
