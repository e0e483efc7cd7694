package gatewayapi

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parentsRoute is a route of generation 3 with a report in status.parents.
func parentsRoute(spec, status string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: demo, generation: 3}
spec:
  parentRefs: %s
  rules:
  - backendRefs: [{name: app-stable, port: 80}, {name: app-canary, port: 80, namespace: team}, {name: app-canary, port: 81, namespace: team}]
status:
  parents: %s
`, spec, status)
}

func TestParentsOf(t *testing.T) {
	condition := func(kind, status string, generation int, reason string) string {
		return fmt.Sprintf(`{type: %s, status: "%s", observedGeneration: %d, reason: %s, message: said}`, kind, status, generation, reason)
	}
	report := func(ref, accepted, resolved string) string {
		return fmt.Sprintf(`{parentRef: %s, controllerName: example.com/c, conditions: [%s, %s]}`, ref, accepted, resolved)
	}
	accepted, resolved := condition("Accepted", "True", 3, "Accepted"), condition("ResolvedRefs", "True", 3, "ResolvedRefs")
	const gateway = `[{name: public, namespace: infra}]`
	const short, full = `{name: public, namespace: infra}`, `{group: gateway.networking.k8s.io, kind: Gateway, name: public, namespace: infra}`
	tests := map[string]struct {
		spec, status string
		want         []string
	}{
		"accepted":       {gateway, "[" + report(full, accepted, resolved) + "]", []string{"Gateway infra/public (example.com/c): accepted"}},
		"never reported": {gateway, "[]", []string{"Gateway infra/public: unreported"}},
		"behind with both": {
			gateway, "[" + report(short, condition("Accepted", "True", 2, "Accepted"), condition("ResolvedRefs", "True", 2, "ResolvedRefs")) + "]",
			[]string{"Gateway infra/public (example.com/c): has not reported on this state of the route yet"},
		},
		"behind with one": {
			gateway, "[" + report(short, accepted, condition("ResolvedRefs", "True", 2, "ResolvedRefs")) + "]",
			[]string{"Gateway infra/public (example.com/c): has not reported on this state of the route yet"},
		},
		"refused before, and not yet again": {
			gateway, "[" + report(short, accepted, condition("ResolvedRefs", "False", 2, "BackendNotFound")) + "]",
			[]string{"Gateway infra/public (example.com/c): has refused an earlier state of the route and not reported on this one, BackendNotFound: said"},
		},
		"refused before, and the other condition never reported": {
			gateway, "[{parentRef: " + short + ", controllerName: example.com/c, conditions: [" + condition("Accepted", "False", 2, "NoMatchingParent") + "]}]",
			[]string{"Gateway infra/public (example.com/c): has refused an earlier state of the route and not reported on this one, NoMatchingParent: said"},
		},
		"refused, and before for another reason": {
			gateway, "[" + report(short, condition("Accepted", "False", 2, "NoMatchingParent"), condition("ResolvedRefs", "False", 3, "BackendNotFound")) + "]",
			[]string{"Gateway infra/public (example.com/c): refused, BackendNotFound: said"},
		},
		"not decided yet": {
			gateway, "[" + report(short, condition("Accepted", "Unknown", 3, "Pending"), resolved) + "]",
			[]string{"Gateway infra/public (example.com/c): has not reported on this state of the route yet"},
		},
		"refused though the other condition is behind": {
			gateway, "[" + report(short, condition("Accepted", "False", 3, "NoMatchingParent"), condition("ResolvedRefs", "True", 2, "ResolvedRefs")) + "]",
			[]string{"Gateway infra/public (example.com/c): refused, NoMatchingParent: said"},
		},
		"the first refusal is quoted": {
			gateway, "[" + report(short, condition("Accepted", "False", 3, "UnsupportedValue"), condition("ResolvedRefs", "False", 3, "BackendNotFound")) + "]",
			[]string{"Gateway infra/public (example.com/c): refused, UnsupportedValue: said"},
		},
		"a missing ReferenceGrant is named once": {
			gateway, "[" + report(short, accepted, condition("ResolvedRefs", "False", 3, "RefNotPermitted")) + "]",
			[]string{"Gateway infra/public (example.com/c): refused, RefNotPermitted: said; the route needs a ReferenceGrant in namespace team from HTTPRoute of namespace demo to Service app-canary"},
		},
		"a condition that is never reported": {
			gateway, "[{parentRef: " + short + ", controllerName: example.com/c, conditions: [" + accepted + "]}]",
			[]string{"Gateway infra/public (example.com/c): unreported"},
		},
		"a condition that is never reported, and the other behind": {
			gateway, "[{parentRef: " + short + ", controllerName: example.com/c, conditions: [" + condition("Accepted", "True", 2, "Accepted") + "]}]",
			[]string{"Gateway infra/public (example.com/c): has not reported on this state of the route yet"},
		},
		"reported without a generation": {
			gateway, "[" + report(short, `{type: Accepted, status: "True"}`, `{type: ResolvedRefs, status: "True"}`) + "]",
			[]string{"Gateway infra/public (example.com/c): unreported"},
		},
		"some rules are not served": {
			gateway, "[" + report(short, accepted, resolved+", "+condition("PartiallyInvalid", "True", 3, "UnsupportedValue")) + "]",
			[]string{"Gateway infra/public (example.com/c): refused, UnsupportedValue: said"},
		},
		"two controllers for one parent": {
			gateway, "[" + report(short, accepted, resolved) + ", {parentRef: " + short + ", controllerName: example.com/d}]",
			[]string{"Gateway infra/public (example.com/c): accepted", "Gateway infra/public (example.com/d): unreported"},
		},
		"sections and ports are parents of their own, others are not the route's": {
			`[{name: gw, sectionName: http}, {name: gw, port: 80}, {kind: Service, group: "", name: gw}, {name: gw, sectionName: http}]`,
			"[" + report(`{name: gw, sectionName: http}`, accepted, resolved) + ", " + report(`{name: gone}`, condition("Accepted", "False", 3, "NoMatchingParent"), resolved) + ", " + report(`{kind: Service, group: "", name: gw, namespace: demo}`, accepted, resolved) + "]",
			[]string{"Gateway demo/gw section http (example.com/c): accepted", "Gateway demo/gw port 80: unreported", "Service demo/gw (example.com/c): accepted"},
		},
		"no parent": {"[]", "[]", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range parentsOf(routeOf(t, parentsRoute(tc.spec, tc.status)), nil) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("parents (-want +got):\n%s", diff)
			}
		})
	}
}
