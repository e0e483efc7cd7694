package steps

import (
	"fmt"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// httpPlugin is the registration sandbox/http as the node runs it in the controller's
// container.
const httpPlugin = "/home/argo-rollouts/plugin-bin/sandbox/http"

// find has a step look for what an earlier request of the same attempt has started.
const find = `
find:
  url: %s/runs?key={{ .step.key }}
  found: len(response.json.runs) > 0
  outputs: {id: "response.json.runs[0].id", url: "response.json.runs[0].url"}`

// The controller, and its plugins with it, is killed when the outside has started a run and
// before the Rollout has a note of that. The next controller begins the step again: one run
// is started where the outside honours the key or the step has find, two under one key where
// it has neither. With onUnknown: Fail it is one, and the canary is aborted.
func TestKilledBetweenEffectAndStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		honoursKey bool
		more       string
		runs       int
		aborted    bool
	}{
		"the outside honours the key": {true, "", 1, false},
		"the step has find":           {false, find, 1, false},
		"neither":                     {false, "", 2, false},
		"neither, and it must know":   {false, "onUnknown: Fail", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t)
			o.honoursKey = tc.honoursKey
			if tc.more == find {
				tc.more = fmt.Sprintf(find, o.URL)
			}
			before := controllertest.Await(t)
			e2etest.AllowRestarts(t, e2etest.ControllerNamespace, before.Name)
			controller := controllertest.Process(t, controllertest.ControllerProgram)
			kill := sync.OnceFunc(func() { e2etest.KillProcess(t, controller) })
			o.started = kill

			n := startOne(t, o.step("build", tc.more), "")
			e2etest.AwaitProcessEnd(t, controller)
			controllertest.AnotherProcess(t, controllertest.ControllerProgram, controller)
			if tc.aborted {
				ro := n.AwaitAborted("app")
				if s := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun); s == nil || !e2etest.ContainsAll(s.Message, []string{"not known", "onUnknown: Fail"}) {
					t.Errorf("step %+v", s)
				}
			} else {
				awaitStep(n, "app", 0, v1alpha1.StepPluginPhaseRunning)
				o.end("passed")
				n.AwaitHealthy("app", e2etest.Image("yellow"))
			}
			all := o.all()
			if len(all) != tc.runs {
				t.Errorf("%d runs were started, want %d", len(all), tc.runs)
			}
			for _, run := range all {
				if run.Key != all[0].Key {
					t.Errorf("keys %s and %s, want one", all[0].Key, run.Key)
				}
			}
		})
	}
}

// The plugin alone is killed while a step runs: the controller starts it again, and the step
// goes on.
func TestPluginKilledDuringAStep(t *testing.T) {
	o := newOutside(t)
	n := startOne(t, o.step("build", ""), "")
	o.await(t, 1, "running")
	awaitStep(n, "app", 0, v1alpha1.StepPluginPhaseRunning)
	plugin := controllertest.Process(t, httpPlugin)
	e2etest.KillProcess(t, plugin)
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	controllertest.AnotherProcess(t, httpPlugin, plugin)
	if all := o.all(); len(all) != 1 {
		t.Errorf("%d runs, want 1", len(all))
	}
}
