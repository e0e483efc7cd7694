package gatewayapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// generator makes routes at rest and calls.
type generator struct{ *rand.Rand }

func (g generator) oneOf(values ...any) any { return values[g.IntN(len(values))] }

// route makes a route at rest with rules of Rollout demo/a and demo/b, rules of neither,
// and unknown fields.
func (g generator) route() *unstructured.Unstructured {
	kind := Kinds[g.IntN(len(Kinds))]
	var rules []any
	for i := range 1 + g.IntN(4) {
		rule := map[string]any{"futureField": map[string]any{"i": int64(i), "f": 0.5}}
		if g.IntN(2) == 0 {
			rule["name"] = fmt.Sprintf("rule-%d", i)
		}
		if matches := g.matches(kind, i); matches != nil {
			rule["matches"] = matches
		}
		if g.IntN(3) == 0 && kind == HTTPRoute {
			rule["timeouts"] = map[string]any{"request": "1s"}
			rule["filters"] = []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"remove": []any{"A"}}}}
		}
		rule["backendRefs"] = g.backendRefs([]string{"a", "b", "other"}[g.IntN(3)])
		rules = append(rules, rule)
	}
	metadata := map[string]any{"name": "app", "namespace": "demo", "generation": int64(3)}
	if g.IntN(2) == 0 {
		metadata["labels"] = map[string]any{"team": "a"}
		metadata["annotations"] = map[string]any{"note": "b"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Group + "/v1", "kind": string(kind), "metadata": metadata,
		"spec":   map[string]any{"hostnames": []any{"example.com"}, "rules": rules},
		"status": map[string]any{"parents": []any{}},
	}}
}

func (g generator) matches(kind Kind, i int) any {
	if !kind.TakesHeaderRoutes() || g.IntN(4) == 0 {
		return nil
	}
	var matches []any
	for j := range 1 + g.IntN(2) {
		match := map[string]any{}
		switch {
		case kind == GRPCRoute:
			match["method"] = map[string]any{"type": "Exact", "service": fmt.Sprintf("s.S%d%d", i, j)}
		case g.IntN(4) > 0:
			match["path"] = map[string]any{"type": g.oneOf(exact, pathPrefix), "value": fmt.Sprintf("/%d/%d", i, j)}
		}
		if g.IntN(3) == 0 {
			match["headers"] = []any{map[string]any{"name": g.oneOf("X-Canary", "Tenant"), "value": g.oneOf("yes", "no")}}
		}
		if kind == HTTPRoute && g.IntN(3) == 0 {
			match["method"] = g.oneOf("GET", "POST")
		}
		matches = append(matches, match)
	}
	return matches
}

func (g generator) backendRefs(of string) []any {
	ref := func(name string) map[string]any {
		r := map[string]any{"name": name, "port": int64(80)}
		switch g.IntN(3) {
		case 0:
			r["kind"], r["group"] = "Service", ""
		case 1:
			r["namespace"] = "demo"
		}
		return r
	}
	stable, canary, third := ref(of+"-stable"), ref(of+"-canary"), ref("third")
	if weight := g.IntN(5); weight > 0 {
		stable["weight"] = int64(weight * 25)
	}
	canary["weight"] = int64(0)
	third["weight"] = int64(g.IntN(50))
	refs := []any{stable, canary}
	switch g.IntN(4) {
	case 0:
		refs = []any{canary, third, stable}
	case 1:
		refs = []any{third, canary} // a rule without stable
	}
	return refs
}

func (g generator) rollout(name string) Rollout {
	r := defaultRollout()
	r.NamespacedName = types.NamespacedName{Namespace: "demo", Name: name}
	r.Stable, r.Canary = name+"-stable", name+"-canary"
	r.Max = []int32{100, 1000, 7}[g.IntN(3)]
	r.MirrorPercent = g.IntN(2) == 0
	r.ManagedRoutes = []string{"hdr", "mirror", "more"}
	r.Port = func(string, string, int32) (int32, error) { return 8080, nil }
	return r
}

// call is one call of a Rollout.
type call func(*unstructured.Unstructured) (Decision, error)

