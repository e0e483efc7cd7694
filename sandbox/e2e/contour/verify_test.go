package contour

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A route that the Gateway does not accept any more holds the step, and an Event says which
// parent refuses it and why. When the reason is gone, the canary goes on by itself.
func TestRefusedRouteHoldsTheStep(t *testing.T) {
	t.Parallel()
	third := `        - name: app-canary
          port: 80
          weight: 0
        - name: other
          namespace: NAMESPACE
          port: 80
          weight: 0
`
	for title, refused := range map[string]struct {
		elsewhere bool
		event     []string
		remedy    string
	}{
		"a Service that does not exist": {
			event:  []string{"BackendNotFound", "service", "other", "not found"},
			remedy: e2etest.Service("other", "other"),
		},
		"no ReferenceGrant": {
			elsewhere: true,
			event:     []string{"RefNotPermitted", "a ReferenceGrant in namespace OTHER from HTTPRoute of namespace OWN to Service other"},
			remedy: `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata:
  name: app
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: OWN}]
  to: [{group: "", kind: Service, name: other}]
`,
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
			other := c.Namespace
			if refused.elsewhere {
				other = e2etest.NewNamespace(t)
				other.Apply(e2etest.Service("other", "other"))
			}
			fill := strings.NewReplacer("OWN", c.Name, "OTHER", other.Name).Replace
			c.SetImage(name, e2etest.Image("yellow"))
			c.AwaitPaused(name, 1)
			c.Apply(changed(t, c.route, "        - name: app-canary\n          port: 80\n          weight: 0\n", strings.ReplaceAll(third, "NAMESPACE", other.Name)))
			c.awaitWeights(t, soon, "80/20/0")
			c.Promote(name)
			parts := []string{"HTTPRoute " + c.Name + "/app", "Gateway " + behind.Namespace + "/" + behind.Name, "the weight is not verified until it is accepted"}
			for _, part := range refused.event {
				parts = append(parts, fill(part))
			}
			event := c.AwaitEvent("Rollout", name, "RouteRefused", parts...)
			t.Log(event.Message)
			c.AwaitHeld(name, 2)
			requireWeights(t, c.Namespace, name, "40/60/0")

			other.Apply(fill(refused.remedy))
			c.AwaitPaused(name, 3)
			c.Abort(name)
			c.AwaitAborted(name)
			awaitRoute(t, c.Namespace, name, e2etest.Patience, "at rest", func(route *unstructured.Unstructured) error {
				return checkRestAt(route, "100/0/0")
			})
		})
	}
}

// A rule of another team has had a Service that does not exist since before the canary.
// The Gateway refuses the route for that, but the canary goes on, with an Event.
func TestBrokenRuleOfAnotherTeam(t *testing.T) {
	t.Parallel()
	const broken = `
    - matches:
        - path: {type: PathPrefix, value: /other}
      backendRefs:
        - name: gone
          port: 80
          weight: 1
`
	c := startCanary(t, e2etest.App{Steps: twoPauses}, strings.TrimRight(routeManifest, "\n")+broken)
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "refused by the Gateway", refusedFor("BackendNotFound"))
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20 1")
	event := c.AwaitEvent("Rollout", name, "RouteRefused", "HTTPRoute "+c.Name+"/app", "BackendNotFound", "gone")
	t.Log(event.Message)
	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60 1")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
}

// refusedFor returns a check that a parent of a route has a reason against it.
func refusedFor(reason string) func(*unstructured.Unstructured) error {
	return func(route *unstructured.Unstructured) error {
		text, err := json.Marshal(route.Object["status"])
		if err == nil && !strings.Contains(string(text), `"`+reason+`"`) {
			err = fmt.Errorf("its status is %s", text)
		}
		return err
	}
}

// changed is a manifest with one part of it replaced.
func changed(t *testing.T, manifest, part, with string) string {
	t.Helper()
	if strings.Count(manifest, part) != 1 {
		t.Fatalf("want one %q in:\n%s", part, manifest)
	}
	return strings.Replace(manifest, part, with, 1)
}
