package gatewayapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/*/route.out.yaml as they come out")

// goldenCase is testdata/<case>/calls.yaml: calls on route.in.yaml, one after the other,
// that end in route.out.yaml. (go test -update writes route.out.yaml. Errors and warnings
// are written by hand.)
type goldenCase struct {
	// Rollouts are the Rollouts of the calls, by names that are local to the file; "app"
	// exists without being listed.
	Rollouts map[string]goldenRollout `json:"rollouts"`
	Calls    []goldenCall             `json:"calls"`
}

// goldenRollout is a Rollout; a field that is left out is as in defaultRollout.
type goldenRollout struct {
	Name          string   `json:"name"` // namespace/name
	Stable        string   `json:"stable"`
	Canary        string   `json:"canary"`
	PingPong      bool     `json:"pingPong"`
	Max           int32    `json:"max"`
	ManagedRoutes []string `json:"managedRoutes"`
	Rules         []string `json:"rules"`
	Label         *Label   `json:"label"`
	Unconfigured  bool     `json:"unconfigured"`
	MirrorPercent bool     `json:"mirrorPercent"`
	Plugin        string   `json:"plugin"`
	Registrations []string `json:"registrations"`
	// Steps are the Rollout's, Passed is how many of them are before the current one.
	Steps  []v1alpha1.CanaryStep `json:"steps"`
	Passed int                   `json:"passed"`
	// NoHeaderRoutes is true where the route takes no header routes.
	NoHeaderRoutes bool `json:"noHeaderRoutes"`
	// Ports are the ports of experiments' Services; the stable Service has 80, any other
	// has none.
	Ports map[string]int32 `json:"ports"`
}

// goldenCall is one call; exactly one of the first block is set.
type goldenCall struct {
	SetWeight           *int32                   `json:"setWeight"`
	SetHeaderRoute      *v1alpha1.SetHeaderRoute `json:"setHeaderRoute"`
	SetMirrorRoute      *v1alpha1.SetMirrorRoute `json:"setMirrorRoute"`
	RemoveManagedRoutes bool                     `json:"removeManagedRoutes"`
	Release             *string                  `json:"release"` // the stable Service, or ""
	Others              map[string]any           `json:"others"`  // others merge this into the route; null removes
	Additional          []additional             `json:"additional"`
	Due                 []goldenCall             `json:"due"`     // calls that SetWeight makes up for
	PutBack             bool                     `json:"putBack"` // SetWeight also sets what passed steps have set
	Rollout             string                   `json:"rollout"` // "app" when left out
	Error               string                   `json:"error"`   // the whole text
	Warnings            []string                 `json:"warnings"`
	Unchanged           bool                     `json:"unchanged"` // the call changes nothing
	AsGiven             bool                     `json:"asGiven"`   // the route is route.in.yaml again
}

type additional struct {
	Service string `json:"service"`
	Weight  int32  `json:"weight"`
}

func defaultRollout() Rollout {
	return Rollout{
		NamespacedName: types.NamespacedName{Namespace: "demo", Name: "app"},
		Stable:         "app-stable", Canary: "app-canary", Max: 100, Label: defaultLabel,
		ManagedRoutes: []string{"hdr", "mirror"}, UseHeaderRoutes: true,
	}
}

func (g goldenRollout) rollout() Rollout {
	r := defaultRollout()
	if g.Name != "" {
		r.Namespace, r.Name, _ = strings.Cut(g.Name, "/")
	}
	if g.Stable != "" {
		r.Stable = g.Stable
	}
	if g.Canary != "" {
		r.Canary = g.Canary
	}
	if g.Max != 0 {
		r.Max = g.Max
	}
	if g.ManagedRoutes != nil {
		r.ManagedRoutes = g.ManagedRoutes
	}
	if g.Label != nil {
		r.Label = *g.Label
	}
	r.Plugin, r.Registrations = g.Plugin, g.Registrations
	r.Steps, r.Passed, r.UseHeaderRoutes = g.Steps, g.Steps[:g.Passed], !g.NoHeaderRoutes
	r.PingPong, r.Rules, r.Unconfigured, r.MirrorPercent = g.PingPong, g.Rules, g.Unconfigured, g.MirrorPercent
	r.Port = func(experiment, stable string, port int32) (int32, error) {
		if p, ok := g.Ports[experiment]; ok && port == 80 && stable == r.Stable {
			return p, nil
		}
		return 0, fmt.Errorf("Service %s/%s has no port that reaches port %d of Service %s", r.Namespace, experiment, port, stable)
	}
	return r
}

func (c goldenCall) decide(route *unstructured.Unstructured, ro Rollout) (Decision, error) {
	switch {
	case c.SetWeight != nil:
		weights := c.weights(ro, *c.SetWeight)
		wanted := Wanted{Weights: &weights, PutBack: c.PutBack}
		for _, due := range c.Due {
			wanted.Calls = append(wanted.Calls, due.routeCall())
		}
		return Apply(route, ro, wanted)
	case c.SetHeaderRoute != nil || c.SetMirrorRoute != nil || c.RemoveManagedRoutes:
		return Apply(route, ro, Wanted{Calls: []RouteCall{c.routeCall()}})
	case c.Release != nil:
		return Release(route, ro.NamespacedName, ro.Plugin, *c.Release)
	}
	return Decision{}, fmt.Errorf("a call of no known kind")
}

func (c goldenCall) routeCall() RouteCall {
	return RouteCall{RemoveAll: c.RemoveManagedRoutes, Header: c.SetHeaderRoute, Mirror: c.SetMirrorRoute}
}

func (c goldenCall) weights(ro Rollout, canary int32) Weights {
	w := Weights{Stable: ro.Max - canary, Canary: canary}
	for _, a := range c.Additional {
		w.Stable -= a.Weight
		w.Experiments = append(w.Experiments, ExperimentWeight(a))
	}
	return w
}

func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/calls.yaml")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, calls := range dirs {
		dir := filepath.Dir(calls)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			got, err := yaml.Marshal(runGolden(t, dir).Object)
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(dir, "route.out.yaml")
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatalf("%v (go test -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", out, diff)
			}
		})
	}
}

func runGolden(t *testing.T, dir string) *unstructured.Unstructured {
	t.Helper()
	given := readRoute(t, filepath.Join(dir, "route.in.yaml"))
	text, err := os.ReadFile(filepath.Join(dir, "calls.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var golden goldenCase
	if err := yaml.UnmarshalStrict(text, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.Rollouts == nil {
		golden.Rollouts = map[string]goldenRollout{}
	}
	if _, ok := golden.Rollouts["app"]; !ok {
		golden.Rollouts["app"] = goldenRollout{}
	}
	route := given.DeepCopy()
	for i, call := range golden.Calls {
		if call.Others != nil {
			route = merged(t, route, call.Others)
			continue
		}
		if call.Rollout == "" {
			call.Rollout = "app"
		}
		rollout, ok := golden.Rollouts[call.Rollout]
		if !ok {
			t.Fatalf("call %d: no Rollout %q", i, call.Rollout)
		}
		route = call.check(t, fmt.Sprintf("call %d", i), route, rollout.rollout())
		if call.AsGiven {
			if diff := cmp.Diff(given.Object, route.Object); diff != "" {
				t.Errorf("call %d: the route is not as it was given (-given +now):\n%s", i, diff)
			}
		}
	}
	return route
}

// check makes a call, and compares what it returns beside the route. It also checks that
// the same call on its own outcome changes nothing, even on the outcome as the API server
// gives it back: with defaults filled in, and without the names of rules.
func (c goldenCall) check(t *testing.T, at string, route *unstructured.Unstructured, ro Rollout) *unstructured.Unstructured {
	t.Helper()
	before := route.DeepCopy()
	decision, err := c.decide(route, ro)
	if !reflect.DeepEqual(before.Object, route.Object) {
		t.Errorf("%s: the route that was given has changed", at)
	}
	if diff := cmp.Diff(c.Error, errorText(err)); diff != "" {
		t.Errorf("%s: error (-want +got):\n%s", at, diff)
	}
	if diff := cmp.Diff(c.Warnings, decision.Warnings); diff != "" {
		t.Errorf("%s: warnings (-want +got):\n%s", at, diff)
	}
	if err != nil {
		return route
	}
	if decision.Changed == reflect.DeepEqual(route.Object, decision.Route.Object) {
		t.Errorf("%s: Changed is %v", at, decision.Changed)
	}
	if c.Unchanged && decision.Changed {
		t.Errorf("%s: the route has changed:\n%s", at, cmp.Diff(route.Object, decision.Route.Object))
	}
	for name, again := range map[string]*unstructured.Unstructured{
		"again":         decision.Route,
		"with defaults": served(decision.Route, false),
		"names dropped": served(decision.Route, true),
	} {
		second, err := c.decide(again, ro)
		if err != nil {
			t.Errorf("%s, %s: %v", at, name, err)
		} else if second.Changed {
			t.Errorf("%s, %s: changed once more:\n%s", at, name, cmp.Diff(again.Object, second.Route.Object))
		}
	}
	second, err := c.decide(reversed(decision.Route), ro)
	if err != nil {
		t.Errorf("%s, rules reversed: %v", at, err)
	} else if diff := cmp.Diff(rulesByText(decision.Route), rulesByText(second.Route)); diff != "" {
		t.Errorf("%s, rules reversed: another outcome:\n%s", at, diff)
	}
	return decision.Route
}

func readRoute(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return routeOf(t, string(text))
}

func routeOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	route := &unstructured.Unstructured{}
	if err := route.UnmarshalJSON(object); err != nil {
		t.Fatal(err)
	}
	return route
}

// merged returns a route after another writer's JSON merge patch.
func merged(t *testing.T, route *unstructured.Unstructured, change map[string]any) *unstructured.Unstructured {
	t.Helper()
	var apply func(object, change map[string]any)
	apply = func(object, change map[string]any) {
		for key, value := range change {
			switch v := value.(type) {
			case nil:
				delete(object, key)
			case map[string]any:
				inner, ok := object[key].(map[string]any)
				if !ok {
					inner = map[string]any{}
					object[key] = inner
				}
				apply(inner, v)
			default:
				object[key] = v
			}
		}
	}
	result := route.DeepCopy()
	apply(result.Object, change)
	text, err := json.Marshal(result.Object)
	if err != nil {
		t.Fatal(err)
	}
	return routeOf(t, string(text))
}

// served returns a route as the API server gives it back: with the CRD's defaults, and
// from an old CRD without the names of rules that the router has made.
func served(route *unstructured.Unstructured, dropNames bool) *unstructured.Unstructured {
	route = route.DeepCopy()
	d := &draft{kind: Kind(route.GetKind())}
	spec, _ := route.Object["spec"].(map[string]any)
	made := map[string]bool{}
	s, _ := stateOf(route)
	for _, key := range s.keys() {
		for _, m := range s.entries[key].Routes {
			for _, r := range m.Rules {
				made[r.Name] = true
			}
		}
	}
	for _, rule := range objects(spec["rules"]) {
		if name, _ := rule["name"].(string); dropNames && made[name] {
			delete(rule, "name")
		}
		if matches := d.matchesOf(rule); d.kind == HTTPRoute || rule["matches"] != nil {
			rule["matches"] = matches
		}
		for _, ref := range objects(rule["backendRefs"]) {
			for field, value := range map[string]any{"group": "", "kind": "Service", "weight": int64(1)} {
				if _, ok := ref[field]; !ok {
					ref[field] = value
				}
			}
		}
	}
	return route
}

// reversed returns a route with its rules in the opposite order, as another writer may
// put them.
func reversed(route *unstructured.Unstructured) *unstructured.Unstructured {
	route = route.DeepCopy()
	spec, _ := route.Object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for i, j := 0, len(rules)-1; i < j; i, j = i+1, j-1 {
		rules[i], rules[j] = rules[j], rules[i]
	}
	return route
}

// rulesByText returns the rules of a route independently of their order, and without the
// names, which are numbered in that order.
func rulesByText(route *unstructured.Unstructured) []string {
	spec, _ := route.DeepCopy().Object["spec"].(map[string]any)
	var texts []string
	for _, rule := range objects(spec["rules"]) {
		delete(rule, "name")
		text, _ := json.Marshal(rule)
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}
