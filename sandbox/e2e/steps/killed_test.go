package steps

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// find makes a step look for a run that an earlier request of the same attempt has
// started.
const find = `
find:
  url: /runs?key={{ step.key }}
  found: size(response.json.runs) > 0`

// startStep returns a step that is done as soon as the outside has started a run.
func startStep(o *outside, more string, under ...string) string {
	return fmt.Sprintf(`
- plugin:
    name: kedify/step
    config:
%s
      http:
        server: {url: "%s"}
        request:
          url: /runs
          json: {for: '{{ rollout.name }}'}
%s`, e2etest.Indent(6, more), o.URL, e2etest.Indent(8, strings.Join(under, "\n")))
}

// forInstance returns a Rollout for a controller of the test's own, whose instance id
// is the Rollout's name.
func forInstance(name, steps string) string {
	return e2etest.App{Name: name, Labels: "team: a\n" + instanceLabel + ": " + name, NoTraffic: true, Steps: steps}.Rollout()
}

// beginCanary gives a Rollout a template that it has not had yet.
func beginCanary(n *e2etest.Namespace, name string, number int) {
	n.PatchRollout(name, fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {"canary": "%d"}}}}}`, number))
}

// awaitCanaryEnd waits until a canary is complete or aborted, and tells which.
func awaitCanaryEnd(n *e2etest.Namespace, name string) (aborted bool) {
	ro := n.AwaitRollout(name, "its canary has ended", func(ro *v1alpha1.Rollout) error {
		through := ro.Status.Phase == v1alpha1.RolloutPhaseHealthy && ro.Status.StableRS == ro.Status.CurrentPodHash
		if !through && (!ro.Status.Abort || ro.Status.Phase != v1alpha1.RolloutPhaseDegraded) {
			return errors.New("it has not")
		}
		return nil
	})
	return ro.Status.Abort
}

// The controller is killed, and its plugins with it, at each write that one of them
// makes during a canary: before the write reaches the API server, and when it is done
// but not answered. The next controller goes on, and the work is done once if the
// outside honours the key or the step has find. Otherwise it may be done again, under
// the same key, if its start was not stored.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	c := newOwnController(t, n, "app")
	honours, finds, neither := newOutside(t), newOutside(t), newOutside(t)
	finds.honoursKey, neither.honoursKey = false, false
	n.Apply(forInstance("app", startStep(honours, "")+startStep(finds, "", find)+startStep(neither, "")))
	n.AwaitHealthy("app", e2etest.Image("blue"))

	canaries := 0
	sweep := func(after bool) {
		for at, hit := 1, true; hit; at++ {
			c.proxy.killAt(at, after)
			canaries++
			beginCanary(n, "app", canaries)
			aborted := awaitCanaryEnd(n, "app")
			var writes []string
			if hit, writes = c.proxy.hit(); aborted {
				t.Fatalf("the canary was aborted; killed at write %d of %q", at, writes)
			}
		}
	}
	sweep(false)
	sweep(true)
	// The number of writes of a canary varies, as some may be combined: on a busy
	// machine a sweep may miss the write that stores a run.
	for range 4 {
		if !slices.ContainsFunc([]*outside{honours, finds, neither}, func(o *outside) bool { return o.foundAgain() == 0 }) {
			break
		}
		sweep(false)
	}
	for name, tc := range map[string]struct {
		*outside
		most int
	}{
		"honours the key":    {honours, 1},
		"is looked at first": {finds, 1},
		"does neither":       {neither, 2},
	} {
		runs := tc.perKey()
		t.Logf("the outside that %s: runs of %d canaries; %d times there was one before", name, len(runs), tc.foundAgain())
		if len(runs) != canaries {
			t.Errorf("the outside that %s has runs of %d canaries, want %d", name, len(runs), canaries)
		}
		for key, number := range runs {
			if number > tc.most {
				t.Errorf("the outside that %s has %d runs with key %s, want %d at most", name, number, key, tc.most)
			}
		}
		if tc.foundAgain() == 0 {
			t.Errorf("the outside that %s: the controller was never killed between the start of a run and the note of it", name)
		}
	}
}

// The same for steps that take longer, and therefore with Rollouts side by side, each
// with a controller of its own. With onUnknown: Fail, a canary whose work may have been
// started is aborted, and the work is started at most once. A Job is made once.
func TestKilledAtEachWriteOfLongerSteps(t *testing.T) {
	t.Parallel()
	const (
		most   = 18 // more than there are writes
		atOnce = 9
	)
	n := e2etest.NewNamespace(t)
	n.Apply(results)
	o := newOutside(t)
	o.honoursKey = false
	controllers := map[string]*ownController{}
	var names []string
	for at := range most {
		names = append(names, fmt.Sprintf("at-%02d", at+1))
	}
	var through, unknown int
	for some := range slices.Chunk(names, atOnce) {
		for _, name := range some {
			n.Apply(forInstance(name, startStep(o, "onUnknown: Fail")+jobStep("smoke", succeeds, "")))
			controllers[name] = newOwnController(t, n, name)
		}
		for _, name := range some {
			n.AwaitHealthy(name, e2etest.Image("blue"))
			controllers[name].proxy.killAt(1+slices.Index(names, name), false)
			beginCanary(n, name, 1)
		}
		for _, name := range some {
			aborted := awaitCanaryEnd(n, name)
			_, writes := controllers[name].proxy.hit()
			controllers[name].stop()
			made, err := jobs(t.Context(), n, name)
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			for _, run := range o.all() {
				if run.Body["for"] == name {
					runs++
				}
			}
			switch {
			case !aborted && runs == 1 && len(made) == 1:
				through++
			case aborted && runs <= 1 && len(made) == 0:
				unknown += runs
			default:
				t.Errorf("%s: aborted %t, with %d runs and %d Jobs; writes %q", name, aborted, runs, len(made), writes)
			}
		}
	}
	t.Logf("%d canaries are through; %d were aborted that had started a run", through, unknown)
	if through == 0 || unknown == 0 {
		t.Errorf("%d canaries are through and %d were aborted that had started a run, want both", through, unknown)
	}
	if hit, writes := controllers[names[most-1]].proxy.hit(); hit {
		t.Errorf("the last canary has more writes than were tried: %q", writes)
	}
}

// The plugin alone is killed while a step runs: the controller starts it again, and the step
// goes on.
func TestPluginKilledDuringAStep(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	c := newOwnController(t, n, "app")
	o := newOutside(t)
	n.Apply(forInstance("app", o.step("build", "")))
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("yellow"))
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	program := c.plugin("kedify/step")
	plugin := controllertest.Process(t, program)
	e2etest.KillProcess(t, plugin)
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	controllertest.AnotherProcess(t, program, plugin)
	if all := o.all(); len(all) != 1 {
		t.Errorf("%d runs, want 1", len(all))
	}
}
