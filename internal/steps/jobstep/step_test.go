package jobstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

var noSelection = kube.Selection{}

// A step runs a Job in the Rollout's namespace, and takes its outputs from the
// termination message.
func TestAJobSucceeds(t *testing.T) {
	h := newHost(t, smoke)
	h.want(h.run(), types.PhaseRunning, "Job demo/app-smoke-", "was created")
	job := h.job()
	if got := job.Spec.Template.Spec.Containers[0]; got.Image != "smoke:1" || fmt.Sprint(got.Args) != "[--url http://app-canary]" {
		t.Errorf("container %+v", got)
	}
	h.want(h.run(), types.PhaseRunning, "waits for its pod")
	pod := h.podOf(job, "p", theContainer(corev1.PodPending, waits("ContainerCreating", "")))
	h.put(job, func(job *batchv1.Job) { job.Status.Active = 1 })
	h.want(h.run(), types.PhaseRunning, "waits for pod p to start")
	h.put(job, func(job *batchv1.Job) { job.Status.Ready = new(int32(1)) })
	h.server.Requests()
	h.want(h.run(), types.PhaseRunning, "is running (pods: 1 active, 0 succeeded, 0 failed)")
	if requests := h.server.Requests(); len(requests) != 1 || requests[0].Verb != "get" {
		t.Errorf("requests about a Job whose pod is ready: %v, want to get it and no more", requests)
	}
	theContainer(corev1.PodSucceeded, ended(0, `{"buildUrl": "https://ci/1", "passed": 12}`))(pod)
	h.server.PutObject("pods", pod)
	h.put(job, completed)
	h.want(h.run(), types.PhaseSuccessful, "has completed")
	if got := outputsIn(t, h.status); got != "map[buildUrl:https://ci/1 passed:12]" {
		t.Errorf("outputs %s", got)
	}
	// One Event says that the Job starts, one that it runs.
	if said := h.said("StepWaiting"); len(said) != 2 {
		t.Errorf("Events %q", said)
	}
}

// A failed Job says which container has failed, how, and what it has logged last.
func TestAJobFails(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	job := h.put(h.job(), broken)
	h.podOf(job, "p", theContainer(corev1.PodFailed, ended(3, "")))
	h.podOf(job, "q", func(pod *corev1.Pod) { // another object's, with the Job's labels
		theContainer(corev1.PodFailed, ended(99, ""))(pod)
		pod.OwnerReferences[0].UID = "another"
	})
	h.logs["p smoke"] = "GET /\n\x1b[31mstatus 500\x1b[0m\r\nsmoke test failed\n"
	result := h.run()
	h.want(result, types.PhaseFailed, "has failed (BackoffLimitExceeded: Job has reached the specified backoff limit)",
		"container smoke of pod p ended with exit code 3", "GET /\nstatus 500\nsmoke test failed")
	if strings.ContainsAny(result.Message, "\x1b\r") {
		t.Errorf("message %q has control characters", result.Message)
	}
	if len(h.jobs()) != 1 {
		t.Error("the Job was deleted; its log is of use")
	}
}

func TestLogLines(t *testing.T) {
	for name, tt := range map[string]struct {
		logLines string
		log      string // "" for none
		answer   func(http.ResponseWriter, apiservertest.Request)
		message  string // of the container
		want     string
		not      string
	}{
		"as many as are asked for": {`"logLines": 2,`, "one\ntwo\nthree\n", nil, "", "two\nthree", "one"},
		"of a progress bar":        {`"logLines": 2,`, "10 %\r50 %\r100 %\r\ndone\r\n", nil, "", ":\n100 %\ndone", "50"},
		"none":                     {`"logLines": 0,`, "secret\n", nil, "", "exit code 3", "logged"},
		"the last ones that fit":   {"", strings.Repeat("x", 1000) + "\n" + strings.Repeat("y", 1000) + "\nlast\n", nil, "", "yyy\nlast", "xxx"},
		"the end of one":           {"", strings.Repeat("x", 5000) + "the end", nil, "", "xxthe end", ""},
		"no grant":                 {"", "", apiservertest.Forbidden, "", "its log cannot be read: pods/log is forbidden", ""},
		"termination message":      {"", "", apiservertest.Forbidden, "no such host", "left the message:\nno such host", "forbidden"},
		"no log":                   {"", "\n", nil, "", "logged nothing", ""},
		"no answer": {"", "", func(http.ResponseWriter, apiservertest.Request) { panic(http.ErrAbortHandler) }, "",
			"its log cannot be read", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, strings.Replace(smoke, `"job": {`, `"job": {`+tt.logLines, 1))
			h.run()
			h.podOf(h.put(h.job(), broken), "p", theContainer(corev1.PodFailed, ended(3, tt.message)))
			h.logs["p smoke"] = tt.log
			if tt.answer != nil {
				h.refuse("get pods/log", tt.answer)
			}
			result := h.run()
			h.want(result, types.PhaseFailed, tt.want)
			if tt.not != "" && strings.Contains(result.Message, tt.not) {
				t.Errorf("message %q has %q", result.Message, tt.not)
			}
			if len(result.Message) > 2<<10 || strings.HasSuffix(result.Message, "…") {
				t.Errorf("message of %d bytes, cut at its end: %q", len(result.Message), result.Message)
			}
		})
	}
}

