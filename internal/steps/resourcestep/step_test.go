package resourcestep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

var (
	workflows  = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}
	everything = kube.Selection{Metadata: true}
)

// A step creates an object in the Rollout's namespace, which is the Rollout's, and waits until
// its condition is true.
func TestAnObjectSucceeds(t *testing.T) {
	h := newHost(t, workflow)
	validation := ""
	h.server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb == "create" {
			validation = r.URL.Query().Get("fieldValidation")
		}
		return false
	})
	h.want(h.run(), types.PhaseRunning, "Workflow demo/app-tests-", "was created")
	object := h.object()
	meta := metadataOf(object)
	labels, annotations := meta["labels"].(map[string]any), meta["annotations"].(map[string]any)
	owner := meta["ownerReferences"].([]any)[0].(map[string]any)
	spec, _ := json.Marshal(object["spec"])
	got := fmt.Sprint(labels["team"], labels["revision"], labels["rollouts.kedify.io/step"], annotations["old"], owner["uid"], validation, string(spec))
	if want := `shop2testsapp:1rollout-uidStrict{"arguments":{"parameters":[{"name":"url","value":"http://app-canary"}]},"podGC":{"labelSelector":{"matchLabels":{"is":"{{workflow.name}}"}}},"priority":2,"workflowTemplateRef":{"name":"e2e"}}`; strings.ReplaceAll(got, " ", "") != want {
		t.Errorf("created:\n%s, want\n%s", got, want)
	}
	h.server.Requests()
	h.want(h.run(), types.PhaseRunning, `waits for successCondition: object.status.phase == "Succeeded" (there is no "status" yet)`)
	if requests := h.server.Requests(); len(requests) != 2 { // the object, and the ReplicaSet of the old images
		t.Errorf("requests of a step that waits: %v", requests)
	}
	h.setStatus(`{"phase": "Running", "message": "3 of 7\nnodes", "progress": "3/7"}`)
	h.want(h.run(), types.PhaseRunning, "(Running: 3 of 7 nodes)")
	h.setStatus(`{"phase": "Running", "message": "4 of 7", "progress": "4/7"}`)
	h.run()
	h.setStatus(`{"phase": "Succeeded", "progress": "7/7"}`)
	h.want(h.run(), types.PhaseSuccessful, "Workflow demo/app-tests-", "has succeeded")
	if !strings.Contains(string(h.status), `"outputs":{"progress":"7/7"}`) {
		t.Errorf("status %s", h.status)
	}
	// One Event says that the object starts, one that it is there, and one for its phase.
	if said := h.said("StepWaiting"); len(said) != 3 {
		t.Errorf("Events %q", said)
	}
}

// A failure says what the object says, and leaves it to be looked at.
func TestAnObjectFails(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.setStatus(`{"phase": "Failed", "message": "child 'a' failed"}`)
	h.want(h.run(), types.PhaseFailed, "has failed: failureCondition is true: object.status.phase in", "(Failed: child 'a' failed)")
	h.object()
	for status, want := range map[string]string{
		`{"conditions": [{"type": "Succeeded", "status": "False", "reason": "TaskRunFailed", "message": "step main exited"}]}`: "(TaskRunFailed: step main exited)",
		`{"conditions": "none", "phase": 7}`: "is true: 'true'",
		`"done"`:                             "is true: 'true'",
	} {
		h := newHost(t, strings.NewReplacer(`object.status.phase in [\"Failed\", \"Error\"]`, `'true' == 'true'`).Replace(workflow))
		h.run()
		h.setStatus(status)
		h.want(h.run(), types.PhaseFailed, want)
	}
}

// A message that the configuration has tells of the object.
func TestAMessage(t *testing.T) {
	h := newHost(t, strings.Replace(workflow, `"outputs":`, `"message": "{{ outputs.progress }} of the tests at {{ object.metadata.name }}", "outputs":`, 1))
	h.run()
	h.want(h.run(), types.PhaseRunning, `(there is no "status" yet)`)
	h.setStatus(`{"phase": "Running", "progress": "3/7"}`)
	h.want(h.run(), types.PhaseRunning, ": 3/7 of the tests at app-tests-")
	h.setStatus(`{"phase": "Failed", "progress": "4/7"}`)
	h.want(h.run(), types.PhaseFailed, "failureCondition is true", ": 4/7 of the tests at app-tests-")
}

