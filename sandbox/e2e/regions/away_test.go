package regions

import (
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The API server of a cluster is away for more than a minute while steps wait for it. One
// step waits until it is back, one leaves the cluster out, and one fails. One that would
// leave it out, but has seen a failure there, waits. It is away for these steps alone, as
// other tests need it: TestKilledWhileTheyWait ends it.
func TestAPIServerAwayAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newRelay(t, apiServers()[eu])
	w.home.Apply(kubeconfigSecret(w.home.Name, w.tokenKubeconfig(eu, r.address, w.token(eu))))
	steps := map[string]struct{ rule, waitsFor string }{
		"wait": {"Wait", "app"}, "ignore": {"Ignore", "app"}, "fail": {"Fail", "app"}, "remember": {"Ignore", "aborted"},
	}
	for name, step := range steps {
		of := w.home.Name + "-" + name
		w.home.Apply(preset(of, []string{r.address}, []string{fmt.Sprintf("{name: eu, secret: %s}", w.home.Name)},
			fmt.Sprintf("barrier: all\nnames: [%s]\nonUnreachable: %s", step.waitsFor, step.rule)))
		w.home.Apply(rollout(name, "- plugin: {name: kedify/step, config: {use: "+of+"}}"))
	}
	for _, name := range []string{"app", "aborted"} {
		w.eu.Apply(rollout(name, "- pause: {}"))
		w.eu.AwaitHealthy(name, e2etest.Image("blue"))
		release(w.eu, name, "yellow")
		w.eu.AwaitPaused(name, 0)
	}
	w.eu.Abort("aborted")
	w.eu.AwaitAborted("aborted")
	for name := range steps {
		w.home.AwaitHealthy(name, e2etest.Image("blue"))
		release(w.home, name, "yellow")
	}
	for name, step := range steps {
		awaitWaiting(w.home, name, 0, step.waitsFor+" in eu")
	}

	r.stop()
	awaitWaiting(w.home, "wait", 0, "eu has not answered since")
	w.home.AwaitHealthy("ignore", e2etest.Image("yellow"))
	w.home.AwaitStep("ignore", 0, v1alpha1.StepPluginPhaseSuccessful, "eu is left out")
	w.home.AwaitAborted("fail")
	w.home.AwaitStep("fail", 0, v1alpha1.StepPluginPhaseFailed, "eu has not answered since")
	awaitWaiting(w.home, "wait", 0, "eu has not answered since")
	awaitWaiting(w.home, "remember", 0, "eu has not answered since", "aborted in eu failed")

	r.start()
	w.eu.Promote("app")
	w.home.AwaitHealthy("wait", e2etest.Image("yellow"))
	awaitWaiting(w.home, "remember", 0, "aborted in eu failed")
	w.eu.PatchRollout("aborted", `{"spec": {"strategy": {"canary": {"steps": []}}}}`)
	w.eu.Retry("aborted")
	w.home.AwaitHealthy("remember", e2etest.Image("yellow"))
}
