package jobstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// smokeJob is the configuration of a Job, smoke that of a step with it.
const (
	smokeJob = `{"template": {"spec": {"containers": [{"name": "smoke", "image": "smoke:1", "args": ["--url", "http://{{ services.canary }}"]}]}}}`
	smoke    = `{"id": "smoke", "job": ` + smokeJob + `}`
)

// host calls the plugin as the controller does, for one step of a Rollout, and acts as
// the Job controller.
type host struct {
	t      *testing.T
	server *apiservertest.Server
	kind   *kind
	plugin *steps.Plugin
	ro     *v1alpha1.Rollout
	config string
	status json.RawMessage
	clock  time.Time

	mu     sync.Mutex
	events []string
	logs   map[string]string // by pod and container
	asked  map[string]bool   // verb and resource of all requests
}

func newHost(t *testing.T, config string) *host {
	index := int32(1)
	h := &host{
		t: t, server: apiservertest.New(t), config: config, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		logs: map[string]string{}, asked: map[string]bool{},
		ro: &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "app", UID: "rollout-uid", Labels: map[string]string{"team": `a"b`},
			Annotations: map[string]string{"rollout.argoproj.io/revision": "2"},
		}},
	}
	h.ro.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:2"}, {Name: "proxy", Image: "proxy:2"}}
	h.ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{StableService: "app-stable", CanaryService: "app-canary"}
	h.ro.Status.CurrentStepIndex, h.ro.Status.CurrentPodHash, h.ro.Status.CurrentStepHash, h.ro.Status.StableRS = &index, "new", "steps", "old"
	h.ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}}
	h.ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, LastTransitionTime: metav1.Unix(100, 0)}}
	controller := true
	rs := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app-old", OwnerReferences: []metav1.OwnerReference{{UID: h.ro.UID, Controller: &controller}}}}
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1"}}
	h.server.PutObject("replicasets", rs)
	h.fault(nil)
	h.restart()
	return h
}

// fault lets a function answer requests first; logs come from h.logs otherwise.
func (h *host) fault(fault apiservertest.Fault) {
	h.server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		resource := request.Resource
		if strings.HasSuffix(r.URL.Path, "/log") {
			resource += "/log"
		}
		h.mu.Lock()
		h.asked[request.Verb+" "+resource] = true
		text, there := h.logs[request.Name+" "+r.URL.Query().Get("container")]
		h.mu.Unlock()
		request.Resource = resource
		switch {
		case fault != nil && fault(w, r, request):
		case resource == "pods/log" && there:
			_, _ = w.Write([]byte(text))
		case resource == "pods/log":
			apiservertest.NotFound(w, request)
		default:
			return false
		}
		return true
	})
}

// refuse makes the API server answer requests for one thing with an error.
func (h *host) refuse(what string, answer func(http.ResponseWriter, apiservertest.Request)) {
	h.fault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb+" "+r.Resource != what {
			return false
		}
		answer(w, r)
		return true
	})
}

// restart starts a new process of the plugin.
func (h *host) restart() {
	h.kind = New(Options{Connect: h.server.Config, Logger: hclog.NewNullLogger()}).(*kind)
	h.kind.now = func() time.Time { return h.clock }
	h.plugin = steps.New(steps.Options{Kind: h.kind, Events: h, Logger: hclog.NewNullLogger(), CallWait: time.Minute})
}

func (h *host) Warn(_ *v1alpha1.Rollout, reason, _, message string) { h.add(reason + " " + message) }
func (h *host) Note(_ *v1alpha1.Rollout, reason, message string)    { h.add(reason + " " + message) }

func (h *host) add(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *host) call() *types.RpcStepContext {
	return &types.RpcStepContext{PluginName: "acme/smoke", Config: json.RawMessage(h.config), Status: h.status}
}

// run makes a Run, and stores its answer.
func (h *host) run() types.RpcStepResult {
	h.t.Helper()
	result := h.lose()
	h.status = result.Status
	return result
}

// lose makes a Run whose answer is lost.
func (h *host) lose() types.RpcStepResult {
	h.t.Helper()
	result, err := h.plugin.Run(h.ro.DeepCopy(), h.call())
	if err.HasError() {
		h.t.Fatalf("an error from Run: %s", err)
	}
	return result
}

// late changes the stored status so that the step's timeout has passed.
func (h *host) late() {
	h.t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(h.status, &fields); err != nil {
		h.t.Fatal(err)
	}
	fields["elapsed"] = 10000 * time.Second
	h.status, _ = json.Marshal(fields)
}

// want fails a test if its result has another phase, or lacks one of these words.
func (h *host) want(got types.RpcStepResult, phase types.StepPhase, words ...string) {
	h.t.Helper()
	if got.Phase != phase {
		h.t.Fatalf("%s (%s), want %s", got.Phase, got.Message, phase)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			h.t.Errorf("message %q, want %q in it", got.Message, word)
		}
	}
}

// wantCancelled is want for a step that fails while its Job runs, and deletes it in the next
// call.
func (h *host) wantCancelled(words ...string) {
	h.t.Helper()
	h.want(h.run(), types.PhaseRunning, words...)
	h.want(h.run(), types.PhaseFailed, append(words, "the work was cancelled")...)
	if len(h.jobs()) != 0 {
		h.t.Error("the Job of a failed step goes on")
	}
}

// jobs returns all Jobs, in the order of their names.
func (h *host) jobs() []*batchv1.Job {
	h.t.Helper()
	var list batchv1.JobList
	if err := h.kind.jobs.Objects.List(h.t.Context(), jobs, "demo", noSelection, &list); err != nil {
		h.t.Fatal(err)
	}
	all := []*batchv1.Job{}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// job returns the only Job.
func (h *host) job() *batchv1.Job {
	h.t.Helper()
	all := h.jobs()
	if len(all) != 1 {
		h.t.Fatalf("%d Jobs, want 1", len(all))
	}
	return all[0]
}

// put changes a Job and stores it.
func (h *host) put(job *batchv1.Job, change func(*batchv1.Job)) *batchv1.Job {
	change(job)
	h.server.PutObject("jobs", job)
	return job
}

func completed(job *batchv1.Job) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	job.Status.Succeeded = 1
}

func broken(job *batchv1.Job) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "Job has reached the specified backoff limit"}}
	job.Status.Failed = 1
}

// podOf stores a pod of a Job.
func (h *host) podOf(job *batchv1.Job, name string, change func(*corev1.Pod)) *corev1.Pod {
	controller := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: name, Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: &controller}},
	}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	change(pod)
	h.server.PutObject("pods", pod)
	return pod
}

// theContainer sets the state of a pod's one container.
func theContainer(phase corev1.PodPhase, state corev1.ContainerState) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "smoke", State: state}}
	}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.Unix(1000, 0)}}
}

// outputsIn returns the outputs in a step's status.
func outputsIn(t *testing.T, status json.RawMessage) string {
	t.Helper()
	var fields struct {
		Outputs map[string]string `json:"outputs"`
	}
	if err := json.Unmarshal(status, &fields); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(fields.Outputs)
}

// event stores an Event about the object with a UID.
func (h *host) event(name, uid, reason, message string, at int64) {
	h.server.PutObject("events", corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "demo", Name: name},
		InvolvedObject: corev1.ObjectReference{UID: kubetypes.UID(uid)}, Reason: reason, Message: message, LastTimestamp: metav1.Unix(at, 0),
	})
}

// said returns the Events with a reason.
func (h *host) said(reason string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e string) bool { return !strings.HasPrefix(e, reason+" ") })
}
