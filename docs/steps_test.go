package docs_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

const stepsAdminPage = "docs/how-to/step-admin.md"

// The Role that the page shows for a kind of object grants what such a step asks for, to the
// controller, and the flags of its table name the resources beside them.
func TestStepsPageGrantsWhatAStepWithAnObjectNeeds(t *testing.T) {
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	documents := manifest.Documents([]byte(docstest.Named(t, stepsAdminPage, "role")))
	for i, into := range []any{&role, &binding} {
		if err := yaml.UnmarshalStrict(documents[i].Objects[0], into); err != nil {
			t.Fatal(err)
		}
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"argoproj.io"}, Resources: []string{"workflows"}, Verbs: []string{"create", "get", "list", "delete"}}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if binding.RoleRef.Name != role.Name || binding.Namespace != role.Namespace || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "argo-rollouts" {
		t.Errorf("%+v", binding)
	}
	rows := docstest.Table(t, stepsAdminPage, "| allow | `--allow-resource` | `apiGroups`, `resources` |")
	for _, row := range rows {
		flag, granted := docstest.Quoted(row[1]), docstest.Quoted(row[2])
		if len(flag) != 1 || len(granted) != 2 {
			t.Fatalf("a row with %q and %q", flag, granted)
		}
		allowed, err := registration.ParseGroupKind(flag[0])
		if err != nil || allowed.Group != granted[0] || allowed.Word != granted[1] {
			t.Errorf("%s (%v) beside %s", flag[0], err, granted)
		}
	}
	if len(rows) < 3 {
		t.Errorf("%d flags", len(rows))
	}
	for _, told := range []string{"secrets", "pods", "ingresses"} {
		if !strings.Contains(docstest.Read(t, stepsAdminPage), "`"+told+"`") {
			t.Errorf("the page does not say why %s are not to be allowed", told)
		}
	}
}

// The lint command that the pages show finds nothing wrong with the YAML that they show,
// and reads all of its steps. The command's files are the pages' registrations, presets
// and Rollouts.
func TestStepsPagesLintWhatTheyShow(t *testing.T) {
	shown := readShownSteps(t)
	dir := t.TempDir()
	for name, text := range shown.files(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "rollouts-plugin-step"), "../cmd/rollouts-plugin-step")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	commands := docstest.Named(t, stepsAdminPage, "lint")
	command := exec.Command("sh", "-e", "-c", commands)
	command.Dir, command.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	want := fmt.Sprintf("ok: Rollouts: %d, plugin steps: %d (%[2]d read with their registration), registrations: %d, presets: %d\n",
		len(shown.rollouts), len(shown.used), len(shown.entries), len(shown.presets))
	if err != nil || string(output) != want {
		t.Errorf("%s%v\n%swant %s", commands, err, output, want)
	}
	for _, key := range append(kinds.Names(kinds.All(kinds.Options{})), "use") {
		if !slices.ContainsFunc(shown.used, func(config map[string]any) bool { return config[key] != nil }) {
			t.Errorf("no step with %s is shown", key)
		}
	}
}

// shownSteps is the YAML that the pages show.
type shownSteps struct {
	// list has the first registration of each name: a page shows several locations for one
	// program.
	list     []any
	entries  []lint.Entry
	presets  []any
	rollouts []any
	// used are the configurations of the plugin steps.
	used []map[string]any
}

// stepFences returns the YAML of all pages on steps.
func stepFences(t *testing.T) []docstest.Fence {
	t.Helper()
	var found []docstest.Fence
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		if !regexp.MustCompile(`^docs/.*/steps?(-[a-z]+)?\.md$`).MatchString(page) {
			continue
		}
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Language == "yaml" {
				found = append(found, f)
			}
		}
	}
	return found
}