// A kubelet that does not answer does not keep a step from ending.
func TestALogThatHangs(t *testing.T) {
	h := newHost(t, smoke)
	h.kind.logTimeout = 10 * time.Millisecond
	h.run()
	h.podOf(h.put(h.job(), broken), "p", theContainer(corev1.PodFailed, ended(3, "")))
	ends := make(chan struct{})
	t.Cleanup(func() { close(ends) })
	h.refuse("get pods/log", func(http.ResponseWriter, apiservertest.Request) { <-ends })
	h.want(h.run(), types.PhaseFailed, "exit code 3", "its log cannot be read")
}

// A step that has timed out shows what its Job has logged, before the Job is deleted.
func TestATimeoutShowsTheLog(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	job := h.put(h.job(), func(job *batchv1.Job) { job.Status.Active, job.Status.Ready = 1, new(int32(1)) })
	h.podOf(job, "p", theContainer(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))
	h.logs["p smoke"] = "waiting for the database\n"
	h.late()
	h.want(h.run(), types.PhaseFailed, "timed out after 8m0s", "is running", "waiting for the database", "the work was cancelled")
	if left := h.jobs(); len(left) != 0 {
		t.Errorf("%d Jobs are left", len(left))
	}
}

// Before a timeout is declared, the Job is read once more.
func TestATimeoutComesSecond(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	h.put(h.job(), completed)
	h.refuse("list events", apiservertest.Forbidden) // no Events are needed
	h.late()
	h.want(h.run(), types.PhaseSuccessful, "has completed")
}

// If a process is killed after it has created the Job and before the status is stored,
// the next process finds the Job, even if it has ended meanwhile.
func TestACrashMakesNoSecondJob(t *testing.T) {
	for name, meanwhile := range map[string]func(*batchv1.Job){
		"running":   func(*batchv1.Job) {},
		"completed": completed,
		"failed":    broken,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, smoke)
			h.lose()
			made := h.put(h.job(), meanwhile)
			h.restart()
			h.want(h.run(), map[string]types.StepPhase{"running": types.PhaseRunning, "completed": types.PhaseSuccessful, "failed": types.PhaseFailed}[name])
			if job := h.job(); job.UID != made.UID {
				t.Error("the Job was created anew")
			}
		})
	}
}

// A creation without an answer may have been carried out: it is repeated under the same
// name, and at the timeout the Job is deleted.
func TestACreationWithoutAnAnswer(t *testing.T) {
	cutAfter := func(h *host) {
		// The server makes the Job and then cuts the connection.
		h.fault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
			if request.Verb != "create" {
				return false
			}
			var job batchv1.Job
			if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
				t.Error(err)
			}
			h.server.PutObject("jobs", job)
			panic(http.ErrAbortHandler)
		})
	}
	t.Run("made again", func(t *testing.T) {
		h := newHost(t, smoke)
		cutAfter(h)
		h.want(h.run(), types.PhaseRunning, "cannot be created")
		h.fault(nil)
		h.want(h.run(), types.PhaseRunning, "waits for its pod")
		h.job()
	})
	t.Run("timed out", func(t *testing.T) {
		h := newHost(t, smoke)
		cutAfter(h)
		h.run()
		h.late()
		h.want(h.run(), types.PhaseFailed, "timed out", "the work was cancelled")
		if left := h.jobs(); len(left) != 0 {
			t.Errorf("%d Jobs are left", len(left))
		}
	})
}

