package gatewayapi

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// example is what one page of the plugin of argoproj-labs shows; see
// testdata/argoproj-labs/SOURCES.md.
type example struct {
	rollouts []*v1alpha1.Rollout
	routes   []*unstructured.Unstructured
	// blocks are configurations that are shown alone, steps are steps that are.
	blocks [][]byte
	steps  []v1alpha1.CanaryStep
}

var yamlFence = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

func readExample(t *testing.T, file string) example {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var e example
	for _, fence := range yamlFence.FindAllStringSubmatch(string(text), -1) {
		for _, document := range strings.Split("\n"+fence[1], "\n---\n") {
			if strings.TrimSpace(document) != "" {
				e.add(t, []byte(document))
			}
		}
	}
	return e
}

func (e *example) add(t *testing.T, document []byte) {
	t.Helper()
	var kind struct {
		Kind           string                          `json:"kind"`
		Data           map[string]string               `json:"data"`
		TrafficRouting *v1alpha1.RolloutTrafficRouting `json:"trafficRouting"`
		Steps          []v1alpha1.CanaryStep           `json:"steps"`
	}
	var steps []v1alpha1.CanaryStep
	if yaml.Unmarshal(document, &steps) == nil {
		e.steps = append(e.steps, steps...)
		return
	}
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	switch {
	case kind.Kind == "Rollout":
		ro := &v1alpha1.Rollout{}
		if err := yaml.UnmarshalStrict(document, ro); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if ro.Namespace == "" {
			ro.Namespace = "default"
		}
		e.rollouts = append(e.rollouts, ro)
	case Kind(kind.Kind).known():
		e.routes = append(e.routes, routeOf(t, string(document)))
	case kind.Kind == "ConfigMap":
		if !strings.Contains(kind.Data["trafficRouterPlugins"], `name: "`+DefaultPluginName+`"`) {
			t.Errorf("the plugin is not registered as %s:\n%s", DefaultPluginName, document)
		}
	case kind.TrafficRouting != nil:
		e.blocks = append(e.blocks, kind.TrafficRouting.Plugins[DefaultPluginName])
		e.steps = append(e.steps, kind.Steps...)
	default:
		block, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		e.blocks = append(e.blocks, block)
	}
}

// The examples of the plugin of argoproj-labs work unchanged: what they configure is read,
// with no warning but for the one key that has no use here, and each of their Rollouts goes
// through its steps on the routes that it names, which are at its end as they were.
func TestExamplesOfArgoprojLabs(t *testing.T) {
	files, err := filepath.Glob("testdata/argoproj-labs/[a-z]*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			e := readExample(t, file)
			for _, block := range e.blocks {
				config, err := ParseConfig(block, "default")
				for _, warning := range config.Warnings {
					if !strings.HasPrefix(warning, "activeRolloutsAnnotationKey is ignored") {
						t.Errorf("%s, in %s", warning, block)
					}
				}
				if err != nil {
					t.Errorf("%v in %s", err, block)
				}
			}
			for _, ro := range e.rollouts {
				config, err := ConfigOf(ro, DefaultPluginName)
				if err != nil || len(config.Warnings) > 0 {
					t.Fatalf("Rollout %s: %v %q", ro.Name, err, config.Warnings)
				}
				for _, named := range config.Routes {
					e.walk(t, ro, config, named)
				}
				for _, selected := range config.Selectors {
					e.walk(t, ro, config, RouteConfig{Kind: selected.Kind, Name: "selected"})
				}
			}
			if len(e.steps) > 0 {
				alone := e.rollouts[0].DeepCopy()
				alone.Spec.Strategy.Canary.Steps = e.steps
				e.walk(t, alone, Config{}, RouteConfig{Kind: HTTPRoute, Name: "steps-alone", UseHeaderRoutes: true})
			}
		})
	}
}

// The rule that the page on ruleName has its Rollout split is the only one.
func TestExampleOfRuleName(t *testing.T) {
	e := readExample(t, "testdata/argoproj-labs/rule-scoped-weighting.md")
	config, err := ConfigOf(e.rollouts[0], DefaultPluginName)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := Apply(e.routes[0], RolloutOf(e.rollouts[0], config.Routes[0].Rules), Wanted{Weights: &Weights{Stable: 90, Canary: 10}})
	if err != nil {
		t.Fatal(err)
	}
	var weights []any
	for _, rule := range rulesOf(decision.Route) {
		for _, ref := range objects(rule["backendRefs"]) {
			weights = append(weights, ref["weight"])
		}
	}
	if diff := cmp.Diff([]any{int64(5), int64(95), int64(0), int64(90), int64(10)}, weights); diff != "" {
		t.Errorf("weights of the live rule and of argo (-want +got):\n%s", diff)
	}
}