func readShownSteps(t *testing.T) *shownSteps {
	t.Helper()
	var shown shownSteps
	for _, f := range stepFences(t) {
		object := decode(t, f.Text)
		switch list, isList := object["stepPlugins"].(string); {
		case isList:
			var entries []any
			if err := yaml.Unmarshal([]byte(list), &entries); err != nil {
				t.Fatal(err)
			}
			shown.addEntries(entries)
		case object["controller"] != nil: // values of the argo-rollouts chart
			entries, _, _ := unstructured.NestedSlice(object, "controller", "stepPlugins")
			shown.addEntries(entries)
		case object["configMapGenerator"] != nil: // of kustomize
		case object["kind"] == nil && object["metadata"] != nil: // annotations for Argo Rollouts' notifications
		case object["kind"] == "Role": // TestStepsPageGrantsWhatAStepWithAnObjectNeeds reads it
		case object["kind"] == "ConfigMap":
			shown.presets = append(shown.presets, object)
		case object["rollouts"] != nil: // of a preset for clusters
			shown.addPreset(t, object)
		case object["steps"] != nil:
			shown.addRollout(map[string]any{"strategy": map[string]any{"canary": object}})
		case object["spec"] != nil:
			shown.addRollout(object["spec"])
		default:
			t.Errorf("what is this?\n%s", f.Text)
		}
	}
	var err error
	if shown.entries, err = lint.ReadEntries(shown.listText(t), kinds.All); err != nil {
		t.Fatal(err)
	}
	return &shown
}

// addPreset adds a preset that is shown without its ConfigMap, and a step that uses it: only
// then is all of it read.
func (s *shownSteps) addPreset(t *testing.T, defaults map[string]any) {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{"defaults": defaults})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("shown-%d", len(s.presets)+1)
	s.presets = append(s.presets, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "argo-rollouts", "name": name, "labels": map[string]any{steps.PresetLabel: "true"}},
		"data":     map[string]any{steps.PresetKey: string(text)},
	})
	plugin := map[string]any{"name": "kedify/step", "config": map[string]any{"id": "shown", "use": name}}
	s.addRollout(map[string]any{"progressDeadlineSeconds": 3600, "strategy": map[string]any{"canary": map[string]any{"steps": []any{map[string]any{"plugin": plugin}}}}})
}

func (s *shownSteps) addEntries(entries []any) {
	for _, entry := range entries {
		name := entry.(map[string]any)["name"]
		if !slices.ContainsFunc(s.list, func(other any) bool { return other.(map[string]any)["name"] == name }) {
			s.list = append(s.list, entry)
		}
	}
}

func (s *shownSteps) listText(t *testing.T) string {
	t.Helper()
	text, err := yaml.Marshal(s.list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *shownSteps) addRollout(spec any) {
	s.rollouts = append(s.rollouts, map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
		"metadata": map[string]any{"namespace": "shop", "name": fmt.Sprintf("shown-%d", len(s.rollouts)+1)}, "spec": spec,
	})
	steps, _, _ := unstructured.NestedSlice(map[string]any{"spec": spec}, "spec", "strategy", "canary", "steps")
	for _, step := range steps {
		if config, isPlugin, _ := unstructured.NestedMap(step.(map[string]any), "plugin", "config"); isPlugin {
			s.used = append(s.used, config)
		}
	}
}

// files are the files that the pages's command names.
func (s *shownSteps) files(t *testing.T) map[string]string {
	t.Helper()
	join := func(objects []any) string {
		var text strings.Builder
		for _, object := range objects {
			document, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("---\n" + string(document))
		}
		return text.String()
	}
	config := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "argo-rollouts", "name": lint.ConfigMapName},
		"data": map[string]any{lint.ListKey: s.listText(t)},
	}
	return map[string]string{
		"argo-rollouts-config.yaml": join([]any{config}), "presets.yaml": join(s.presets), "rollouts.yaml": join(s.rollouts),
	}
}

// The page lists all names that templates can refer to.
func TestStepsPageListsTheScope(t *testing.T) {
	scope := steps.Scope(steps.Work{Rollout: &v1alpha1.Rollout{}}, nil)
	made := append(slices.Collect(maps.Keys(scope)), "outputs", "response", "object") // these are of the kinds http and resource
	var listed []string
	var told strings.Builder
	for _, row := range docstest.Table(t, "docs/reference/steps.md", "| name | |") {
		listed = append(listed, docstest.Quoted(row[0])...)
		told.WriteString(row[1])
	}
	slices.Sort(made)
	slices.Sort(listed)
	if diff := cmp.Diff(made, listed); diff != "" {
		t.Errorf("names (-made +listed):\n%s", diff)
	}
	for name, value := range scope {
		fields, _ := value.(map[string]any)
		for field := range fields {
			if name == "steps" {
				continue // the names of the user's steps
			}
			if !strings.Contains(told.String(), "`"+field+"`") {
				t.Errorf("%s.%s is not told", name, field)
			}
		}
	}
}