func (g generator) calls(ro Rollout) (w Weights, steps []v1alpha1.CanaryStep, calls []call) {
	canary := 1 + g.Int32N(ro.Max-1)
	w = Weights{Canary: canary, Stable: ro.Max - canary}
	if g.IntN(2) == 0 {
		share := g.Int32N(w.Stable + 1)
		w.Stable -= share
		w.Experiments = []ExperimentWeight{{"exp", share}}
	}
	calls = append(calls, func(r *unstructured.Unstructured) (Decision, error) { return Apply(r, ro, Wanted{Weights: &w}) })
	for _, header := range []v1alpha1.SetHeaderRoute{
		{Name: "hdr", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Canary", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}},
		{Name: "more", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-More", HeaderValue: &v1alpha1.StringMatch{Prefix: "v."}}}},
	} {
		if g.IntN(2) == 0 {
			steps = append(steps, v1alpha1.CanaryStep{SetHeaderRoute: &header})
		}
	}
	if g.IntN(2) == 0 {
		percent := int32(100)
		if ro.MirrorPercent {
			percent = 30
		}
		mirror := v1alpha1.SetMirrorRoute{Name: "mirror", Percentage: &percent, Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}, Path: &v1alpha1.StringMatch{Prefix: "/"}}}}
		steps = append(steps, v1alpha1.CanaryStep{SetMirrorRoute: &mirror})
	}
	for _, c := range callsOf(steps) {
		calls = append(calls, func(r *unstructured.Unstructured) (Decision, error) {
			return Apply(r, ro, Wanted{Calls: []RouteCall{c}})
		})
	}
	return w, steps, calls
}

// made makes calls one after the other; a call that fails changes nothing.
func made(route *unstructured.Unstructured, calls ...call) (after *unstructured.Unstructured, managed Managed, failed int) {
	for _, c := range calls {
		decision, err := c(route)
		if err != nil {
			failed++
			continue
		}
		route, managed = decision.Route, decision.Managed
	}
	return route, managed, failed
}

func canonical(t *testing.T, route *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.MarshalIndent(route.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestProperties checks on generated routes what must hold for all decisions; a failure
// names the seed that reproduces it.
func TestProperties(t *testing.T) {
	split, managed := 0, 0
	for seed := range uint64(600) {
		g := generator{rand.New(rand.NewPCG(seed, 11))}
		route, ro := g.route(), g.rollout("a")
		w, steps, calls := g.calls(ro)
		given := canonical(t, route)

		after, managedAfter, failed := made(route, calls...)
		if canonical(t, route) != given {
			t.Fatalf("seed %d: the route that was given has changed", seed)
		}
		checkWeights(t, seed, after, ro, w, failed == len(calls))
		checkForeign(t, seed, route, after, ro)

		shuffled := slices.Clone(calls)
		g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, _, _ := made(route, shuffled...)
		if diff := cmp.Diff(canonical(t, after), canonical(t, again)); diff != "" {
			t.Fatalf("seed %d: another order, another route:\n%s", seed, diff)
		}
		passed := ro
		passed.Steps, passed.Passed = steps, steps
		for name, wanted := range map[string]Wanted{
			"as self-healing has it": {Weights: &w, Exactly: &managedAfter},
			"all calls at once":      {Weights: &w, Calls: callsOf(steps)},
			"put back":               {Weights: &w, PutBack: true},
		} {
			if applied, err := Apply(route, passed, wanted); failed == 0 && (err != nil || canonical(t, applied.Route) != canonical(t, after)) {
				t.Fatalf("seed %d: %s, another route: %v\n%s", seed, name, err, cmp.Diff(canonical(t, after), canonical(t, applied.Route)))
			}
		}

		rest := func(r *unstructured.Unstructured) (Decision, error) { return Apply(r, ro, Wanted{Weights: &Weights{}}) }
		remove := func(r *unstructured.Unstructured) (Decision, error) {
			return Apply(r, ro, Wanted{Calls: []RouteCall{{RemoveAll: true}}})
		}
		release := func(r *unstructured.Unstructured) (Decision, error) {
			return Release(r, ro.NamespacedName, ro.Plugin, "")
		}
		for name, ending := range map[string][]call{"promoted": {remove, rest}, "aborted": {rest, remove}, "released": {release}} {
			if ended, _, failed := made(after, ending...); failed > 0 || canonical(t, ended) != given {
				t.Fatalf("seed %d: %s, the route is not as it was:\n%s", seed, name, cmp.Diff(given, canonical(t, ended)))
			}
		}

		// Another Rollout makes calls meanwhile, with rules of its own.
		other := g.rollout("b")
		_, _, others := g.calls(other)
		both, _, _ := made(after, others...)
		both, _, _ = made(both, remove, rest)
		both, _, _ = made(both,
			func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, other, Wanted{Calls: []RouteCall{{RemoveAll: true}}})
			},
			func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, other, Wanted{Weights: &Weights{}})
			})
		if canonical(t, both) != given {
			t.Fatalf("seed %d: with another Rollout, the route is not as it was:\n%s", seed, cmp.Diff(given, canonical(t, both)))
		}
		if failed < len(calls) {
			split++
		}
		if len(RolloutsOn(after)) > 0 && len(rulesByText(after)) > len(rulesByText(route)) {
			managed++
		}
	}
	if split < 100 || managed < 50 {
		t.Errorf("only %d routes were split and %d got managed rules: the generator makes too few", split, managed)
	}
}