// A Job of the same name that is not the step's is neither used nor deleted.
func TestAJobOfSomebodyElse(t *testing.T) {
	for name, change := range map[string]func(*batchv1.Job){
		"another key":   func(job *batchv1.Job) { job.Labels[stepobject.KeyLabel] = "0123" },
		"no label":      func(job *batchv1.Job) { job.Labels = nil },
		"another owner": func(job *batchv1.Job) { job.OwnerReferences[0].UID = "another" },
		"no owner":      func(job *batchv1.Job) { job.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, smoke)
			h.run()
			started := h.status
			h.put(h.job(), change)
			h.put(h.job(), completed)
			h.want(h.run(), types.PhaseFailed, "exists, and is not this step's")
			h.restart()
			h.status = nil
			h.want(h.run(), types.PhaseFailed, "exists, and is not this step's")
			h.restart()
			h.status = started
			if result, _ := h.plugin.Abort(h.ro, h.call()); result.Phase != types.PhaseSuccessful {
				t.Errorf("Abort: %+v", result)
			}
			h.job()
		})
	}
}

// Abort deletes the Job of a step that runs or has succeeded; Terminate only that of a
// step that runs.
func TestAJobIsDeleted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ended func(*batchv1.Job)
		abort bool
		left  int
	}{
		{"abort while it runs", nil, true, 0},
		{"abort after it has succeeded", completed, true, 0},
		{"promote --full while it runs", nil, false, 0},
		{"promote --full after it has succeeded", completed, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, smoke)
			h.run()
			if tt.ended != nil {
				h.put(h.job(), tt.ended)
				h.want(h.run(), types.PhaseSuccessful)
			}
			for range 2 { // the second call finds no more to do
				call := h.plugin.Terminate
				if tt.abort {
					call = h.plugin.Abort
				}
				if result, err := call(h.ro, h.call()); result.Phase != types.PhaseSuccessful || err.HasError() {
					t.Errorf("%+v, %s", result, err)
				}
			}
			if left := h.jobs(); len(left) != tt.left {
				t.Errorf("%d Jobs are left, want %d", len(left), tt.left)
			}
		})
	}
}

// If a Job of the same name is created between the read and the delete, the new one
// stays.
func TestADeleteIsOfTheJobThatWasRead(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	h.fault(func(_ http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb == "delete" && h.server.Object("jobs", "demo", r.Name)["made"] == nil {
			h.server.PutObject("jobs", map[string]any{"kind": "Job", "made": "anew", "metadata": map[string]any{"namespace": "demo", "name": r.Name, "uid": "another"}})
		}
		return false
	})
	result, _ := h.plugin.Abort(h.ro, h.call())
	if job := h.job(); job.UID != "another" {
		t.Errorf("Jobs %v after %+v", job, result)
	}
}

// While the API server refuses a delete, it is tried again.
func TestADeleteIsTriedAgain(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	h.refuse("delete jobs", apiservertest.Forbidden)
	result, _ := h.plugin.Abort(h.ro, h.call())
	if !strings.Contains(result.Message, "cannot be deleted") || !strings.Contains(result.Message, "deploy/rbac-step/job.yaml") {
		t.Errorf("%+v", result)
	}
	h.fault(nil)
	for deadline := time.Now().Add(time.Minute); len(h.jobs()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Job is not deleted")
		}
	}
}

// After an abort and a retry, and after v2, v1 and v2 again, a step has a Job of its own:
// one that has finished before says nothing about the new canary.
func TestAFinishedJobIsNotTakenForAnother(t *testing.T) {
	for name, again := range map[string]func(*host){
		"retry after abort": func(h *host) { h.ro.Status.Conditions[0].LastTransitionTime = metav1.Unix(200, 0) },
		"v2, v1, v2":        func(h *host) { h.ro.Annotations["rollout.argoproj.io/revision"] = "4" },
		"steps edited":      func(h *host) { h.ro.Status.CurrentStepHash = "others" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, smoke)
			h.run()
			h.put(h.job(), completed)
			h.want(h.run(), types.PhaseSuccessful)
			h.status = nil
			again(h)
			h.want(h.run(), types.PhaseRunning, "was created")
			if all := h.jobs(); len(all) != 2 {
				t.Errorf("%d Jobs, want 2", len(all))
			}
		})
	}
}