// An output that is missing fails a step that would succeed.
func TestOutputsAreNeeded(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.setStatus(`{"phase": "Succeeded"}`)
	h.want(h.run(), types.PhaseFailed, "has succeeded", "outputs.progress: ", `there is no "progress"`)
}

// While a controller has not seen the last change, its status counts neither way.
func TestAStatusOfAnEarlierGeneration(t *testing.T) {
	for _, phase := range []string{"Succeeded", "Failed"} {
		h := newHost(t, workflow)
		h.run()
		h.put(func(object map[string]any) { metadataOf(object)["generation"] = 2 })
		h.setStatus(`{"phase": "` + phase + `", "observedGeneration": 1, "progress": "1/1"}`)
		h.want(h.run(), types.PhaseRunning, "has not seen its last change yet (status.observedGeneration is 1, metadata.generation 2)")
		h.setStatus(`{"phase": "` + phase + `", "observedGeneration": 2, "progress": "1/1"}`)
		h.want(h.run(), map[string]types.StepPhase{"Succeeded": types.PhaseSuccessful, "Failed": types.PhaseFailed}[phase])
	}
}

// A condition that cannot be evaluated, other than for what is missing, is said, and looked at
// again.
func TestAConditionThatDoesNotFit(t *testing.T) {
	h := newHost(t, strings.Replace(workflow, `object.status.phase == \"Succeeded\"`, `object.status.count > 3`, 1))
	h.run()
	h.setStatus(`{"count": "four", "phase": "", "progress": ""}`)
	h.want(h.run(), types.PhaseRunning, "successCondition: object.status.count > 3: > does not work with a text and a number")
	h.setStatus(`{"count": 4, "phase": "", "progress": ""}`)
	h.want(h.run(), types.PhaseSuccessful)
}

// The registration decides which kinds a step may create, whatever its preset is.
func TestWhatIsAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		apiVersion, kind string
		allowed          []string
		want             string // empty: is created
		waits            bool
	}{
		"by its resource":          {"argoproj.io/v1alpha1", "Workflow", []string{"workflows.argoproj.io"}, "", false},
		"by its kind":              {"argoproj.io/v1alpha1", "Workflow", []string{"Workflow.argoproj.io"}, "", false},
		"of the core group":        {"v1", "ConfigMap", []string{"configmaps"}, "", false},
		"none is allowed":          {"argoproj.io/v1alpha1", "Workflow", nil, "manifest.kind: Workflow is not allowed (none is): an admin allows it with --allow-resource=Workflow.argoproj.io", false},
		"of another group":         {"argoproj.io/v1alpha1", "Workflow", []string{"workflows", "workflows.example.com", "Rollout.argoproj.io"}, "(allowed are workflows, workflows.example.com, rollout.argoproj.io)", false},
		"RBAC":                     {"rbac.authorization.k8s.io/v1", "RoleBinding", []string{"workflows.argoproj.io"}, "steps create no such objects: who edits a Rollout would have all rights", false},
		"has no namespace":         {"example.com/v1", "Zone", []string{"zones.example.com"}, "Zone of example.com/v1 has no namespace", false},
		"a resource of its own":    {"example.com/v1", "Oddity", []string{"oddities.example.com"}, "Oddity is not allowed (allowed are oddities.example.com)", false},
		"a version that is not":    {"argoproj.io/v2", "Workflow", []string{"workflows.argoproj.io"}, "kind Workflow of argoproj.io/v2 is not served by this cluster: install its CRD", true},
		"of a CRD that is missing": {"k6.io/v1alpha1", "TestRun", []string{"testruns.k6.io"}, "kind TestRun of k6.io/v1alpha1 is not served by this cluster: install its CRD", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, strings.NewReplacer("argoproj.io/v1alpha1", tc.apiVersion, `"Workflow"`, fmt.Sprintf("%q", tc.kind)).Replace(workflow))
			h.server.Serve("example.com", apiservertest.Version{Name: "v1", Kinds: map[string]string{"Oddity": "odds"}, Cluster: map[string]string{"Zone": "zones"}})
			h.allowed = tc.allowed
			h.restart()
			result := h.run()
			switch {
			case tc.want == "" || tc.waits:
				h.want(result, types.PhaseRunning, tc.want)
			default:
				h.want(result, types.PhaseFailed, tc.want)
			}
			created := 0
			for _, r := range h.server.Requests() {
				if r.Verb == "create" {
					created++
				}
			}
			if (created == 1) != (tc.want == "") {
				t.Errorf("%d objects were created", created)
			}
		})
	}
}

