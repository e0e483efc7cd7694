package jobstep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// The error about a mistake names its path.
func TestConfigMistakes(t *testing.T) {
	spec := `"template": {"spec": {"containers": [{"name": "c", "image": "c"}]}}`
	for config, want := range map[string]string{
		`{}`:               "template.spec.containers",
		`{"tempalte": {}}`: `tempalte: the key is not known: did you mean "template"?`,
		`{"template": {"spec": {"containers": [{"name": "c", "imgae": "c"}]}}}`:                                                                                           `containers[0].imgae: the key is not known: did you mean "image"?`,
		`{"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "P", "value": 1}]}]}}}`:                                                                     "env[0].value",
		`{"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "namespace": "other"}}}]}]}}}`: "secretKeyRef.namespace",
		`{"template": {"spec": {"containers": [{"name": "c", "args": ["{{ rollout.name"]}]}}}`:                                                                            "template.spec.containers[0].args[0]",
		`{"template": {"spec": {"initContainers": [{"name": "c", "env": [{"name": "P", "value": "{{ .rollout.name }}"}]}], "containers": [{"name": "c"}]}}}`:              "template.spec.initContainers[0].env[0].value",
		`{"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "c"}]}}}`:                                                                              "want Never (the default) or OnFailure",
		`{"activeDeadlineSeconds": 0, ` + spec + `}`:                                                                                                                      "activeDeadlineSeconds: want 1 or more, not 0",
		`{"manualSelector": true, ` + spec + `}`:                                                                                                                          "manualSelector: leave it out",
		`{"selector": {}, ` + spec + `}`:                                                                                                                                  "selector",
		`{"logLines": 51, ` + spec + `}`:                                                                                                                                  "logLines: want 0 to 50, not 51",
		`{"logLines": -1, ` + spec + `}`:                                                                                                                                  "logLines: want 0 to 50, not -1",
		`{"from": "e2e"}`:                                                                                                                                                 `from: want a CronJob of the Rollout's namespace, such as cronjob/e2e, not "e2e"`,
		`{"from": "cronjob/e2e", "template": {"spec": {"initContainers": [{"image": "e2e:2"}]}}}`:                                                                         "with from, each needs the name",
		`{"from": "cronjob/"}`:                                     `not "cronjob/"`,
		`{"onAbort": {}, ` + spec + `}`:                            "onAbort.template.spec.containers: want one container or more",
		`{"onAbort": {"from": "e2e"}, ` + spec + `}`:               "onAbort.from: want a CronJob",
		`{"onAbort": {"logLines": 1, ` + spec + `}, ` + spec + `}`: "onAbort.logLines: the key is not known",
		`{"onAbort": {"template": {"spec": {"containers": [{"name": "c", "args": ["{{ rollout.nme }}"]}]}}}, ` + spec + `}`: "onAbort.template.spec.containers[0].args[0]",
		`{"from": "cronjob/other/e2e"}`: `not "cronjob/other/e2e"`,
	} {
		_, err := New(Options{}).Parse(steps.Source{Config: json.RawMessage(config)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want %q", config, err, want)
		}
	}
}

// parse reads a configuration and returns the Job that it makes.
func parse(t *testing.T, config string) *step {
	t.Helper()
	parsed, err := New(Options{}).Parse(steps.Source{Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.(*step)
}

func workFor(rollout, id string) steps.Work {
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: rollout, UID: "u"}}
	return steps.Work{Rollout: ro, ID: id, Key: "0123456789abcdef0123456789abcdef", Remaining: 5 * time.Minute}
}

// Keys that a configuration leaves out get defaults; keys that it sets stay.
func TestDefaults(t *testing.T) {
	work := workFor("app", "smoke")
	job := build(work, "name", &parse(t, smokeJob).config.JobSpec, nil)
	if got := []any{*job.Spec.TTLSecondsAfterFinished, *job.Spec.BackoffLimit, *job.Spec.ActiveDeadlineSeconds, job.Spec.Template.Spec.RestartPolicy}; fmt.Sprint(got) != "[3600 0 360 Never]" {
		t.Errorf("defaults %v", got)
	}
	if owner := job.OwnerReferences[0]; owner.Kind != "Rollout" || owner.Name != "app" || owner.UID != "u" || owner.APIVersion != "argoproj.io/v1alpha1" || owner.Controller != nil || owner.BlockOwnerDeletion != nil {
		t.Errorf("owner %+v", owner)
	}
	own := `{"ttlSecondsAfterFinished": 60, "backoffLimit": 2, "activeDeadlineSeconds": %d, "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "c"}]}}}`
	for deadline, want := range map[int]string{60: "[300 2 60 OnFailure]", 6000: "[300 2 360 OnFailure]"} {
		spec := parse(t, fmt.Sprintf(own, deadline)).config.JobSpec
		job := build(work, "name", &spec, nil)
		if got := []any{*job.Spec.TTLSecondsAfterFinished, *job.Spec.BackoffLimit, *job.Spec.ActiveDeadlineSeconds, job.Spec.Template.Spec.RestartPolicy}; fmt.Sprint(got) != want {
			t.Errorf("own %v, want %s", got, want)
		}
	}
}

// Containers get environment variables about the Rollout; variables that they set
// themselves win.
func TestEnvironment(t *testing.T) {
	h := newHost(t, `{"id": "smoke", "job": {"template": {"spec": {"containers": [{"name": "c", "image": "c", "env": [{"name": "ROLLOUT_NAME", "value": "mine"}, {"name": "URL", "value": "http://$(ROLLOUT_CANARY_SERVICE)"}]}], "initContainers": [{"name": "i", "image": "i"}]}}}}`)
	h.run()
	job := h.job()
	want := []corev1.EnvVar{
		{Name: "ROLLOUT_NAME", Value: "app"}, {Name: "ROLLOUT_NAMESPACE", Value: "demo"},
		{Name: "ROLLOUT_NEW_IMAGE", Value: "app:2"}, {Name: "ROLLOUT_OLD_IMAGE", Value: "app:1"},
		{Name: "ROLLOUT_NEW_HASH", Value: "new"}, {Name: "ROLLOUT_OLD_HASH", Value: "old"},
		{Name: "ROLLOUT_STABLE_SERVICE", Value: "app-stable"}, {Name: "ROLLOUT_CANARY_SERVICE", Value: "app-canary"},
		{Name: "ROLLOUT_WEIGHT", Value: "20"}, {Name: "ROLLOUT_REVISION", Value: "2"},
		{Name: "ROLLOUT_STEP_ID", Value: "smoke"}, {Name: "ROLLOUT_STEP_KEY", Value: job.Labels[stepobject.KeyLabel]},
	}
	if diff := cmp.Diff(want, job.Spec.Template.Spec.InitContainers[0].Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	own := append(slices.Clone(want[1:]), corev1.EnvVar{Name: "ROLLOUT_NAME", Value: "mine"}, corev1.EnvVar{Name: "URL", Value: "http://$(ROLLOUT_CANARY_SERVICE)"})
	if diff := cmp.Diff(own, job.Spec.Template.Spec.Containers[0].Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// All texts of a Job share one budget.
func TestManyTexts(t *testing.T) {
	text := `"{{ [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a * b * c > 0))) }}"`
	render := func(count int) error {
		s := parse(t, `{"template": {"spec": {"containers": [{"name": "a", "image": "a", "args": [`+text+strings.Repeat(","+text, count-1)+`]}]}}}`)
		_, err := s.main.render(t.Context(), steps.Scope(workFor("app", "a"), nil), nil)
		return err
	}
	if err := render(1); err != nil {
		t.Error(err)
	}
	if err := render(250); err == nil || !strings.Contains(err.Error(), "args[") {
		t.Errorf("250 texts: %v", err)
	}
}
