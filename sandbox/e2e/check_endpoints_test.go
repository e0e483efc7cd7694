package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check finds a stable or canary Service without ready endpoints, and says why.
func TestCheckEndpoints(t *testing.T) {
	t.Parallel()
	const (
		stable, canary = "Service app-stable", "Service app-canary"
		steps          = "- setWeight: 20\n- pause: {}"
	)
	image := func(n *e2etest.Namespace, name string) { n.SetImage("app", e2etest.Image(name)) }
	for name, tc := range map[string]struct {
		app e2etest.App
		// more is applied with the app.
		more string
		// begin starts a canary whose pods do not get ready. If spoil is set, they
		// do, and spoil is called at the first weight.
		begin, spoil func(n *e2etest.Namespace)
		want         []checktest.Finding
		also         []string
	}{
		"unknown image": {
			app:   e2etest.App{Steps: steps},
			begin: func(n *e2etest.Namespace) { image(n, "no-such-colour") },
			want: []checktest.Finding{{Check: "backends-ready", Status: checktest.Warning, Object: canary,
				Message: "has 0 of 1 pod ready", Remedy: "get rs,pods"}},
		},
		"canary scaled to 0 by a step": {
			app:   e2etest.App{Steps: "- setCanaryScale:\n    replicas: 0\n" + steps},
			begin: func(n *e2etest.Namespace) { image(n, "red") },
			want: []checktest.Finding{{Check: "backends-ready", Status: checktest.Failure, Object: canary,
				Message: "is at 0 replicas, because a setCanaryScale step asks for none", Remedy: "matchTrafficWeight"}},
		},
		"scaled to 0 with minReplicaCount 0": {
			app:   e2etest.App{Steps: steps},
			more:  scaledToZero,
			begin: func(n *e2etest.Namespace) { image(n, "red") },
			spoil: func(n *e2etest.Namespace) { n.Kubectl("scale", "rollout", "app", "--replicas=0") },
			want: []checktest.Finding{
				{Check: "backends-ready", Status: checktest.Failure, Object: stable,
					Message: "the Rollout is scaled to 0", Remedy: "set minReplicaCount above 0"},
				{Check: "scaledobject-min-replicas", Status: checktest.Warning, Object: "ScaledObject app", Message: "minReplicaCount is 0"},
			},
			also: []string{"rollout-health", "annotation", "scaledobject-ready"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			n.Apply(tc.app.Manifest() + tc.more)
			n.AwaitHealthy("app", e2etest.Image("blue"))
			tc.begin(n)
			spoil := func() {}
			if tc.spoil != nil {
				n.AwaitSplit("app", tc.app.Split(20))
				spoil = func() { tc.spoil(n) }
			}
			checktest.Fault{Name: name, Make: spoil, Want: tc.want, Also: tc.also}.FindOnly(t, "app", "-n", n.Name)
		})
	}
}

const scaledToZero = `---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: app
spec:
  minReplicaCount: 0
  maxReplicaCount: 10
  scaleTargetRef:
    apiVersion: argoproj.io/v1alpha1
    kind: Rollout
    name: app
  triggers:
    - type: kedify-http
      metadata:
        hosts: app.example.com
        port: "80"
        scalingMetric: requestRate
        targetValue: "5"
        trafficAutowire: "false"
`