// A CRD that is missing is waited for, and one that goes takes the step's object with it.
func TestACRDComesAndGoes(t *testing.T) {
	h := newHost(t, workflow)
	none := func() {
		h.server.Serve("argoproj.io", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"Rollout": "rollouts"}})
	}
	none()
	h.want(h.run(), types.PhaseRunning, "starting failed, retrying: kind Workflow of argoproj.io/v1alpha1 is not served by this cluster: install its CRD")
	h.server.Serve("argoproj.io", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"Workflow": "workflows"}})
	h.want(h.run(), types.PhaseRunning, "was created")
	none()
	h.want(h.run(), types.PhaseRunning, "polling failed, retrying: Workflow demo/app-tests-")
	h.want(h.run(), types.PhaseRunning, "is not served by this cluster")
	h.late()
	h.want(h.run(), types.PhaseFailed, "is not served by this cluster", "the work was cancelled")
}

// A version of a CRD that goes leaves the objects that were made in it: an abort deletes them in
// another version.
func TestAVersionGoes(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.server.Serve("argoproj.io", apiservertest.Version{Name: "v1", Kinds: map[string]string{"Workflow": "workflows"}})
	h.want(h.run(), types.PhaseRunning, "polling failed, retrying: Workflow demo/app-tests-")
	h.want(h.run(), types.PhaseRunning, "kind Workflow of argoproj.io/v1alpha1 is not served by this cluster")
	h.want(h.abort(), types.PhaseSuccessful)
	h.eventually("the work is cancelled", func() bool { return len(h.said("StepCleanedUp")) > 0 })
	h.server.Serve("argoproj.io", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"Workflow": "workflows"}})
	if left := h.names(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// Large whole numbers stay as they are written.
func TestLargeNumbers(t *testing.T) {
	h := newHost(t, strings.Replace(workflow, `"spec": {`, `"spec": {"seed": 9007199254740993, "share": 0.25, `, 1))
	var created string
	h.server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb == "create" {
			body, _ := io.ReadAll(r.Body)
			created, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
		}
		return false
	})
	h.want(h.run(), types.PhaseRunning, "was created")
	if !strings.Contains(created, `"seed":9007199254740993,"share":0.25`) {
		t.Errorf("created %s", created)
	}
}

// What the API server refuses for good fails the step; what may change is waited for.
func TestACreationIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter, apiservertest.Request)
		phase  types.StepPhase
		want   string
	}{
		"by a webhook":      {denied(403, metav1.StatusReasonForbidden, `admission webhook "policy.example.com" denied the request: no owner label`), types.PhaseFailed, "no owner label"},
		"by validation":     {denied(422, metav1.StatusReasonInvalid, `Workflow "app" is invalid: spec.templates: Required value`), types.PhaseFailed, "spec.templates: Required value"},
		"an unknown field":  {denied(400, metav1.StatusReasonBadRequest, `strict decoding error: unknown field "spec.entrypont"`), types.PhaseFailed, `unknown field "spec.entrypont"`},
		"a webhook is down": {denied(500, metav1.StatusReasonInternalError, `failed calling webhook "policy.example.com"`), types.PhaseRunning, "failed calling webhook"},
		"a quota":           {denied(403, metav1.StatusReasonForbidden, `workflows.argoproj.io "app" is forbidden: exceeded quota: objects, used: count/workflows.argoproj.io=5`), types.PhaseRunning, "exceeded quota"},
		"no permission": {denied(403, metav1.StatusReasonForbidden, `workflows.argoproj.io is forbidden: User "x" cannot create resource "workflows"`), types.PhaseRunning,
			"the controller's ServiceAccount needs create, get, list and delete of workflows.argoproj.io"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, workflow)
			h.refuse("create workflows", tc.answer)
			result := h.run()
			h.want(result, tc.phase, "Workflow demo/app-tests-", "cannot be created", tc.want)
			if advises := strings.Contains(result.Message, "ServiceAccount needs"); advises != (name == "no permission") {
				t.Errorf("advice about permissions: %q", result.Message)
			}
			h.server.SetFault(nil)
			if tc.phase == types.PhaseRunning {
				h.want(h.run(), types.PhaseRunning, "was created")
			}
		})
	}
}