// A new revision that comes while a Job runs clears the step's status, without a call.
// The Job is deleted when the new revision's Job is made; others are not.
func TestANewRevisionDeletesTheJobBefore(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	before := h.job()
	copied := func(name string, change func(*batchv1.Job)) {
		job := before.DeepCopy()
		job.Name, job.UID = name, kubetypes.UID(name)
		h.put(job, change)
	}
	copied("finished", completed)
	copied("failed", broken)
	copied("of-another-rollout", func(job *batchv1.Job) {
		job.Labels[stepobject.RolloutUIDLabel], job.OwnerReferences[0].UID = "another", "another"
	})
	copied("not-owned", func(job *batchv1.Job) { job.OwnerReferences = nil })
	copied("no-label", func(job *batchv1.Job) { job.Labels = nil })
	h.status = nil
	h.ro.Annotations["rollout.argoproj.io/revision"], h.ro.Status.CurrentPodHash = "3", "newer"
	h.refuse("delete jobs", apiservertest.Forbidden)
	h.want(h.run(), types.PhaseRunning, "of an earlier revision: Job demo/app-smoke-")
	if len(h.jobs()) != 6 {
		t.Error("the new Job was created while the one before runs")
	}
	h.fault(nil)
	h.want(h.run(), types.PhaseRunning, "was created")
	names := []string{}
	for _, job := range h.jobs() {
		names = append(names, job.Name)
	}
	if slices.Contains(names, before.Name) || len(names) != 6 {
		t.Errorf("Jobs %v, want %s to be deleted", names, before.Name)
	}
}

// A Job that was deleted is not made again: its work may be half done.
func TestAJobThatSomebodyDeletes(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	h.server.Delete("jobs", "demo", h.job().Name)
	h.want(h.run(), types.PhaseFailed, "was deleted, or has expired", "not created again")
	if len(h.jobs()) != 0 {
		t.Error("it was created again")
	}
}

// Each attempt has its own Job, and Jobs that have failed stay to be looked at.
func TestRetries(t *testing.T) {
	h := newHost(t, strings.Replace(smoke, "{", `{"retries": 1,`, 1))
	h.run()
	first := h.put(h.job(), broken)
	h.want(h.run(), types.PhaseRunning, "attempt 1 of 2 has failed")
	h.want(h.run(), types.PhaseRunning, "was created")
	for _, job := range h.jobs() {
		if job.Name != first.Name {
			h.put(job, completed)
		}
	}
	h.want(h.run(), types.PhaseSuccessful)
	if len(h.jobs()) != 2 {
		t.Errorf("%d Jobs, want 2", len(h.jobs()))
	}
}

// A pod that cannot start ends the step before its timeout, and the Job with it.
func TestAPodThatCannotStart(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	job := h.put(h.job(), func(job *batchv1.Job) { job.Status.Active = 1 })
	pod := h.podOf(job, "p", theContainer(corev1.PodPending, waits("ErrImagePull", "manifest unknown")))
	h.want(h.run(), types.PhaseRunning, "container smoke of pod p does not start: ErrImagePull: manifest unknown")
	h.clock = h.clock.Add(59 * time.Second)
	theContainer(corev1.PodPending, waits("ImagePullBackOff", "Back-off"))(pod)
	h.server.PutObject("pods", pod)
	h.want(h.run(), types.PhaseRunning)
	h.clock = h.clock.Add(time.Second)
	h.wantCancelled("has not started within 1m0s: container smoke of pod p does not start: ImagePullBackOff: Back-off")
}

// An Event says why a Job has no pod. While a quota is used up, the step waits.
func TestAPodThatIsRefused(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	uid := string(h.job().UID)
	h.event("a", uid, "FailedCreate", `Error creating: pods "p" is forbidden: exceeded quota: pods`, 20)
	h.event("b", uid, "FailedCreate", "Error creating: something before", 10)
	h.event("c", "another", "FailedCreate", "of another Job", 30)
	h.event("d", uid, "SuccessfulCreate", "Created pod", 30)
	h.want(h.run(), types.PhaseRunning, "it has no pod: Error creating: pods \"p\" is forbidden: exceeded quota")
	h.clock = h.clock.Add(5 * time.Minute)
	h.want(h.run(), types.PhaseRunning, "exceeded quota")
	h.event("e", uid, "FailedCreate", `Error creating: pods "p" is forbidden: violates PodSecurity`, 40)
	h.wantCancelled("has not started within 1m0s", "violates PodSecurity")
}

