package routes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

func randomWorld(seed uint64) *world {
	return &world{
		random:   rand.New(rand.NewPCG(seed, 2)),
		objects:  map[types.NamespacedName]*httpv1alpha1.HTTPScaledObject{},
		services: map[types.NamespacedName]*corev1.Service{},
		slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
	}
}

// envoyParts returns, by domain, Envoy's part of a table's virtual hosts.
func envoyParts(table *Table) map[string]string {
	all := make(map[string]string)
	for _, domain := range table.Domains() {
		all[domain] = envoyPart(table, domain)
	}
	return all
}

// With turns one table into another, object by object, and changes neither of the two.
func TestTableWith(t *testing.T) {
	for seed := range uint64(30) {
		w, b := randomWorld(seed), NewBuilder()
		var tables []*Table
		for range 2 {
			for range 60 {
				w.step(b)
			}
			table, _ := b.Commit()
			tables = append(tables, table)
		}
		was, is := show(tables[0]), show(tables[1])
		made := tables[0]
		for _, table := range tables {
			for route := range table.Routes() {
				made = made.With(route.Name, tables[1].Route(route.Name))
			}
		}
		want := is
		want.Problems = was.Problems
		if diff := cmp.Diff(want, show(made), compareAddresses); diff != "" {
			t.Fatalf("seed %d (-committed +by With):\n%s", seed, diff)
		}
		if diff := cmp.Diff([]shown{was, is}, []shown{show(tables[0]), show(tables[1])}, compareAddresses); diff != "" {
			t.Fatalf("seed %d: With changed a table (-then +now):\n%s", seed, diff)
		}
		for route := range tables[1].Routes() {
			made = made.With(route.Name, nil)
		}
		if made.Len() != 0 || len(made.Domains()) != 0 {
			t.Fatalf("seed %d: without any route, %d are left, of %v", seed, made.Len(), made.Domains())
		}
	}
}

// A route that was saved and restored has the same place in every virtual host.
func TestSavedRoutesMakeTheSameVirtualHosts(t *testing.T) {
	for seed := range uint64(30) {
		w, b := randomWorld(seed), NewBuilder()
		for range 60 {
			w.step(b)
		}
		table, _ := b.Commit()
		again := &Table{}
		for route := range table.Routes() {
			text, err := json.Marshal(route.Save())
			if err != nil {
				t.Fatal(err)
			}
			var saved SavedRoute
			if err := json.Unmarshal(text, &saved); err != nil {
				t.Fatal(err)
			}
			restored, err := saved.Restore(route.Name)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			// Route.Split and ConditionWait are not saved.
			restored.Split, restored.ConditionWait = route.Split, route.ConditionWait
			if restored.UID != route.UID || !restored.sameRouting(route) {
				t.Errorf("%+v is not %+v", restored, route)
			}
			again = again.With(route.Name, restored)
		}
		if diff := cmp.Diff(envoyParts(table), envoyParts(again)); diff != "" {
			t.Errorf("seed %d (-saved +restored):\n%s", seed, diff)
		}
	}
}

func TestSavedRoutesThatCannotBe(t *testing.T) {
	good := func() SavedRoute {
		return SavedRoute{Hosts: []string{"a.example.com"}, PathPrefixes: []string{"/"}, Split: []weightedbackends.Backend{{Service: "app", Weight: 1}}}
	}
	name := types.NamespacedName{Namespace: "demo", Name: "app"}
	if _, err := good().Restore(name); err != nil {
		t.Fatal(err)
	}
	negative := -time.Second
	var many []string
	for i := range maxMatches + 1 {
		many = append(many, fmt.Sprint("host", i))
	}
	for what, tt := range map[string]struct {
		change func(*SavedRoute)
		want   string
	}{
		"no host":          {func(s *SavedRoute) { s.Hosts = nil }, "expected hosts"},
		"no path":          {func(s *SavedRoute) { s.PathPrefixes = nil }, "expected hosts, paths"},
		"no split":         {func(s *SavedRoute) { s.Split = nil }, "a split"},
		"too many hosts":   {func(s *SavedRoute) { s.Hosts = many }, "above 10000"},
		"a bad host":       {func(s *SavedRoute) { s.Hosts[0] = "a b" }, "is not a host name"},
		"a host in upper":  {func(s *SavedRoute) { s.Hosts[0] = "A.example.com" }, "is not as it is served"},
		"a host twice":     {func(s *SavedRoute) { s.Hosts = []string{"a", "a"} }, "is not as it is served"},
		"a bad path":       {func(s *SavedRoute) { s.PathPrefixes[0] = "/?" }, "without query"},
		"a path too short": {func(s *SavedRoute) { s.PathPrefixes[0] = "a" }, "is not as it is served"},
		"a bad header":     {func(s *SavedRoute) { s.Headers = []Header{{Name: "a b"}} }, "is not a header's name"},
		"a bad Service":    {func(s *SavedRoute) { s.Split[0].Service = "a/b" }, "is not a Service name"},
		"weights of 0":     {func(s *SavedRoute) { s.Split[0].Weight = 0 }, "add up to 0"},
		"a bad timeout":    {func(s *SavedRoute) { s.ResponseHeader = &negative }, "a timeout of -1s"},
	} {
		s := good()
		tt.change(&s)
		if _, err := s.Restore(name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; expected %q", what, err, tt.want)
		}
	}
}