// A creation without an answer, and a process that ends after it, make no second object.
func TestAnObjectIsCreatedOnce(t *testing.T) {
	h := newHost(t, workflow)
	h.lose()
	made := uidOf(h.object())
	h.setStatus(`{"phase": "Running", "progress": ""}`)
	h.restart()
	h.want(h.run(), types.PhaseRunning, "waits for successCondition")
	if uidOf(h.object()) != made {
		t.Error("the object was created anew")
	}
	h = newHost(t, workflow)
	h.server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb != "create" {
			return false
		}
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			t.Error(err)
		}
		h.server.PutObject("workflows", object)
		panic(http.ErrAbortHandler)
	})
	h.want(h.run(), types.PhaseRunning, "cannot be created")
	h.server.SetFault(nil)
	h.want(h.run(), types.PhaseRunning, "waits for successCondition")
	h.object()
}

// Somebody else's object under the name is neither used nor deleted.
func TestAForeignObject(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.put(func(object map[string]any) {
		metadataOf(object)["labels"].(map[string]any)["rollouts.kedify.io/step-key"] = "another"
	})
	h.want(h.run(), types.PhaseFailed, "exists, and is not this step's (its label rollouts.kedify.io/step-key is \"another\", not ", "delete it and retry the canary")
	h.restart()
	h.abort()
	h.object()
}

// An object whose owner somebody has taken away is not this step's any more.
func TestAnObjectWithoutItsOwner(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.put(func(object map[string]any) { delete(metadataOf(object), "ownerReferences") })
	h.want(h.run(), types.PhaseFailed, "exists, and is not this step's (it has no owner with this Rollout's UID): delete it")
}

// A step whose object is deleted under way fails, and creates no other.
func TestAnObjectIsDeletedByOthers(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.server.Delete("workflows", "demo", h.names()[0])
	h.want(h.run(), types.PhaseFailed, "was deleted", "it is not created again")
	h = newHost(t, workflow)
	h.run()
	h.put(func(object map[string]any) {
		metadataOf(object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		metadataOf(object)["finalizers"] = []string{"acme/keep"}
	})
	h.want(h.run(), types.PhaseFailed, "is being deleted, before it has ended")
	h = newHost(t, workflow)
	h.run()
	h.put(func(object map[string]any) {
		metadataOf(object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		object["status"] = map[string]any{"phase": "Succeeded", "progress": "1/1"}
	})
	h.want(h.run(), types.PhaseSuccessful)
}

// An abort deletes the object, whether it runs or has succeeded; a full promotion one that runs;
// and so does the timeout.
func TestAnObjectIsDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		succeeded, promoted bool
		left                int
	}{
		"abort while it runs":                  {false, false, 0},
		"abort after it has succeeded":         {true, false, 0},
		"promoted in full while it runs":       {false, true, 0},
		"promoted in full after it succeeded.": {true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, workflow)
			h.run()
			if tc.succeeded {
				h.setStatus(`{"phase": "Succeeded", "progress": "1/1"}`)
				h.want(h.run(), types.PhaseSuccessful)
			}
			h.restart() // a new process finds it too
			if tc.promoted {
				if result, _ := h.plugin.Terminate(h.ro, h.call()); result.Phase != types.PhaseSuccessful {
					t.Errorf("%+v", result)
				}
			} else {
				h.want(h.abort(), types.PhaseSuccessful)
			}
			if left := h.names(); len(left) != tc.left {
				t.Errorf("left are %q", left)
			}
		})
	}
	h := newHost(t, workflow)
	h.run()
	h.late()
	h.want(h.run(), types.PhaseFailed, "timed out after 8m0s", "waits for successCondition", "the work was cancelled")
	if left := h.names(); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
}

// A deletion counts when the object is gone. One that hangs is named with what it waits for.
func TestFinalizers(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.put(func(object map[string]any) { metadataOf(object)["finalizers"] = []string{"acme/keep"} })
	h.want(h.abort(), types.PhaseSuccessful, "Workflow demo/app-tests-", "is being deleted, and waits for its finalizers acme/keep")
	if said := h.said("StepCleanedUp"); len(said) > 0 {
		t.Errorf("while it is there: %q", said)
	}
	h.server.Delete("workflows", "demo", h.names()[0])
	h.eventually("the work is cancelled", func() bool { return len(h.said("StepCleanedUp")) > 0 })

	h = newHost(t, strings.Replace(workflow, `"id": "tests"`, `"id": "tests", "timeout": "2s"`, 1))
	h.run()
	h.put(func(object map[string]any) { metadataOf(object)["finalizers"] = []string{"acme/keep"} })
	h.abort()
	h.eventually("what is left is said", func() bool { return len(h.said("StepLeftBehind")) > 0 })
	if said := h.said("StepLeftBehind")[0]; !strings.Contains(said, "Workflow demo/app-tests-") || !strings.Contains(said, "finalizers acme/keep") {
		t.Errorf("%q", said)
	}
}

