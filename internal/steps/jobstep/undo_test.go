package jobstep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// migration is a step with a Job that takes it back.
const migration = `{"id": "migrate", "job": {
	"template": {"spec": {"containers": [{"name": "smoke", "image": "migrate:1", "args": ["up"]}]}},
	"onAbort": {"template": {"spec": {"containers": [{"name": "smoke", "image": "migrate:1", "args": ["down", "{{ images.old.main }}", "{{ steps.migrate.outputs.from }}", "{{ abort.reason == '' ? 'unknown' : abort.reason }}"]}]}}}}}`

// migrated returns a host whose migration has succeeded.
func migrated(t *testing.T) *host {
	t.Helper()
	h := newHost(t, migration)
	h.run()
	job := h.put(h.job(), completed)
	h.podOf(job, "up", theContainer(corev1.PodSucceeded, ended(0, `{"from": "7"}`)))
	h.want(h.run(), types.PhaseSuccessful)
	return h
}

func (h *host) abort() types.RpcStepResult {
	h.t.Helper()
	result, err := h.plugin.Abort(h.ro, h.call())
	if err.HasError() {
		h.t.Fatalf("an error from Abort: %s", err)
	}
	return result
}

// undoJob returns the Job that takes back; nil if there is none.
func (h *host) undoJob() *batchv1.Job {
	for _, job := range h.jobs() {
		if job.Labels[undoLabel] != "" {
			return job
		}
	}
	return nil
}

// eventually polls until something is so.
func (h *host) eventually(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within a minute: %s; Events %q", what, h.said("Step"))
		}
	}
}

// An abort after a migration has succeeded runs the Job that takes it back, once, and waits
// for its end.
func TestOnAbortTakesBack(t *testing.T) {
	h := migrated(t)
	if undo := h.undoJob(); undo != nil {
		t.Fatalf("before the abort there is %s", undo.Name)
	}
	if result := h.abort(); result.Phase != types.PhaseSuccessful || !strings.Contains(result.Message, "undoing the work goes on, for 8m0s at most: onAbort: Job demo/") || !strings.Contains(result.Message, "-undo was created; ") {
		t.Errorf("%+v", result)
	}
	undo := h.undoJob()
	if undo == nil {
		t.Fatal("there is no Job that takes back")
	}
	if got := undo.Spec.Template.Spec.Containers[0]; fmt.Sprint(got.Args) != "[down app:1 7 unknown]" || got.Env[0].Value != "app" {
		t.Errorf("container %+v", got)
	}
	if *undo.Spec.ActiveDeadlineSeconds != 540 || !stepobject.IsOwnedBy(undo, h.ro) || !strings.HasSuffix(undo.Name, "-undo") {
		t.Errorf("%s with deadline %d, owners %v", undo.Name, *undo.Spec.ActiveDeadlineSeconds, undo.OwnerReferences)
	}
	if len(h.jobs()) != 2 {
		t.Error("the Job of the step is gone before it was taken back")
	}
	h.abort() // a second call
	h.put(h.undoJob(), completed)
	h.eventually("the work is undone", func() bool { return len(h.said("StepCleanedUp")) > 0 })
	if left := h.jobs(); len(left) != 1 || left[0].UID != undo.UID {
		t.Errorf("Jobs that are left: %v", left)
	}
	if said := h.said("StepLeftBehind"); len(said) > 0 {
		t.Errorf("Events %q", said)
	}
}

// A Job that fails to take back is reported with the last lines of its log, as far as an Event
// has room for them.
func TestOnAbortFails(t *testing.T) {
	h := migrated(t)
	h.abort()
	undo := h.undoJob()
	h.podOf(undo, "down", theContainer(corev1.PodFailed, ended(3, "")))
	h.logs["down smoke"] = strings.Repeat("a line of the log\n", 200) + "column price is in use\n"
	h.put(undo, broken)
	h.eventually("what is left is reported", func() bool { return len(h.said("StepLeftBehind")) > 0 })
	said := h.said("StepLeftBehind")[0]
	for _, want := range []string{"Job demo/app-migrate-", "is left: onAbort: Job demo/" + undo.Name + " has failed", "exit code 3", "a line of the log\ncolumn price is in use"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q in it", said, want)
		}
	}
	if len(said) > 1024 {
		t.Errorf("%d bytes: an Event has 1024", len(said))
	}
	if len(h.jobs()) != 2 {
		t.Error("the Jobs were deleted; their logs are of use")
	}
}

