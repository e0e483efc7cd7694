package resourcestep

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

func workOf() steps.Work {
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u"}}
	return steps.Work{Rollout: ro, ID: "tests", Key: "0123456789abcdef0123456789abcdef"}
}

// Whatever a Rollout's author writes, a configuration is refused, or makes an object of an allowed
// kind in the Rollout's namespace, which is the Rollout's.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"labels": {"a": "{{ revision }}"}}, "spec": {"x": "{{ rollout.name }}"}}, "successCondition": "object.status.phase == 'x'", "outputs": {"a": "object.b"}, "message": "{{ outputs.a }}"}`))
	f.Add([]byte(`{"manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "x"}}, "successCondition": "true"}`))
	f.Add([]byte(`{"manifest": {"apiVersion": "argoproj.io/v1", "kind": "Workflow", "kind ": {}, "metadata": null, "apiversion": "rbac.authorization.k8s.io/v1"}, "successCondition": "true"}`))
	allowed := newKind(f, "workflows.argoproj.io")
	f.Fuzz(func(t *testing.T, config []byte) {
		parsed, err := allowed.Parse(steps.Source{Config: json.RawMessage(config)})
		if err != nil {
			return
		}
		work := workOf()
		object, err := parsed.(*step).manifest.render(t.Context(), cel.NewBudget(), steps.Scope(work, nil), stepobject.Metadata(work, stepobject.NameOf(work)))
		if err != nil {
			return
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var made metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &made); err != nil {
			t.Fatal(err)
		}
		if group := made.GroupVersionKind().GroupKind().String(); group != "Workflow.argoproj.io" || made.Namespace != "demo" || !stepobject.IsOf(&made, work) ||
			len(made.OwnerReferences) != 1 || len(made.Finalizers) != 0 || len(validation.IsDNS1123Label(made.Name)) > 0 {
			t.Errorf("%s", text)
		}
	})
}

// Whatever an object holds, it is judged or refused, and its messages are bounded.
func FuzzObject(f *testing.F) {
	for _, object := range []string{
		`{"metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": 1}}`,
		`{"metadata": {"name": "a"}, "status": {"phase": "Failed", "message": "m", "conditions": [{"reason": 1}, null, "x"]}}`,
		`{"metadata": null, "status": []}`, `{"metadata": {"managedFields": 1, "deletionTimestamp": "x"}}`, `[]`, `{"status": {"observedGeneration": 1e400}}`,
	} {
		f.Add([]byte(object))
	}
	parsed, err := newKind(f, "workflows.argoproj.io").Parse(steps.Source{Config: json.RawMessage(`{
		"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}, "successCondition": "object.status.phase == 'Succeeded'", "failureCondition": "object.status.conditions.exists(c, c.reason == 'x')",
		"outputs": {"a": "object.status.message"}, "message": "{{ object.status.message }}"}`)})
	if err != nil {
		f.Fatal(err)
	}
	s := parsed.(*step)
	f.Fuzz(func(t *testing.T, text []byte) {
		o := &observation{vars: steps.Scope(workOf(), nil), budget: cel.NewBudget()}
		if err := o.take(text); err != nil {
			return
		}
		p, err := s.progress(t.Context(), stepobject.Store{Kind: "Workflow"}, o)
		if err == nil && (len(p.Message) > 2<<10+len(o.meta.Name)+len(o.meta.Namespace) || utf8.Valid(text) && !utf8.ValidString(p.Message)) {
			t.Errorf("%d bytes: %q", len(p.Message), p.Message)
		}
	})
}
