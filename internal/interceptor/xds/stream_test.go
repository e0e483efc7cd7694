package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

func TestNodesTurnedAway(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	client := w.dialer()
	for _, tt := range []struct {
		id         string
		namespaces any // nil for none
		want       string
	}{
		{"", nil, `node id is ""; expected "kedify-proxy": set node.id`},
		{strings.Repeat("a", 100<<10), nil, `node id is "` + strings.Repeat("a", maxToldName) + `..."; expected "kedify-proxy"`},
		{"my-envoy", nil, `node id is "my-envoy"; expected "kedify-proxy": set node.id`},
		{"kedify-proxy", "demo", `node.metadata.namespaces is "demo"; expected a list`},
		{"kedify-proxy", []any{}, `node.metadata.namespaces is an empty list; expected`},
		{"kedify-proxy", slices.Repeat([]any{"demo"}, maxNamespaces+1), `node.metadata.namespaces has 1001 entries, above 1000; expected`},
		{"kedify-proxy", []any{strings.Repeat("a", 64)}, `node.metadata.namespaces has "` + strings.Repeat("a", 64) + `" at 0; expected`},
		{"kedify-proxy", []any{"demo", 1}, `node.metadata.namespaces has 1 at 1; expected`},
		{"kedify-proxy", []any{""}, `node.metadata.namespaces has "" at 0; expected`},
	} {
		node := &corev3.Node{Id: tt.id}
		if tt.namespaces != nil {
			metadata, err := structpb.NewStruct(map[string]any{"namespaces": tt.namespaces})
			if err != nil {
				t.Fatal(err)
			}
			node.Metadata = metadata
		}
		for _, ask := range []func() error{
			func() error {
				s, err := client.DeltaAggregatedResources(t.Context())
				if err != nil {
					return err
				}
				_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURLs[cds]}) // Recv has the error
				_, err = s.Recv()
				return err
			},
			func() error {
				s, err := client.StreamAggregatedResources(t.Context())
				if err != nil {
					return err
				}
				_ = s.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURLs[cds]}) // Recv has the error
				_, err = s.Recv()
				return err
			},
		} {
			if err := ask(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("node %q with %v: %v; expected InvalidArgument and %s", tt.id, tt.namespaces, err, tt.want)
			}
		}
	}
}

// An Envoy that asks for endpoints gets an answer, whatever it asks for.
func TestEverySubscriptionIsAnswered(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("empty")
	w.object("empty")
	w.commit()
	s, err := w.dialer().DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *discoveryv3.DeltaDiscoveryRequest) *discoveryv3.DeltaDiscoveryResponse {
		t.Helper()
		r.Node = theNode
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[cds]}); len(got.GetResources()) != 1 {
		t.Fatalf("clusters: %v", got)
	}
	got := ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{"demo/empty/empty", "demo/none/none", "nonsense"}})
	if len(got.GetResources()) != 1 || got.GetResources()[0].GetName() != "demo/empty/empty" || !slices.Equal(got.GetRemovedResources(), []string{"demo/none/none", "nonsense"}) {
		t.Errorf("endpoints: %v", got)
	}
	// A resource that is subscribed to again is sent again, even if it has not changed.
	if again := ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{"demo/empty/empty"}}); len(again.GetResources()) != 1 ||
		again.GetResources()[0].GetVersion() != got.GetResources()[0].GetVersion() {
		t.Errorf("endpoints again: %v", again)
	}
	// A resource that the Envoy has already is not sent: the answer has only the others.
	other, err := w.dialerTo(newWorldLike(w)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: theNode, TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{"demo/empty/empty", "demo/none/none"},
		InitialResourceVersions: map[string]string{"demo/empty/empty": got.GetResources()[0].GetVersion()},
	}); err != nil {
		t.Fatal(err)
	}
	if answer, err := other.Recv(); err != nil || len(answer.GetResources()) != 0 || len(answer.GetRemovedResources()) != 1 {
		t.Errorf("another replica answers %v (%v)", answer, err)
	}
}

// An Envoy that does not read from its stream delays no other Envoy.
func TestSlowEnvoy(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	for i := range 300 {
		name := fmt.Sprint("app", i)
		w.service(name, "10.0.0.1:80")
		w.object(name)
	}
	w.commit()
	client := w.dialer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*discoveryv3.DeltaDiscoveryRequest{
		{Node: theNode, TypeUrl: typeURLs[cds]},
		{TypeUrl: typeURLs[rds], ResourceNamesSubscribe: []string{envoy.RouteConfigurationName}},
	} {
		if err := slow.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	e := newFake(t, client, false)
	e.run()
	e.has(w)
	for i := range 299 {
		name := fmt.Sprint("app", i+1)
		w.object(name, name+"=1", "app0=1")
		w.service(name, "10.0.0.2:80")
		w.commit()
	}
	e.has(w)
	e.check()
	cancel()
	eventually(t, "the slow stream's end", func() bool {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		return len(w.server.streams) == 1
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		shutdown, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.server.Shutdown(shutdown)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("Shutdown does not return")
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if len(w.server.streams) != 0 || w.server.Limits()[0].Used != 0 {
		t.Errorf("%d streams are left, and %v places", len(w.server.streams), w.server.Limits()[0].Used)
	}
}

// An Envoy is called by the name of its pod, if it reports one, cut to a bounded length.
func TestNameOfAnEnvoy(t *testing.T) {
	node := func(pod any) *corev3.Node {
		metadata, err := structpb.NewStruct(map[string]any{"pod": pod})
		if err != nil {
			t.Fatal(err)
		}
		return &corev3.Node{Metadata: metadata}
	}
	for want, of := range map[string]*corev3.Node{
		"the kedify-proxy at 10.0.0.1":                                           node(7),
		"kedify-proxy demo/proxy x, at 10.0.0.1,":                                node("demo/proxy\n\x00x"),
		"kedify-proxy " + strings.Repeat("p", maxToldName) + "..., at 10.0.0.1,": node(strings.Repeat("p", 1000)),
	} {
		if got := (&stream{pod: podOf(of), address: "10.0.0.1"}).name(); got != want {
			t.Errorf("%q; expected %q", got, want)
		}
	}
	if got := (&stream{pod: podOf(nil), address: "10.0.0.1"}).name(); got != "the kedify-proxy at 10.0.0.1" {
		t.Errorf("without a node: %q", got)
	}
}