// The step of a later canary deletes the object of the one before, whatever its state, so that
// none pile up.
func TestALaterCanaryDeletesTheObjectBefore(t *testing.T) {
	for _, status := range []string{`{"phase": "Running"}`, `{"phase": "Succeeded", "progress": "1/1"}`, `{"phase": "Failed"}`, `"odd"`} {
		t.Run(status, func(t *testing.T) {
			h := newHost(t, workflow)
			h.run()
			h.setStatus(status)
			h.run()
			former := h.names()[0]
			h.config = strings.Replace(h.config, `object.status.phase == \"Succeeded\"`, `object.status.state == \"Done\"`, 1)
			h.status, h.ro.Status.CurrentPodHash = nil, "newer"
			h.restart()
			h.refuse("delete workflows", denied(403, metav1.StatusReasonForbidden, `workflows.argoproj.io is forbidden: User "x" cannot delete resource "workflows"`))
			h.want(h.run(), types.PhaseRunning, "of an earlier attempt at the step: Workflow demo/"+former+" cannot be deleted", "needs create, get, list and delete")
			h.server.SetFault(nil)
			h.want(h.run(), types.PhaseRunning, "was created")
			if left := h.names(); len(left) != 1 || left[0] == former {
				t.Errorf("there are %q", left)
			}
		})
	}
	t.Run("one that is being deleted", func(t *testing.T) {
		h := newHost(t, workflow)
		h.run()
		h.put(func(object map[string]any) {
			metadataOf(object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			metadataOf(object)["finalizers"] = []string{"acme/keep"}
		})
		h.status, h.ro.Status.CurrentPodHash = nil, "newer"
		h.refuse("delete workflows", denied(409, metav1.StatusReasonConflict, "it is deleted once"))
		h.want(h.run(), types.PhaseRunning, "was created")
	})
	t.Run("another step's", func(t *testing.T) {
		h := newHost(t, workflow)
		h.run()
		h.put(func(object map[string]any) {
			metadataOf(object)["labels"].(map[string]any)["rollouts.kedify.io/step"] = "load"
		})
		h.status, h.ro.Status.CurrentPodHash = nil, "newer"
		h.want(h.run(), types.PhaseRunning, "was created")
		if len(h.names()) != 2 {
			t.Error("another step's object was deleted")
		}
	})
	t.Run("another Rollout's", func(t *testing.T) {
		h := newHost(t, workflow)
		h.run()
		h.put(func(object map[string]any) {
			metadataOf(object)["ownerReferences"].([]any)[0].(map[string]any)["uid"] = "another"
		})
		h.status, h.ro.Status.CurrentPodHash = nil, "newer"
		h.want(h.run(), types.PhaseRunning, "was created")
		if len(h.names()) != 2 {
			t.Error("another Rollout's object was deleted")
		}
	})
}

// An object of more values than can be looked at is an error that says so.
func TestALargeObject(t *testing.T) {
	h := newHost(t, workflow)
	h.run()
	h.setStatus(`{"phase": "Succeeded", "nodes": [0` + strings.Repeat(",0", maxValues) + `]}`)
	result := h.run()
	h.want(result, types.PhaseRunning, "the object has 50", "values: want 50000 at most")
	if len(h.kind.decoders) != 0 {
		t.Error("what was read is not released")
	}
}

// What Kubernetes notes of the writers of an object is no part of it.
func TestManagedFieldsAreLeftOut(t *testing.T) {
	h := newHost(t, strings.Replace(workflow, `object.status.phase == \"Succeeded\"`, `has(object.metadata.managedFields)`, 1))
	h.run()
	h.put(func(object map[string]any) {
		metadataOf(object)["managedFields"] = []map[string]any{{"manager": "x", "operation": "Update", "apiVersion": "argoproj.io/v1alpha1"}}
	})
	h.setStatus(`{"phase": "Running"}`)
	h.want(h.run(), types.PhaseRunning, "waits for successCondition")
}
