package docs_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

const (
	stepsPage      = "steps.md"
	stepsAdminPage = "steps-admin.md"
	regionsPage    = "steps-regions.md"
)

// The page lists the flags of a registration, and no other.
func TestStepsPageListsEveryFlag(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(registration.Args).AddTo(flags)
	var made, listed []string
	flags.VisitAll(func(f *pflag.Flag) { made = append(made, "--"+f.Name) })
	for _, word := range cells(sectionOf(t, stepsAdminPage, "## The program"), 0) {
		if strings.HasPrefix(word, "--") {
			listed = append(listed, word)
		}
	}
	slices.Sort(made)
	slices.Sort(listed)
	if diff := cmp.Diff(made, listed); diff != "" || len(made) < 9 {
		t.Errorf("flags (-made +listed):\n%s", diff)
	}
}

// The page gives a reason for each verb on each resource that deploy/rbac-step grants.
func TestStepsPageSaysWhatEachVerbIsFor(t *testing.T) {
	files, err := filepath.Glob("../deploy/rbac-step/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted, told []string
	for _, file := range files {
		for _, document := range manifest.Documents([]byte(readText(t, file))) {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal(document.Objects[0], &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					granted = append(granted, strings.TrimSuffix(filepath.Base(file), ".yaml")+" "+strings.Join(rule.Resources, ",")+" "+verb)
				}
			}
		}
	}
	var kind, resource string
	for line := range strings.Lines(sectionOf(t, stepsAdminPage, "## Permissions")) {
		if named := cells(line, 0); len(named) > 0 {
			kind = named[0]
		}
		if named := cells(line, 1); len(named) > 0 {
			resource = strings.Join(named, ",")
		}
		for _, verb := range cells(line, 2) {
			told = append(told, kind+" "+resource+" "+verb)
		}
	}
	slices.Sort(granted)
	slices.Sort(told)
	if diff := cmp.Diff(granted, told); diff != "" || len(told) == 0 {
		t.Errorf("verbs (-granted +told):\n%s", diff)
	}
}

// The Role that the page shows for a kind of object grants what such a step asks for, to the
// controller, and the flags of its table name the resources beside them.
func TestStepsPageGrantsWhatAStepWithAnObjectNeeds(t *testing.T) {
	section := sectionOf(t, stepsAdminPage, "## A Role for each kind of object")
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	documents := manifest.Documents([]byte(fence.FindStringSubmatch(section)[2]))
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
	flags, granted := cells(section, 1), cells(section, 2)
	for i, flag := range flags[1:] { // below the heading
		allowed, err := registration.ParseGroupKind(flag)
		if group, resource := granted[2*i+2], granted[2*i+3]; err != nil || allowed.Word != resource || allowed.Group != group {
			t.Errorf("%s (%v) beside %s of %s", flag, err, resource, group)
		}
	}
	if len(flags) < 4 {
		t.Errorf("flags %q", flags)
	}
	for _, told := range []string{"secrets", "pods", "ingresses"} {
		if !strings.Contains(section, "`"+told+"`") {
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
	commands := fence.FindAllStringSubmatch(sectionOf(t, stepsAdminPage, "## Look before a canary does"), -1)
	if len(commands) != 1 || commands[0][1] != "sh" {
		t.Fatalf("%d fences, want one of sh", len(commands))
	}
	command := exec.Command("sh", "-e", "-c", commands[0][2])
	command.Dir, command.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	want := fmt.Sprintf("ok: Rollouts: %d, plugin steps: %d (%[2]d read with their registration), registrations: %d, presets: %d\n",
		len(shown.rollouts), len(shown.used), len(shown.entries), len(shown.presets))
	if err != nil || string(output) != want {
		t.Errorf("%s%v\n%swant %s", commands[0][2], err, output, want)
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

func readShownSteps(t *testing.T) *shownSteps {
	t.Helper()
	var shown shownSteps
	for _, match := range fence.FindAllStringSubmatch(readText(t, stepsAdminPage)+readText(t, stepsPage)+readText(t, regionsPage), -1) {
		if !strings.HasPrefix(match[1], "yaml") {
			continue
		}
		object := decode(t, match[2])
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
			t.Errorf("what is this?\n%s", match[2])
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
	listed := cells(sectionOf(t, stepsPage, "## Texts and conditions"), 0)
	slices.Sort(made)
	slices.Sort(listed)
	if diff := cmp.Diff(made, listed); diff != "" {
		t.Errorf("names (-made +listed):\n%s", diff)
	}
	told := sectionOf(t, stepsPage, "## Texts and conditions")
	for name, value := range scope {
		fields, _ := value.(map[string]any)
		for field := range fields {
			if name == "steps" {
				continue // the names of the user's steps
			}
			if !strings.Contains(told, "`"+field+"`") {
				t.Errorf("%s.%s is not told", name, field)
			}
		}
	}
}