// A Job onAbort that cannot be made is reported, or made when it can be.
func TestOnAbortIsRefused(t *testing.T) {
	h := migrated(t)
	h.server.Delete("replicasets", "demo", "app-old")
	if result := h.abort(); !strings.Contains(result.Message, "has failed, retrying for 8m0s: onAbort: the stable version's ReplicaSet") {
		t.Errorf("%+v", result)
	}
	h = migrated(t)
	h.refuse("create jobs", apiservertest.NotFound) // as while the API server starts
	h.abort()
	h.fault(nil)
	h.eventually("it is created", func() bool { return h.undoJob() != nil })
}

// Only work that has succeeded is taken back.
func TestOnAbortIsForWorkThatHasSucceeded(t *testing.T) {
	for name, before := range map[string]func(*host){
		"running": func(h *host) { h.run() },
		"failed":  func(h *host) { h.run(); h.put(h.job(), broken); h.want(h.run(), types.PhaseFailed) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, migration)
			before(h)
			h.abort()
			if undo := h.undoJob(); undo != nil {
				t.Errorf("there is %s", undo.Name)
			}
		})
	}
	t.Run("promoted in full", func(t *testing.T) {
		h := migrated(t)
		if result, _ := h.plugin.Terminate(h.ro, h.call()); result.Phase != types.PhaseSuccessful || h.undoJob() != nil {
			t.Errorf("%+v, and there is %v", result, h.undoJob())
		}
	})
}

// A later canary does not begin the work while it is still being taken back, and does not delete
// the Job that does so. This holds across processes.
func TestALaterCanaryWaitsForOnAbort(t *testing.T) {
	h := migrated(t)
	h.abort()
	undo := h.undoJob()
	h.restart()
	h.status = nil
	h.ro.Status.Conditions[0].LastTransitionTime = metav1.Unix(200, 0)
	h.want(h.run(), types.PhaseRunning, undo.Name+" still takes back what an earlier canary has done")
	if len(h.jobs()) != 2 {
		t.Fatalf("Jobs %v", h.jobs())
	}
	h.put(h.undoJob(), completed)
	h.want(h.run(), types.PhaseRunning, "was created")
	if h.undoJob() == nil {
		t.Error("the Job that has taken back is gone, and its log with it")
	}
}

// A process that is started anew goes on with the Job that the one before has made.
func TestOnAbortIsMadeOnce(t *testing.T) {
	h := migrated(t)
	h.abort()
	undo := h.undoJob()
	h.restart()
	h.abort()
	h.put(h.undoJob(), completed)
	h.eventually("the work is undone", func() bool { return len(h.said("StepCleanedUp")) > 0 })
	if again := h.undoJob(); again == nil || again.UID != undo.UID {
		t.Errorf("%v, want the one with UID %s", again, undo.UID)
	}
}

// A Job that has taken back is not run again where it has expired before the clean-up has ended, nor
// is the first Job needed.
func TestOnAbortThatHasExpired(t *testing.T) {
	h := migrated(t)
	h.refuse("delete jobs", apiservertest.Forbidden)
	h.abort()
	h.put(h.undoJob(), completed)
	deletes := func() (n int) {
		for _, r := range h.server.Requests() {
			if r.Verb == "delete" {
				n++
			}
		}
		return n
	}
	h.eventually("the first Job is to be deleted", func() bool { return deletes() > 0 })
	h.server.Delete("jobs", "demo", h.undoJob().Name)
	h.eventually("the first Job is to be deleted again, or the other is made again", func() bool { return deletes() > 0 || h.undoJob() != nil })
	if again := h.undoJob(); again != nil {
		t.Fatalf("%s was made again", again.Name)
	}
	h.fault(nil)
	h.eventually("the work is undone", func() bool { return len(h.said("StepCleanedUp")) > 0 })

	h = migrated(t)
	h.server.Delete("jobs", "demo", h.jobs()[0].Name)
	h.abort()
	h.put(h.undoJob(), completed)
	h.eventually("the work is undone", func() bool { return len(h.said("StepCleanedUp")) > 0 })
}

// What the Job has logged is shown also where it does not end in time.
func TestOnAbortThatLastsTooLong(t *testing.T) {
	h := migrated(t)
	h.abort()
	undo := h.put(h.undoJob(), func(job *batchv1.Job) {
		job.Status.Active, job.Status.Ready = 1, new(int32(1))
		job.CreationTimestamp = metav1.NewTime(h.clock.Add(-8 * time.Minute))
	})
	h.podOf(undo, "down", theContainer(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
	h.logs["down smoke"] = "waiting for a lock\n"
	h.restart()
	if result := h.abort(); !strings.Contains(result.Message, "goes on") || !strings.Contains(result.Message, "is running") || !strings.Contains(result.Message, "waiting for a lock") {
		t.Errorf("%+v", result)
	}
}