// An Event says why a pod's containers are not made.
func TestAVolumeThatIsNotThere(t *testing.T) {
	h := newHost(t, smoke)
	h.run()
	pod := h.podOf(h.job(), "p", func(pod *corev1.Pod) {
		pod.UID = "pod-uid"
		theContainer(corev1.PodPending, waits("ContainerCreating", ""))(pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	})
	h.want(h.run(), types.PhaseRunning, "waits for pod p to start")
	h.event("a", string(pod.UID), "FailedMount", `MountVolume.SetUp failed for volume "v" : secret "x" not found`, 20)
	h.want(h.run(), types.PhaseRunning, `the volumes of pod p are not mounted: MountVolume.SetUp failed for volume "v" : secret "x" not found`)
	h.clock = h.clock.Add(time.Minute)
	h.wantCancelled("has not started within 1m0s", `secret "x" not found`)
}

// An error at the creation of a Job either fails the step at once or makes it wait.
func TestACreationThatIsRefused(t *testing.T) {
	answer := func(err *apierrors.StatusError) func(http.ResponseWriter, apiservertest.Request) {
		return func(w http.ResponseWriter, _ apiservertest.Request) {
			err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(err.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(err.ErrStatus)
		}
	}
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter, apiservertest.Request)
		phase  types.StepPhase
		want   string
	}{
		"not valid":   {answer(apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "x", nil)), types.PhaseFailed, "cannot be created"},
		"bad request": {answer(apierrors.NewBadRequest("strict decoding")), types.PhaseFailed, "strict decoding"},
		"admission":   {answer(apierrors.NewForbidden(resource, "x", fmt.Errorf("no Jobs on Fridays"))), types.PhaseFailed, "no Jobs on Fridays"},
		"quota":       {answer(apierrors.NewForbidden(resource, "x", fmt.Errorf("exceeded quota: jobs"))), types.PhaseRunning, "exceeded quota: jobs"},
		"no grant": {answer(apierrors.NewForbidden(resource, "", fmt.Errorf(`User "argo-rollouts" cannot create resource "jobs" in API group "batch" in the namespace "demo"`))),
			types.PhaseRunning, "deploy/rbac-step/job.yaml"},
		"too busy":     {func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.ComeBack(w, 429, 5, r) }, types.PhaseRunning, "cannot be created"},
		"server error": {func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.Fail(w, 500, r) }, types.PhaseRunning, "cannot be created"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, smoke)
			h.refuse("create jobs", tt.answer)
			h.want(h.run(), tt.phase, tt.want)
			h.fault(nil)
			if tt.phase == types.PhaseRunning {
				h.want(h.run(), types.PhaseRunning, "was created")
			}
		})
	}
}

// While something cannot be read, the step waits and says so; it goes on once it can be
// read.
func TestWhatCannotBeRead(t *testing.T) {
	for _, what := range []string{"get replicasets", "list jobs", "get jobs", "list pods", "list events"} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t, smoke)
			if what != "get replicasets" && what != "list jobs" {
				h.run()
			}
			h.refuse(what, apiservertest.Forbidden)
			h.want(h.run(), types.PhaseRunning, strings.Fields(what)[1]+" is forbidden")
			h.fault(nil)
			h.want(h.run(), types.PhaseRunning)
			h.job()
		})
	}
}

// A quote in a label stays as it is, and an output that does not exist fails the step
// before anything is created.
func TestTexts(t *testing.T) {
	env := func(value string) string {
		return fmt.Sprintf(`{"id": "smoke", "job": {"template": {"spec": {"initContainers": [{"name": "i", "image": "{{ images.new.main }}"}], "containers": [{"name": "c", "image": "c", "env": [{"name": "V", "value": %q}]}]}}}}`, value)
	}
	h := newHost(t, env(`{{ rollout.labels.team }} {{ images.old.main }} {{ weight }}`))
	h.want(h.run(), types.PhaseRunning)
	pod := h.job().Spec.Template.Spec
	if own := pod.Containers[0].Env[len(pod.Containers[0].Env)-1]; own.Value != `a"b app:1 20` || pod.InitContainers[0].Image != "app:2" {
		t.Errorf("env %+v, image %s", own, pod.InitContainers[0].Image)
	}
	h = newHost(t, env(`{{ steps.e2e.outputs.url }}`))
	h.want(h.run(), types.PhaseFailed, "template.spec.containers[0].env[0].value", "e2e")
	if len(h.jobs()) != 0 {
		t.Error("a Job was created")
	}
}

// cronJobSpec is the jobTemplate.spec of a CronJob.
const cronJobSpec = `{"backoffLimit": 3, "ttlSecondsAfterFinished": 60, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "OnFailure", "serviceAccountName": "e2e", "containers": [
	{"name": "e2e", "image": "e2e:1", "args": ["{{ .literal }}"], "env": [{"name": "LEVEL", "value": "full"}, {"name": "URL", "value": "http://app"}]}, {"name": "db", "image": "db:1"}]}}}`

