package regions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// rolloutTemplate is a Rollout without traffic routing, with NAME and STEPS to be filled in.
// All have a container of one name, so that those of different names have the same version.
const rolloutTemplate = `---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: NAME
spec:
  replicas: 1
  selector:
    matchLabels: {app: NAME}
  template:
    metadata:
      labels: {app: NAME}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: app
          image: argoproj/rollouts-demo:blue
          readinessProbe:
            httpGet: {path: /color, port: 8080}
            periodSeconds: 1
  strategy:
    canary:
      steps:
STEPS
`

func rollout(name, steps string) string {
	return strings.NewReplacer("NAME", name, "STEPS", indent(8, steps)).Replace(rolloutTemplate)
}

// workloadRollout is rollout with the template in a Deployment of that name.
func workloadRollout(name, steps string) string {
	own, strategy, _ := strings.Cut(rollout(name, steps), "  strategy:\n")
	spec, template, _ := strings.Cut(own, "  selector:\n")
	deployment := strings.NewReplacer("argoproj.io/v1alpha1", "apps/v1", "kind: Rollout", "kind: Deployment", "replicas: 1", "replicas: 0").Replace(spec)
	return deployment + "  selector:\n" + template + spec +
		"  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: " + name + "}\n  strategy:\n" + strategy
}

// meeting are steps of a canary that waits for a person, and then for the others by a
// preset. The first is no pause: Argo Rollouts would skip the plugin steps of a canary that
// is retried.
func meeting(preset string) string {
	return fmt.Sprintf(`
- setWeight: 0
- pause: {}
- plugin: {name: kedify/step, config: {use: %s}}`, preset)
}

// meetingStep is the index of that step of meeting, and pausedStep that of the pause.
const (
	pausedStep  = 1
	meetingStep = 2
)

// release starts a canary.
func release(n *e2etest.Namespace, name, colour string) {
	n.ArgoRollouts("set", "image", name, "app="+e2etest.Image(colour))
}

// awaitWaiting waits until a step runs, with a message that has these parts.
func awaitWaiting(n *e2etest.Namespace, name string, index int32, parts ...string) *v1alpha1.Rollout {
	return awaitStep(n, name, index, v1alpha1.StepPluginPhaseRunning, parts...)
}

// awaitStep waits until a step is in a phase with a message that has these parts.
func awaitStep(n *e2etest.Namespace, name string, index int32, phase v1alpha1.StepPluginPhase, parts ...string) *v1alpha1.Rollout {
	return n.AwaitRollout(name, fmt.Sprintf("step %d is %s with %q", index, phase, parts), func(ro *v1alpha1.Rollout) error {
		for _, s := range ro.Status.Canary.StepPluginStatuses {
			if s.Index != index || s.Operation != v1alpha1.StepPluginOperationRun {
				continue
			}
			if s.Phase != phase || !e2etest.ContainsAll(s.Message, parts) {
				return fmt.Errorf("step %d is %s: %s", index, s.Phase, s.Message)
			}
			return nil
		}
		return fmt.Errorf("step %d has not run", index)
	})
}

// awaitPromoted waits until the canary is through.
func awaitPromoted(n *e2etest.Namespace, name string) {
	n.AwaitRollout(name, "it is healthy with the new version", func(ro *v1alpha1.Rollout) error {
		if ro.Status.Phase != v1alpha1.RolloutPhaseHealthy || ro.Status.StableRS != ro.Status.CurrentPodHash {
			return errors.New("it is not")
		}
		return nil
	})
}
