package contour

import (
	"context"
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// With the verbs that the argo-rollouts chart grants with providers.gatewayAPI, which
// do not include patch, the router sends updates instead. The test does not run in
// parallel with others, whose routes would be updated, too. A router that may not patch
// does not try again for ten minutes, so the test restarts the controller at its end.
func TestUpdateWithoutPatch(t *testing.T) {
	const role = "argo-rollouts-gatewayapi"
	t.Cleanup(func() {
		for _, line := range []string{
			"kubectl apply --server-side --force-conflicts -k " + e2etest.Repository(t, "deploy", "gatewayapi"),
			"kubectl -n argo-rollouts rollout restart deploy/argo-rollouts",
			"kubectl -n argo-rollouts rollout status deploy/argo-rollouts --timeout=2m",
		} {
			if _, err := e2etest.TryShell(context.Background(), line); err != nil {
				t.Error(err)
			}
		}
	})
	e2etest.Shell(t, "kubectl patch clusterrole "+role+` --type=merge -p='{"rules":[{"apiGroups":["gateway.networking.k8s.io"],`+
		`"resources":["httproutes","grpcroutes","tcproutes","tlsroutes","udproutes"],"verbs":["get","list","watch","update"]}]}'`)
	for verb, want := range map[string]string{"patch": "no\n", "update": "yes\n"} {
		line := "kubectl auth can-i " + verb + " httproutes.gateway.networking.k8s.io -A --as=system:serviceaccount:argo-rollouts:argo-rollouts || true"
		e2etest.Eventually(t, e2etest.Patience, line, func(ctx context.Context) error {
			got, err := e2etest.TryShell(ctx, line)
			if err == nil && got != want {
				err = fmt.Errorf("it says %q, want %q", got, want)
			}
			return err
		})
	}

	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	record := recordWeights(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.AwaitReconciled(e2etest.ControllerNamespace, name)
	requireWeights(t, c.Namespace, name, "80/20")
	c.Apply(c.route)
	c.awaitWeights(t, soon, "80/20")
	c.AwaitEvent("Rollout", name, "RouteRestored", "field manager e2e (")
	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
	record.requireWeights("100/0", "80/20", "100/0", "80/20", "40/60", "0/100", "100/0")
	counts := map[string]int{}
	for _, w := range c.ControllerWrites(name) {
		counts[w]++
	}
	if counts["patch 403"] != 1 || counts["update"] != 5 || counts["patch"] != 0 {
		t.Errorf("the router has written the route by %v, want one patch that is forbidden, and 5 updates", counts)
	}
}
