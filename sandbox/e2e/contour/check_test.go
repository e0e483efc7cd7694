package contour

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// kubectl canary check finds nothing wrong with a canary behind the Gateway, at rest
// and during a step, and finds each fault that keeps one from working.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	c.awaitServed(t)
	args := []string{name, "-n", c.Name}
	checktest.AwaitHealthy(t, args...)

	put := func(from, to string) func() {
		return func() { c.Apply(changed(t, c.route, from, to)) }
	}
	back := func() { c.Apply(c.route) }
	for _, fault := range []checktest.Fault{{
		Name: "no canary in the rule", Make: put("name: app-canary", "name: app-stable-2"), Undo: back,
		Want: []checktest.Finding{{Check: "route-rules", Status: checktest.Failure, Object: "HTTPRoute app", Message: "the canary Service app-canary"}},
		Also: []string{"route-parents"}, // the Service does not exist
	}, {
		Name: "no such Gateway", Make: put("name: "+behind.Name, "name: gone"), Undo: back,
		Want: []checktest.Finding{{Check: "route-parents", Status: checktest.Warning, Object: "HTTPRoute app", Message: "unreported", Remedy: "GatewayClass"}},
	}, {
		Name: "a backend in another namespace", Make: put("          weight: 0\n", "          weight: 0\n        - {name: kubernetes, namespace: default, port: 443, weight: 0}\n"), Undo: back,
		Want: []checktest.Finding{{Check: "route-parents", Object: "HTTPRoute app", Status: checktest.Warning, Message: "RefNotPermitted"}},
	}} {
		fault.Find(t, args...)
	}

	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	checktest.AwaitHealthy(t, args...)
}
