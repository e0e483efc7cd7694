package regions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// rollout returns the manifest of a Rollout without traffic routing. All have a container
// of one name, so that those of different names have the same version.
func rollout(name, steps string) string {
	return e2etest.App{Name: name, Container: "app", NoTraffic: true, Steps: steps}.Rollout()
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
	return n.AwaitStep(name, index, v1alpha1.StepPluginPhaseRunning, parts...)
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
