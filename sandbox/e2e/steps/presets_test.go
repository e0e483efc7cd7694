package steps

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// callPreset is a preset that starts a run outside and waits for its end; server is what it
// has for the outside's URL.
func callPreset(server, more string) string {
	return fmt.Sprintf(`
hosts: ["%[1]s"]
locked: [http]
%[2]s
defaults:
  interval: 11s
  http:
    server: {url: "http://%[1]s"}
    request: {url: /runs, json: {}}
    outputs: {id: response.json.id}
    poll:
      url: /runs/{{ outputs.id }}
      successCondition: response.json.status == "passed"
      failureCondition: response.json.status == "failed"
    cancel: {method: DELETE, url: "/runs/{{ outputs.id }}"}`, server, more)
}

func use(name string) string {
	return fmt.Sprintf("- plugin: {name: kedify/step, config: {use: %s}}", name)
}

// One registration has four presets of all kinds, which are added, changed, broken, mended and
// disabled while steps run, without a restart of the controller or the plugin.
func TestFourPresetsOfOneRegistration(t *testing.T) {
	t.Parallel()
	n, o, other := e2etest.NewNamespace(t), newOutside(t), newOutside(t)
	name := func(what string) string { return n.Name + "-" + what } // presets are of all tests
	host := func(o *outside) string { return strings.TrimPrefix(o.URL, "http://") }
	call, smoke, meet, late := name("call"), name("smoke"), name("meet"), name("late")
	plugin := controllertest.Process(t, program)
	n.Apply(e2etest.Preset(call, callPreset(host(o), "")))
	n.Apply(e2etest.Preset(smoke, "locked: [job]\ndefaults:\n  interval: 11s\n  job:\n    template:\n      spec:\n"+e2etest.Indent(8, runs)))
	n.Apply(e2etest.Preset(meet, "defaults: {interval: 11s, rollouts: {selector: {matchLabels: {team: a}}, min: 0}}"))
	start(t, n, map[string]string{
		"app":   rollout("app", use(call), ""),
		"smoke": rollout("smoke", use(smoke), ""),
		"late":  rollout("late", use(late), ""),
	})

	// Each does what its preset says; the one without a preset waits for it.
	o.await(t, 1, "running")
	e2etest.Eventually(t, e2etest.Patience, "a Job of smoke", func(ctx context.Context) error {
		made, err := jobs(ctx, n, "smoke")
		if err == nil && len(made) != 1 {
			err = fmt.Errorf("there are %d", len(made))
		}
		return err
	})
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.AwaitStep("late", 0, v1alpha1.StepPluginPhaseRunning, late)
	// Only now: before the canary of app began, app was Healthy, and meet would have passed.
	start(t, n, map[string]string{
		"meet": strings.ReplaceAll(rollout("meet", use(meet), ""), "team: a", "team: b"),
	})
	n.AwaitStep("meet", 0, v1alpha1.StepPluginPhaseRunning, "app")
	n.AwaitEvent("Rollout", "late", "StepRetried", late)

	// It is added, and the step goes on.
	n.Apply(e2etest.Preset(late, callPreset(host(other), "namespaces: ["+n.Name+"]")))
	other.await(t, 1, "running")
	other.end("passed")
	n.AwaitHealthy("late", e2etest.Image("yellow"))

	// A preset that breaks does not stop the step that runs: it ends by the last good one. The
	// next step waits until the preset is mended, and then does what is new.
	n.Apply(e2etest.Preset(call, "defaults: {htpp: {}}"))
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.SetImage("app", e2etest.Image("green"))
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning, "htpp")
	n.Apply(e2etest.Preset(call, callPreset(host(other), "")))
	other.await(t, 2, "running")
	other.end("failed")
	n.AwaitAborted("app")
	if all := o.all(); len(all) != 1 {
		t.Errorf("%d runs of the former server, want 1", len(all))
	}

	// Disabled, it starts nothing.
	n.Apply(e2etest.Preset(call, callPreset(host(other), "disabled: true")))
	n.Retry("app")
	n.AwaitHealthy("app", e2etest.Image("green"))
	if all := other.all(); len(all) != 2 {
		t.Errorf("%d runs of the new server, want 2", len(all))
	}

	// Of another namespace it is refused.
	stranger := e2etest.NewNamespace(t)
	start(t, stranger, map[string]string{"app": rollout("app", use(late), "")})
	stranger.AwaitAborted("app")
	stranger.AwaitStep("app", 0, v1alpha1.StepPluginPhaseFailed, "namespaces")

	n.Abort("smoke")
	n.AwaitAborted("smoke")
	if now := controllertest.Process(t, program); now != plugin {
		t.Errorf("the plugin is process %d, it was %d", now, plugin)
	}
}