// checkWeights checks that, in each rule that is split, stable, canary and experiments
// have the weights that they should, and other backends keep theirs.
func checkWeights(t *testing.T, seed uint64, after *unstructured.Unstructured, ro Rollout, w Weights, refused bool) {
	t.Helper()
	spec, _ := after.Object["spec"].(map[string]any)
	for i, rule := range objects(spec["rules"]) {
		weights := map[string]int64{}
		for _, ref := range objects(rule["backendRefs"]) {
			name, _ := ref["name"].(string)
			weights[name] += weightOf(ref)
		}
		_, hasStable := weights[ro.Stable]
		_, hasCanary := weights[ro.Canary]
		if !hasStable || !hasCanary {
			continue
		}
		if refused {
			t.Fatalf("seed %d: a route with a rule to split was refused", seed)
		}
		want := map[string]int64{ro.Stable: int64(w.Stable), ro.Canary: int64(w.Canary)}
		sum := want[ro.Stable] + want[ro.Canary]
		for _, e := range w.Experiments {
			want[e.Service] = int64(e.Weight)
			sum += int64(e.Weight)
		}
		if sum != int64(ro.Max) {
			t.Fatalf("seed %d: the weights asked for add up to %d", seed, sum)
		}
		if third, ok := weights["third"]; ok {
			want["third"] = third // compared by checkForeign
		}
		if diff := cmp.Diff(want, weights); diff != "" {
			t.Fatalf("seed %d, rule %d (-want +got):\n%s", seed, i, diff)
		}
	}
}

// checkForeign checks that nothing changes but weights and experiments of rules that are
// split, managed rules, our annotation and the label.
func checkForeign(t *testing.T, seed uint64, before, after *unstructured.Unstructured, ro Rollout) {
	t.Helper()
	foreign := func(route *unstructured.Unstructured) string {
		d, err := newDraft(route, ro)
		if err != nil {
			t.Fatal(err)
		}
		route = d.route
		setMetadata(route, "annotations", Annotation, nil)
		setMetadata(route, "labels", ro.Label.Key, nil)
		var rules []any
		for _, r := range d.userRules() {
			if d.holdsBoth(r) {
				d.dropExperiments(r, nil)
				for _, ref := range append(d.refsTo(r, d.stable()), d.refsTo(r, d.canary())...) {
					delete(ref, "weight")
				}
			}
			rules = append(rules, r.body)
		}
		spec, _ := route.Object["spec"].(map[string]any)
		spec["rules"] = rules
		return canonical(t, route)
	}
	if diff := cmp.Diff(foreign(before), foreign(after)); diff != "" {
		t.Fatalf("seed %d: a foreign field has changed:\n%s", seed, diff)
	}
}
