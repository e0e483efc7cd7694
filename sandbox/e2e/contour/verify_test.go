package contour

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// A route that the Gateway does not accept holds the step, and an Event says which
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
			event:  []string{"BackendNotFound", "service \"other\""},
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
			c.route = changed(t, c.route, "        - name: app-canary\n          port: 80\n          weight: 0\n", strings.ReplaceAll(third, "NAMESPACE", other.Name))
			c.Apply(c.route)
			before := routeOf(t, c.Namespace, name)

			c.SetImage(name, e2etest.Image("yellow"))
			parts := []string{"HTTPRoute " + c.Name + "/app", "Gateway projectcontour/contour", "the weight is not verified until it is accepted"}
			for _, part := range refused.event {
				parts = append(parts, fill(part))
			}
			event := c.AwaitEvent("Rollout", name, "RouteRefused", parts...)
			t.Log(event.Message)
			requireHeld(t, c.Namespace, 0)
			requireWeights(t, c.Namespace, name, "80/20/0")

			other.Apply(fill(refused.remedy))
			c.AwaitPaused(name, 1)
			c.Abort(name)
			c.AwaitAborted(name)
			awaitRest(t, c.Namespace, before)
		})
	}
}

// requireHeld waits until the controller has been told that the weight of a step is not
// verified, and fails the test if it goes on to the next nevertheless.
func requireHeld(t *testing.T, n *e2etest.Namespace, step int32) {
	t.Helper()
	n.AwaitRollout(name, fmt.Sprintf("held at step %d", step), func(ro *v1alpha1.Rollout) error {
		switch weights := ro.Status.Canary.Weights; {
		case ro.Status.CurrentStepIndex == nil || *ro.Status.CurrentStepIndex != step:
			return fmt.Errorf("it is at step %v", ro.Status.CurrentStepIndex)
		case weights == nil || weights.Verified == nil:
			return errors.New("its status does not say whether the weight is verified")
		case *weights.Verified:
			return errors.New("the weight is verified")
		}
		return nil
	})
}

// changed is a manifest with one part of it replaced.
func changed(t *testing.T, manifest, part, with string) string {
	t.Helper()
	if strings.Count(manifest, part) != 1 {
		t.Fatalf("want one %q in:\n%s", part, manifest)
	}
	return strings.Replace(manifest, part, with, 1)
}
