package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	rolloutLabel = "rollouts.kedify.io/rollout"
	keyLabel     = "rollouts.kedify.io/step-key"
)

// Pods of Jobs.
const (
	// succeeds leaves outputs behind, from the ConfigMap results.
	succeeds = `
containers:
  - name: smoke
    image: ghcr.io/kedify/argo-rollouts-plugin:dev
    command: [/bin/cp, /results/outputs.json, /dev/termination-log]
    volumeMounts: [{name: results, mountPath: /results}]
volumes: [{name: results, configMap: {name: results}}]`
	fails = `
containers:
  - {name: smoke, image: "ghcr.io/kedify/argo-rollouts-plugin:dev", command: [/bin/cp, /none, /tmp]}`
	runs = `
terminationGracePeriodSeconds: 1
containers:
  - {name: smoke, image: "argoproj/rollouts-demo:blue"}`
)

const results = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: results
data:
  outputs.json: '{"build": "17", "passed": 12}'
`

// jobStep returns a step that runs a Job with pods of a spec.
func jobStep(id, podSpec, more string) string {
	return fmt.Sprintf(`
- plugin:
    name: kedify/step
    config:
      id: %s
      interval: 11s
%s
      job:
        template:
          spec:
%s`, id, e2etest.Indent(6, more), e2etest.Indent(12, podSpec))
}

// jobs returns the Jobs of the steps of a Rollout, in the order of the API server's
// list.
func jobs(ctx context.Context, n *e2etest.Namespace, rollout string) ([]batchv1.Job, error) {
	list, err := n.Kube.BatchV1().Jobs(n.Name).List(ctx, metav1.ListOptions{LabelSelector: rolloutLabel + "=" + rollout})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitJobs waits until a check of the Jobs of the Rollout app succeeds.
func awaitJobs(t *testing.T, n *e2etest.Namespace, what string, check func([]batchv1.Job) error) []batchv1.Job {
	t.Helper()
	var last []batchv1.Job
	e2etest.Eventually(t, e2etest.Patience, "Jobs of app: "+what, func(ctx context.Context) (err error) {
		if last, err = jobs(ctx, n, "app"); err != nil {
			return err
		}
		if err := check(last); err != nil {
			return fmt.Errorf("%w; there are %s", err, describeJobs(last))
		}
		return nil
	})
	return last
}

func describeJobs(all []batchv1.Job) string {
	var texts []string
	for _, job := range all {
		texts = append(texts, fmt.Sprintf("%s (%+v)", job.Name, job.Status.Conditions))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// number returns a check that there are want Jobs.
func number(want int) func([]batchv1.Job) error {
	return func(all []batchv1.Job) error {
		if len(all) != want {
			return fmt.Errorf("%d Jobs, want %d", len(all), want)
		}
		return nil
	}
}

// awaitNoPods waits until the Jobs of the Rollout app are gone, and their pods.
func awaitNoPods(t *testing.T, n *e2etest.Namespace) {
	t.Helper()
	awaitJobs(t, n, "none", number(0))
	e2etest.Eventually(t, e2etest.Patience, "no pods of Jobs", func(ctx context.Context) error {
		list, err := n.Kube.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}

// A Job succeeds, and its outputs go to the Job of the next step. When the Rollout is
// deleted, so are its Jobs.
func TestJobStep(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(results)
	next := strings.Replace(succeeds, "    command:", `    env: [{name: ABOUT, value: 'build {{ steps.smoke.outputs.build }} of {{ images.new.app }}'}]
    command:`, 1)
	start(t, n, map[string]string{"app": rollout("app", jobStep("smoke", succeeds, "")+jobStep("next", next, ""), "")})
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	for _, job := range awaitJobs(t, n, "two", number(2)) {
		env := map[string]string{}
		for _, variable := range job.Spec.Template.Spec.Containers[0].Env {
			env[variable.Name] = variable.Value
		}
		about := ""
		if strings.HasPrefix(job.Name, "app-next-") {
			about = "build 17 of " + e2etest.Image("yellow")
		}
		if env["ABOUT"] != about || env["ROLLOUT_NEW_IMAGE"] != e2etest.Image("yellow") || env["ROLLOUT_OLD_IMAGE"] != e2etest.Image("blue") || env["ROLLOUT_STEP_KEY"] != job.Labels[keyLabel] {
			t.Errorf("Job %s has the environment %v", job.Name, env)
		}
	}
	n.Delete(rollout("app", "- pause: {}", ""))
	awaitNoPods(t, n)
}

// A Job fails: the canary is aborted, and the message has what the Job has logged. The
// retried canary has a Job of its own, although the failed one still exists.
func TestJobStepFails(t *testing.T) {
	t.Parallel()
	n := startOne(t, jobStep("smoke", fails, ""), "")
	failed := func() {
		t.Helper()
		s := stepStatus(n.AwaitAborted("app"), 0, v1alpha1.StepPluginOperationRun)
		if s == nil || !e2etest.ContainsAll(s.Message, []string{"BackoffLimitExceeded", "exit code 1", "cp: open /none: no such file or directory"}) {
			t.Errorf("step %+v", s)
		}
	}
	failed()
	before := awaitJobs(t, n, "one", number(1))
	n.Retry("app")
	after := awaitJobs(t, n, "a second one", number(2))
	if after[0].Labels[keyLabel] == after[1].Labels[keyLabel] || before[0].UID != after[0].UID && before[0].UID != after[1].UID {
		t.Errorf("Jobs %s, before %s", describeJobs(after), describeJobs(before))
	}
	failed()
}

// A version that is deployed again after another has a new Job, although the one that
// succeeded in its first canary still exists.
func TestJobOfAVersionThatComesAgain(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(results)
	start(t, n, map[string]string{"app": rollout("app", jobStep("smoke", succeeds, "")+pause, "")})
	n.AwaitPaused("app", 1)
	first := awaitJobs(t, n, "one", number(1))
	n.SetImage("app", e2etest.Image("blue"))
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	for _, job := range awaitJobs(t, n, "two", number(2)) {
		if job.UID != first[0].UID && job.Labels[keyLabel] == first[0].Labels[keyLabel] {
			t.Errorf("both Jobs have key %s", job.Labels[keyLabel])
		}
	}
}

// Jobs are deleted with their pods when a canary is aborted or promoted in full.
func TestJobIsDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		podSpec string
		end     func(*e2etest.Namespace)
	}{
		"abort while it runs": {runs, func(n *e2etest.Namespace) {
			n.Abort("app")
			n.AwaitAborted("app")
		}},
		"abort after it has succeeded": {succeeds, func(n *e2etest.Namespace) {
			n.AwaitPaused("app", 1)
			n.Abort("app")
			n.AwaitAborted("app")
		}},
		"promote --full": {runs, func(n *e2etest.Namespace) {
			n.Promote("app", "--full")
			n.AwaitHealthy("app", e2etest.Image("yellow"))
		}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			n.Apply(results)
			start(t, n, map[string]string{"app": rollout("app", jobStep("smoke", tc.podSpec, "")+pause, "")})
			awaitJobs(t, n, "one", number(1))
			awaitStatus(n)
			tc.end(n)
			awaitNoPods(t, n)
		})
	}
}

// awaitStatus waits until the controller has stored the answer to the first Run.
func awaitStatus(n *e2etest.Namespace) {
	n.AwaitRollout("app", "the status of its step is there", func(ro *v1alpha1.Rollout) error {
		if stepStatus(ro, 0, v1alpha1.StepPluginOperationRun) == nil {
			return errors.New("it is not")
		}
		return nil
	})
}

// The plugin is not told of a new revision that comes while a Job runs: the new
// revision's own step deletes the Job.
func TestNewRevisionDuringAJob(t *testing.T) {
	t.Parallel()
	n := startOne(t, jobStep("smoke", runs, ""), "")
	first := awaitJobs(t, n, "one", number(1))[0]
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.SetImage("app", e2etest.Image("green"))
	awaitJobs(t, n, "another one alone", func(all []batchv1.Job) error {
		if len(all) != 1 || all[0].UID == first.UID {
			return errors.New("want the new revision's")
		}
		return nil
	})
	n.Abort("app")
	n.AwaitAborted("app")
	awaitNoPods(t, n)
}

// A Job that does not end is deleted at the step's timeout, and what it has logged is in the
// message.
func TestJobTimeout(t *testing.T) {
	t.Parallel()
	n := startOne(t, jobStep("smoke", runs, "timeout: 30s"), "")
	s := stepStatus(n.AwaitAborted("app"), 0, v1alpha1.StepPluginOperationRun)
	if s == nil || !e2etest.ContainsAll(s.Message, []string{"timed out after 30s", "serving blue", "the work was cancelled"}) {
		t.Errorf("step %+v", s)
	}
	awaitNoPods(t, n)
}

// A Job that has not started within a minute fails the step before its timeout.
func TestJobThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ podSpec, want string }{
		"image":          {strings.Replace(runs, "argoproj/rollouts-demo:blue", "example.com/none:1", 1), `image "example.com/none:1"`},
		"secret":         {strings.Replace(runs, "{name: smoke,", "{name: smoke, envFrom: [{secretRef: {name: none}}],", 1), "CreateContainerConfigError"},
		"volume":         {strings.Replace(runs, "{name: smoke,", "{name: smoke, volumeMounts: [{name: v, mountPath: /v}],", 1) + "\nvolumes: [{name: v, secret: {secretName: none}}]", `"none" not found`},
		"serviceaccount": {"serviceAccountName: none" + runs, `serviceaccount "none" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startOne(t, jobStep("smoke", tc.podSpec, ""), "")
			n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning, tc.want)
			n.AwaitEvent("Rollout", "app", "StepWaiting", tc.want)
			s := stepStatus(n.AwaitAborted("app"), 0, v1alpha1.StepPluginOperationRun)
			if s == nil || !e2etest.ContainsAll(s.Message, []string{"has not started within 1m0s", tc.want, "the work was cancelled"}) {
				t.Errorf("step %+v", s)
			}
			awaitNoPods(t, n)
		})
	}
}
