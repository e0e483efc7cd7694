package steps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// rolloutTemplate is a Rollout without traffic routing, with NAME, SPEC and STEPS to be
// filled in.
const rolloutTemplate = `---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: NAME
  labels:
    team: a
spec:
  replicas: 1
  selector:
    matchLabels:
      app: NAME
  template:
    metadata:
      labels:
        app: NAME
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: NAME
          image: argoproj/rollouts-demo:blue
          readinessProbe:
            httpGet:
              path: /color
              port: 8080
            periodSeconds: 1
SPEC
  strategy:
    canary:
      steps:
STEPS
`

// rollout returns the manifest of a Rollout with these steps, and further YAML under its
// spec.
func rollout(name, steps, spec string) string {
	return strings.NewReplacer("NAME", name, "STEPS", indent(8, steps), "SPEC", indent(2, spec)).Replace(rolloutTemplate)
}

func indent(spaces int, text string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	margin := strings.Repeat(" ", spaces)
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// start brings Rollouts up in a namespace of the test's own, and starts a canary of each.
func start(t *testing.T, n *e2etest.Namespace, manifests map[string]string) {
	t.Helper()
	for _, manifest := range manifests {
		n.Apply(manifest)
	}
	for name := range manifests {
		n.AwaitHealthy(name, e2etest.Image("blue"))
	}
	for name := range manifests {
		n.SetImage(name, e2etest.Image("yellow"))
	}
}

// startOne is start for one Rollout, app.
func startOne(t *testing.T, steps, spec string) *e2etest.Namespace {
	t.Helper()
	n := e2etest.NewNamespace(t)
	start(t, n, map[string]string{"app": rollout("app", steps, spec)})
	return n
}

// stepStatus returns the status that the controller has stored for an operation of a
// step, or nil if there is none.
func stepStatus(ro *v1alpha1.Rollout, index int32, operation v1alpha1.StepPluginOperation) *v1alpha1.StepPluginStatus {
	for _, s := range ro.Status.Canary.StepPluginStatuses {
		if s.Index == index && s.Operation == operation {
			return &s
		}
	}
	return nil
}

// awaitStep waits until a step of a Rollout is in a phase with a message that has these
// parts.
func awaitStep(n *e2etest.Namespace, name string, index int32, phase v1alpha1.StepPluginPhase, parts ...string) *v1alpha1.Rollout {
	return n.AwaitRollout(name, fmt.Sprintf("step %d is %s with %q", index, phase, parts), func(ro *v1alpha1.Rollout) error {
		s := stepStatus(ro, index, v1alpha1.StepPluginOperationRun)
		if s == nil {
			return fmt.Errorf("step %d has not run", index)
		}
		if s.Phase != phase || !e2etest.ContainsAll(s.Message, parts) {
			return fmt.Errorf("step %d is %s: %s", index, s.Phase, s.Message)
		}
		return nil
	})
}
