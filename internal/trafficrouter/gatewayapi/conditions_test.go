package gatewayapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The entry has what parents said against the route before its first write, and keeps
// that: what they say later may be about what the canary has made of the route.
func TestWhatWasRefusedBeforeTheCanary(t *testing.T) {
	condition := func(kind, status, generation, message string) string {
		return fmt.Sprintf(`{type: %s, status: "%s", %sreason: R, message: %q}`, kind, status, generation, message)
	}
	report := func(conditions ...string) string {
		return "[{parentRef: {name: public, namespace: infra}, controllerName: example.com/c, conditions: [" + strings.Join(conditions, ", ") + "]}]"
	}
	now, long := "observedGeneration: 3, ", strings.Repeat("é", maxMessage)
	said := func(kind, message string) refusal {
		return refusal{"Gateway infra/public", "example.com/c", kind, "R", message}
	}
	for name, tc := range map[string]struct {
		status string
		want   []refusal
	}{
		"nothing":                 {"[]", nil},
		"accepted":                {report(condition("Accepted", "True", now, ""), condition("ResolvedRefs", "True", now, "")), nil},
		"another tenant's":        {report(condition("ResolvedRefs", "False", now, "no Service")), []refusal{said("ResolvedRefs", "no Service")}},
		"partially invalid":       {report(condition("PartiallyInvalid", "True", now, "dropped")), []refusal{said("PartiallyInvalid", "dropped")}},
		"not partially invalid":   {report(condition("PartiallyInvalid", "False", now, "")), nil},
		"the whole route":         {report(condition("Accepted", "False", now, "no")), nil},
		"an earlier generation":   {report(condition("ResolvedRefs", "False", "observedGeneration: 2, ", "no")), nil},
		"no generation":           {report(condition("ResolvedRefs", "False", "", "no")), []refusal{said("ResolvedRefs", "no")}},
		"a message without bound": {report(condition("ResolvedRefs", "False", now, long)), []refusal{said("ResolvedRefs", long[:maxMessage])}},
	} {
		t.Run(name, func(t *testing.T) {
			route := routeOf(t, parentsRoute("[{name: public, namespace: infra}]", tc.status))
			ro := defaultRollout()
			ro.Namespace, ro.Canary = "demo", "app-canary"
			rules := route.Object["spec"].(map[string]any)["rules"].([]any)
			delete(rules[0].(map[string]any)["backendRefs"].([]any)[1].(map[string]any), "namespace")
			rules[0].(map[string]any)["backendRefs"].([]any)[1].(map[string]any)["weight"] = int64(0)
			first, err := Apply(route, ro, Wanted{Weights: &Weights{Stable: 80, Canary: 20}})
			if err != nil {
				t.Fatal(err)
			}
			refused := func(route *unstructured.Unstructured) []refusal {
				before, ok := refusedBefore(route, ro.owner())
				if !ok {
					t.Error("the route has no entry")
				}
				return before
			}
			if diff := cmp.Diff(tc.want, refused(first.Route)); diff != "" {
				t.Errorf("refused before (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(refusalsOf(route), refused(first.Route)); diff != "" {
				t.Errorf("what the parents say now does not equal what the entry has (-want +got):\n%s", diff)
			}
			first.Route.Object["status"] = routeOf(t, parentsRoute("[]", report(condition("ResolvedRefs", "False", now, "later")))).Object["status"]
			second, err := Apply(first.Route, ro, Wanted{Weights: &Weights{Stable: 50, Canary: 50}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, refused(second.Route)); diff != "" {
				t.Errorf("refused before, at the second write (-want +got):\n%s", diff)
			}
		})
	}
}

// What a parent says of rules that a managed rule has moved, it has said before.
func TestWhatWasSaidOfMovedRules(t *testing.T) {
	before := "Failed to process route rule 1 backendRef 0: service demo/other-2 not found.\nFailed to process route rule 9 backendRef 1: service demo/third not found."
	for name, tc := range map[string]struct {
		now  string
		want bool
	}{
		"as before": {before, true},
		"moved":     {strings.NewReplacer("rule 1", "rule 2", "rule 9", "rule 10").Replace(before), true},
		"one more":  {before + "\nFailed to process route rule 3 backendRef 0: service demo/more not found.", false},
		"another":   {strings.Replace(before, "other-2", "other-3", 1), false},
		"one less":  {strings.Split(before, "\n")[0], true},
	} {
		t.Run(name, func(t *testing.T) {
			was := refusal{"Gateway infra/public", "example.com/c", typeResolvedRefs, "BackendNotFound", before}
			now := was
			now.Message = tc.now
			if was.covers(now) != tc.want {
				t.Errorf("said before: %t, want %t, in:\n%s", !tc.want, tc.want, tc.now)
			}
			now.Parent = "Gateway infra/other"
			if was.covers(now) {
				t.Error("another parent has not said it")
			}
		})
	}
	if !(refusal{Message: "Dropped Rule(s) [1 2]: rule 1: no"}).covers(refusal{Message: "Dropped Rule(s) [0]: rule 0: no"}) {
		t.Error("dropped rules have moved, and count as others")
	}
}