// route returns the route that is named so, or one with the Rollout's two Services where the
// page does not show it.
func (e *example) route(t *testing.T, named RouteConfig, stable, canary string) *unstructured.Unstructured {
	t.Helper()
	for _, route := range e.routes {
		if Kind(route.GetKind()) == named.Kind && route.GetName() == named.Name {
			return route
		}
	}
	return routeOf(t, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: %s
metadata: {name: %s, namespace: default}
spec:
  rules:
  - backendRefs: [{name: %s, port: 80}, {name: %s, port: 80, weight: 0}]
`, named.Kind, named.Name, stable, canary))
}

// walk has a Rollout take its steps on one route.
func (e *example) walk(t *testing.T, ro *v1alpha1.Rollout, config Config, named RouteConfig) {
	t.Helper()
	rollout := RolloutOf(ro, named.Rules)
	rollout.Plugin, rollout.Label, rollout.UseHeaderRoutes, rollout.MirrorPercent = DefaultPluginName, config.Label, named.UseHeaderRoutes, true
	given := e.route(t, named, rollout.Stable, rollout.Canary)
	route := given
	apply := func(what string, wanted Wanted) {
		t.Helper()
		decision, err := Apply(route, rollout, wanted)
		if err != nil {
			t.Fatalf("Rollout %s, %s %s, %s: %v", ro.Name, named.Kind, named.Name, what, err)
		}
		route = decision.Route
	}
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		what := fmt.Sprintf("step %d", i)
		header := step.SetHeaderRoute != nil && named.UseHeaderRoutes
		if call := (RouteCall{Header: step.SetHeaderRoute, Mirror: step.SetMirrorRoute}); header || step.SetMirrorRoute != nil {
			apply(what, Wanted{Calls: []RouteCall{call}})
			e.checkManaged(t, what, route, call)
		}
		if step.SetWeight == nil {
			continue
		}
		apply(what, Wanted{Weights: &Weights{Stable: 100 - *step.SetWeight, Canary: *step.SetWeight}})
		checkSplit(t, what, given, route, rollout, *step.SetWeight)
	}
	apply("promotion", Wanted{Calls: []RouteCall{{RemoveAll: true}}})
	apply("promotion", Wanted{Weights: &Weights{Stable: 100}})
	if diff := cmp.Diff(given.Object["spec"], route.Object["spec"]); diff != "" && hasRest(given, rollout) {
		t.Errorf("Rollout %s, %s %s: not as it was (-given +now):\n%s", ro.Name, named.Kind, named.Name, diff)
	}
	checkSplit(t, "promotion", given, route, rollout, 0)
}

// hasRest tells whether a route is given with no weight for the canary. Those of other
// pages leave the weights out, which gives both Services the same.
func hasRest(route *unstructured.Unstructured, ro Rollout) bool {
	rest := true
	for _, rule := range rulesOf(route) {
		for _, ref := range objects(rule["backendRefs"]) {
			rest = rest && (ref["name"] != ro.Canary || ref["weight"] == int64(0))
		}
	}
	return rest
}

func rulesOf(route *unstructured.Unstructured) []map[string]any {
	spec, _ := route.Object["spec"].(map[string]any)
	return objects(spec["rules"])
}

// checkSplit checks the weights of the rules that a route had before the canary: canary's
// in those that are to be split, and as given in the others.
func checkSplit(t *testing.T, what string, given, route *unstructured.Unstructured, ro Rollout, canary int32) {
	t.Helper()
	now := rulesOf(route)
	for _, before := range rulesOf(given) {
		name, _ := before["name"].(string)
		var found bool
		for _, rule := range now {
			if name != rule["name"] && (name != "" || rule["name"] != nil) || !cmp.Equal(before["matches"], rule["matches"]) {
				continue
			}
			found = true
			for _, ref := range objects(rule["backendRefs"]) {
				want := map[any]int64{ro.Stable: int64(100 - canary), ro.Canary: int64(canary)}
				_, ours := want[ref["name"]]
				if len(ro.Rules) > 0 && name != ro.Rules[0] || !ours {
					if !cmp.Equal(before["backendRefs"], rule["backendRefs"]) {
						t.Errorf("%s: rule %q, which is not to be split, has %v", what, name, rule["backendRefs"])
					}
				} else if weight, ok := ref["weight"].(int64); canary > 0 && (!ok || weight != want[ref["name"]]) || canary == 0 && ref["name"] == ro.Canary && weight != 0 {
					t.Errorf("%s: rule %q gives %v the weight %v, want %d", what, name, ref["name"], ref["weight"], want[ref["name"]])
				}
			}
		}
		if !found {
			t.Errorf("%s: rule %q with %v is gone", what, name, before["matches"])
		}
	}
}

// checkManaged checks that a header or mirror route is there for each rule that is split,
// or none if the call removes it.
func (e *example) checkManaged(t *testing.T, what string, route *unstructured.Unstructured, call RouteCall) {
	t.Helper()
	removes := call.Header != nil && call.Header.Match == nil || call.Mirror != nil && call.Mirror.Match == nil
	found := 0
	for _, rule := range rulesOf(route) {
		if name, _ := rule["name"].(string); name == call.Name() || strings.HasPrefix(name, call.Name()+"-") {
			found++
		}
	}
	if removes != (found == 0) {
		t.Errorf("%s: %d rules of %s", what, found, call.Name())
	}
}
