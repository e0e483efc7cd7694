package gatewayapi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// FuzzDecide checks that no route makes a call panic or change what it is given, that a
// call on its own outcome changes nothing, and that weight 0 never fails.
func FuzzDecide(f *testing.F) {
	files, err := filepath.Glob("testdata/*/route.*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object, int32(20), false)
		f.Add(object, int32(100), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, canary int32, pingPong bool) {
		object := map[string]any{}
		if err := json.Unmarshal(text, &object); err != nil {
			return
		}
		route := &unstructured.Unstructured{Object: object}
		given := route.DeepCopy()
		ro := defaultRollout()
		ro.PingPong, ro.MirrorPercent = pingPong, true
		ro.Port = func(string, string, int32) (int32, error) { return 8080, nil }
		weights := Weights{Stable: 100 - canary%101, Canary: canary % 101, Experiments: []ExperimentWeight{{"exp", 5}}}
		header := &v1alpha1.SetHeaderRoute{Name: "hdr", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Canary", HeaderValue: &v1alpha1.StringMatch{Prefix: "yes"}}}}
		mirror := &v1alpha1.SetMirrorRoute{Name: "mirror", Match: []v1alpha1.RouteMatch{{Path: &v1alpha1.StringMatch{Prefix: "/a"}}}}
		steps := []v1alpha1.CanaryStep{{SetHeaderRoute: header}, {SetMirrorRoute: mirror}}
		under := ro
		under.Steps, under.Passed, under.Registrations = steps, steps, []string{"kedify/other"}
		for name, c := range map[string]call{
			"SetWeight with all": func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, under, Wanted{Weights: &weights, Calls: []RouteCall{{RemoveAll: true}, {Header: header}}, PutBack: true})
			},
			"SetWeight(0) with all": func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, under, Wanted{Weights: &Weights{}, Calls: []RouteCall{{Mirror: mirror}}, PutBack: true})
			},
			"SetWeight":    func(r *unstructured.Unstructured) (Decision, error) { return Apply(r, ro, Wanted{Weights: &weights}) },
			"SetWeight(0)": func(r *unstructured.Unstructured) (Decision, error) { return Apply(r, ro, Wanted{Weights: &Weights{}}) },
			"SetHeaderRoute": func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, ro, Wanted{Calls: []RouteCall{{Header: header}}})
			},
			"SetMirrorRoute": func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, ro, Wanted{Calls: []RouteCall{{Mirror: mirror}}})
			},
			"RemoveManagedRoutes": func(r *unstructured.Unstructured) (Decision, error) {
				return Apply(r, ro, Wanted{Calls: []RouteCall{{RemoveAll: true}}})
			},
			"Release": func(r *unstructured.Unstructured) (Decision, error) {
				return Release(r, ro.NamespacedName, ro.Plugin, "")
			},
		} {
			first, err := c(route)
			if diff := cmp.Diff(given.Object, route.Object); diff != "" {
				t.Fatalf("%s has changed the route that it was given:\n%s", name, diff)
			}
			if err != nil {
				if strings.HasPrefix(name, "SetWeight(0)") && Kind(route.GetKind()).known() {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			second, err := c(first.Route)
			if foreign := (*ForeignError)(nil); errors.As(err, &foreign) {
				continue // an entry of another Rollout that no call can have written
			}
			if err != nil {
				t.Fatalf("%s once more: %v", name, err)
			}
			if second.Changed {
				t.Fatalf("%s once more:\n%s", name, cmp.Diff(first.Route.Object, second.Route.Object))
			}
		}
		parentsOf(route, nil)
		RolloutsOn(route)
	})
}
