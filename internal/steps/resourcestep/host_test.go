package resourcestep

import (
	"encoding/json"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

// workflow is the configuration of a step with an Argo Workflow.
const workflow = `{"id": "tests", "resource": {
	"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": {"labels": {"team": "{{ rollout.labels.team }}", "revision": "{{ revision }}"}, "annotations": {"old": "{{ images.old.main }}"}},
		"spec": {"workflowTemplateRef": {"name": "e2e"}, "priority": "{{ revision }}", "arguments": {"parameters": [{"name": "url", "value": "http://{{ services.canary }}"}]},
			"podGC": {"labelSelector": {"matchLabels": {"is": "{{ \"{{\" }}workflow.name}}"}}}}},
	"successCondition": "object.status.phase == \"Succeeded\"",
	"failureCondition": "object.status.phase in [\"Failed\", \"Error\"]",
	"outputs": {"progress": "object.status.progress"}}}`

// host calls the plugin as the controller does, for one step of a Rollout, and acts as the
// controller of the object.
type host struct {
	t      *testing.T
	server *apiservertest.Server
	kind   *kind
	plugin *steps.Plugin
	ro     *v1alpha1.Rollout
	config string
	status json.RawMessage

	mu     sync.Mutex
	events []string
	// allowed are the values of --allow-resource.
	allowed []string
}

func newHost(t *testing.T, config string) *host {
	index := int32(1)
	h := &host{
		t: t, server: apiservertest.New(t), config: config, allowed: []string{"workflows.argoproj.io", "Zone.example.com", "ConfigMap"},
		ro: &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "app", UID: "rollout-uid", Labels: map[string]string{"team": "shop"},
			Annotations: map[string]string{"rollout.argoproj.io/revision": "2"},
		}},
	}
	h.server.Serve("argoproj.io", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"Workflow": "workflows", "Rollout": "rollouts"}})
	h.server.Serve("example.com", apiservertest.Version{Name: "v1", Cluster: map[string]string{"Zone": "zones"}})
	h.server.Serve("core", apiservertest.Version{Name: "v1", Kinds: map[string]string{"ConfigMap": "configmaps"}})
	h.ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{CanaryService: "app-canary"}
	h.ro.Status.CurrentStepIndex, h.ro.Status.CurrentPodHash, h.ro.Status.CurrentStepHash, h.ro.Status.StableRS = &index, "new", "steps", "old"
	h.ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, LastTransitionTime: metav1.Unix(100, 0)}}
	rs := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app-old", OwnerReferences: []metav1.OwnerReference{{UID: h.ro.UID, Controller: new(true)}}}}
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1"}}
	h.server.PutObject("replicasets", rs)
	h.restart()
	return h
}

// restart starts a new process of the plugin.
func (h *host) restart() {
	h.t.Helper()
	var allowed []registration.GroupKind
	for _, text := range h.allowed {
		g, err := registration.ParseGroupKind(text)
		if err != nil {
			h.t.Fatal(err)
		}
		allowed = append(allowed, g)
	}
	h.kind = New(Options{Connect: h.server.Config, Logger: hclog.NewNullLogger(), Allowed: allowed}).(*kind)
	h.plugin = steps.New(steps.Options{Kind: h.kind, Events: h, Logger: hclog.NewNullLogger(), CallWait: time.Minute})
}

func (h *host) Warn(_ *v1alpha1.Rollout, reason, _, message string) { h.add(reason + " " + message) }
func (h *host) Note(_ *v1alpha1.Rollout, reason, message string)    { h.add(reason + " " + message) }

func (h *host) add(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

// said returns the Events with a reason.
func (h *host) said(reason string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e string) bool { return !strings.HasPrefix(e, reason) })
}

func (h *host) call() *types.RpcStepContext {
	return &types.RpcStepContext{PluginName: "acme/tests", Config: json.RawMessage(h.config), Status: h.status}
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

func (h *host) abort() types.RpcStepResult {
	h.t.Helper()
	result, err := h.plugin.Abort(h.ro.DeepCopy(), h.call())
	if err.HasError() {
		h.t.Fatalf("an error from Abort: %s", err)
	}
	return result
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

// refuse makes the API server answer requests for one thing with an error.
func (h *host) refuse(what string, answer func(http.ResponseWriter, apiservertest.Request)) {
	h.server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb+" "+r.Resource != what {
			return false
		}
		answer(w, r)
		return true
	})
}

// denied answers as the API server does when admission or RBAC denies a request.
func denied(code int, reason metav1.StatusReason, message string) func(http.ResponseWriter, apiservertest.Request) {
	return func(w http.ResponseWriter, _ apiservertest.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		})
	}
}

// names returns the names of all Workflows.
func (h *host) names() []string {
	h.t.Helper()
	list, names := metav1.PartialObjectMetadataList{}, []string{}
	if err := h.kind.objects.List(h.t.Context(), workflows, "demo", everything, &list); err != nil {
		h.t.Fatal(err)
	}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

// object returns the only Workflow.
func (h *host) object() map[string]any {
	h.t.Helper()
	all := h.names()
	if len(all) != 1 {
		h.t.Fatalf("Workflows %q, want 1", all)
	}
	return h.server.Object("workflows", "demo", all[0])
}

// put changes the only Workflow and stores it.
func (h *host) put(change func(object map[string]any)) {
	h.t.Helper()
	object := h.object()
	change(object)
	h.server.PutObject("workflows", object)
}

// status sets the Workflow's status.
func (h *host) setStatus(status string) {
	h.t.Helper()
	h.put(func(object map[string]any) {
		var value any
		if err := json.Unmarshal([]byte(status), &value); err != nil {
			h.t.Fatal(err)
		}
		object["status"] = value
	})
}

func metadataOf(object map[string]any) map[string]any { return object["metadata"].(map[string]any) }

func uidOf(object map[string]any) kubetypes.UID {
	return kubetypes.UID(metadataOf(object)["uid"].(string))
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
