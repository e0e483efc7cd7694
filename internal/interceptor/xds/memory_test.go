package xds

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func nodeOf(namespaces ...any) *corev3.Node {
	list, err := structpb.NewList(namespaces)
	if err != nil {
		panic(err)
	}
	return &corev3.Node{Id: envoy.NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		envoy.NamespacesKey: structpb.NewListValue(list),
	}}}
}

// subscription asks for the endpoints of all clusters, of which the Envoy says that it has
// others: so it gets the routes of them.
func (w *world) subscription() *discoveryv3.DeltaDiscoveryRequest {
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], InitialResourceVersions: make(map[string]string)}
	for route := range w.builder.Table().Routes() {
		for i := range route.Backends {
			name := route.Backends[i].Cluster
			r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, name)
			r.InitialResourceVersions[name] = "2"
		}
	}
	return r
}

// silent opens a stream that asks for all routes, and reads nothing.
func silent(t *testing.T, client discoveryv3.AggregatedDiscoveryServiceClient, node *corev3.Node, endpoints *discoveryv3.DeltaDiscoveryRequest) {
	t.Helper()
	s, err := client.DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	endpoints.Node = node
	_ = s.Send(endpoints) // the server may have ended the stream
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[rds], ResourceNamesSubscribe: []string{envoy.RouteConfigurationName}})
}

// Of a thousand streams of one address, each with another list of namespaces, that read
// nothing, only its share is kept, and an Envoy of another address gets its configuration.
func TestStreamsThatDoNotRead(t *testing.T) {
	const objects, streams = 200, 1000
	settings := DefaultSettings()
	w := newWorld(t, envoy.Options{}, func(s *Server) {
		s.streamLimit = peerlimit.New(settings.MaxStreams, int(settings.MaxConcurrentStreams))
	})
	w.fill(objects)
	at, endpoints := w.listen(), w.subscription()
	var client discoveryv3.AggregatedDiscoveryServiceClient
	for i := range uint32(streams) {
		if i%settings.MaxConcurrentStreams == 0 {
			client = clientFrom(t, "127.0.0.2", at)
		}
		silent(t, client, nodeOf("demo", fmt.Sprint("other-", i)), endpoints)
	}
	e := newFake(t, clientFrom(t, "127.0.0.3", at), false)
	e.run()
	e.has(w)
	e.check()
	eventually(t, "the other streams having ended", func() bool {
		return len(w.server.connected()) <= int(settings.MaxConcurrentStreams)+1
	})
}

// Envoys share the virtual hosts that are equal for them, whatever else their namespaces
// have.
func TestListsOfNamespacesShareVirtualHosts(t *testing.T) {
	const n, envoys = 100, 10
	w := newWorld(t, envoy.Options{})
	client := w.dialer()
	w.fill(n)
	var all []*fake
	for i := range envoys {
		e := newFake(t, client, false, "demo", fmt.Sprint("other-", i))
		e.run()
		e.has(w)
		all = append(all, e)
	}
	if made := count(w.server.metrics.rendered); made != n {
		t.Errorf("%v virtual hosts were made for %d", made, n)
	}
	w.object("app00050", "app00050-s=50", "app00050-c=50")
	w.commit()
	for _, e := range all {
		e.has(w)
	}
	if made := count(w.server.metrics.rendered); made > n+envoys { // streams that look at the same time may each make it
		t.Errorf("%v virtual hosts were made after one change", made-n)
	}
	hosts := make(map[*host]bool)
	for _, st := range w.server.connected() {
		st.mu.Lock()
		for _, h := range st.routes.hosts {
			hosts[h] = true
		}
		st.mu.Unlock()
	}
	if len(hosts) > n+envoys-1 {
		t.Errorf("%d virtual hosts are kept for %d", len(hosts), n)
	}
}

// What waits for streams that do not read is shared: a route configuration that is sent has
// the bytes of the virtual hosts, and no copy of them.
func TestConfigurationsAreNotCopied(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.fill(100)
	var hosts []*host
	for vh := range w.builder.Table().VirtualHosts(routes.Namespaces(nil)) {
		hosts = append(hosts, w.server.host(vh))
	}
	content := w.server.configuration(hosts)
	r := &response{kind: rds, nonce: "1", resources: []resource{{envoy.RouteConfigurationName, 2, content}}}
	for protocol, m := range map[string]message{"delta": r.deltaMessage(), "sotw": r.message()} {
		encoded, err := newCodec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		shared := make(map[*byte]bool)
		for _, b := range encoded {
			shared[&b.ReadOnlyData()[0]] = true
		}
		for _, h := range hosts {
			if !shared[&h.field.ReadOnlyData()[0]] {
				t.Fatalf("%s: the virtual host %s is copied", protocol, h.vh.Domain)
			}
		}
	}
}