func (h *host) putCronJob(name string) {
	h.server.PutObject("cronjobs", json.RawMessage(fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "demo", "name": %q}, "spec": {"suspend": true, "jobTemplate": {"spec": %s}}}`, name, cronJobSpec)))
}

// A step runs the Job of a CronJob, with its own keys laid over it.
func TestFromACronJob(t *testing.T) {
	h := newHost(t, `{"job": {"from": "cronjob/e2e", "backoffLimit": 0, "template": {"spec": {"serviceAccountName": null, "containers": [{"name": "e2e", "env": [{"name": "URL", "value": "http://{{ services.canary }}"}]}]}}}}`)
	h.want(h.run(), types.PhaseRunning, "from: CronJob demo/e2e cannot be read", "not found")
	h.putCronJob("e2e")
	h.want(h.run(), types.PhaseRunning, "was created")
	job := h.job()
	spec, pod := job.Spec, job.Spec.Template.Spec
	if *spec.BackoffLimit != 0 || *spec.TTLSecondsAfterFinished != minTTL || pod.RestartPolicy != corev1.RestartPolicyOnFailure || pod.ServiceAccountName != "" || spec.Template.Labels["a"] != "b" || len(pod.Containers) != 2 {
		t.Errorf("Job %+v", spec)
	}
	own := pod.Containers[0]
	values := map[string]string{}
	for _, variable := range own.Env {
		values[variable.Name] = variable.Value
	}
	if own.Image != "e2e:1" || fmt.Sprint(own.Args) != "[{{ .literal }}]" || values["LEVEL"] != "full" || values["URL"] != "http://app-canary" || values["ROLLOUT_NAME"] != "app" {
		t.Errorf("container %+v", own)
	}
}

// An error about what cannot be merged does not show what the CronJob has.
func TestACronJobIsNotQuoted(t *testing.T) {
	h := newHost(t, `{"job": {"from": "cronjob/e2e", "template": {"spec": {"containers": [{"name": "e2e", "env": [null]}]}}}}`)
	h.putCronJob("e2e")
	got := h.run()
	h.want(got, types.PhaseFailed, "from: cronjob/e2e and the keys beside it cannot be merged")
	if strings.Contains(got.Message, "LEVEL") {
		t.Errorf("message %q", got.Message)
	}
}

// After a crash the Job counts, whatever has become of the CronJob.
func TestTheJobComesBeforeTheCronJob(t *testing.T) {
	h := newHost(t, `{"job": {"from": "cronjob/e2e"}}`)
	h.putCronJob("e2e")
	h.lose()
	h.server.Delete("cronjobs", "demo", "e2e")
	h.restart()
	h.want(h.run(), types.PhaseRunning, "waits for its pod")
	h.put(h.job(), completed)
	h.want(h.run(), types.PhaseSuccessful)
}

// A Job is made in the Rollout's namespace, whatever a configuration says.
func TestTheNamespaceIsTheRollouts(t *testing.T) {
	h := newHost(t, `{"job": {"template": {"metadata": {"namespace": "kube-system", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}, "spec": {"containers": [{"name": "c", "image": "c"}]}}}}`)
	h.want(h.run(), types.PhaseRunning)
	if job := h.job(); job.Namespace != "demo" || len(job.OwnerReferences) != 1 || job.OwnerReferences[0].UID != "rollout-uid" {
		t.Errorf("Job of %s, owned by %+v", job.Namespace, job.OwnerReferences)
	}
}

// The ClusterRole grants exactly the verbs that the kind uses.
func TestPermissions(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/rbac-step/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(text), "\n---")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[verb+" "+resource] = true
			}
		}
	}
	h := newHost(t, strings.Replace(smoke, `"job": {`, `"job": {"from": "cronjob/e2e",`, 1))
	h.putCronJob("e2e")
	h.run()
	h.run() // without a pod, Events are read
	h.podOf(h.put(h.job(), broken), "p", theContainer(corev1.PodFailed, ended(1, "")))
	if _, err := h.plugin.Abort(h.ro, h.call()); err.HasError() {
		t.Fatal(err)
	}
	h.status = nil
	h.ro.Annotations["rollout.argoproj.io/revision"] = "3"
	h.run()
	h.podOf(h.put(h.job(), broken), "q", theContainer(corev1.PodFailed, ended(1, "")))
	h.run()
	if diff := cmp.Diff(granted, h.asked); diff != "" {
		t.Errorf("-granted +used:\n%s", diff)
	}
}
