package docs_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

const stepsPage = "steps.md"

// The page lists the flags of a registration, and no other.
func TestStepsPageListsEveryFlag(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(registration.Args).AddTo(flags)
	var made, listed []string
	flags.VisitAll(func(f *pflag.Flag) { made = append(made, "--"+f.Name) })
	for _, word := range cells(sectionOf(t, stepsPage, "## The program"), 0) {
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
	for line := range strings.Lines(sectionOf(t, stepsPage, "## Permissions")) {
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

// Every step that the page shows is one that its kind takes.
func TestStepsPageShowsStepsThatCanBeRead(t *testing.T) {
	kindOf := map[string]string{"acme/run-e2e-tests": "http", "acme/run-smoke-tests": "job", "acme/check-others": "rollouts"}
	all := kinds.All(kinds.Options{AllowHosts: []string{"ci.example.com"}})
	shown := map[string]int{}
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				visit(item)
			}
		case map[string]any:
			plugin, isStep := value["plugin"].(map[string]any)
			config, hasConfig := plugin["config"]
			if !isStep || !hasConfig {
				for _, inner := range value {
					visit(inner)
				}
				return
			}
			raw, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := plugin["name"].(string)
			preset := &steps.Preset{}
			if object, _ := config.(map[string]any); object["request"] == nil && kindOf[name] == "http" {
				// As the preset has it that such a step leaves this to.
				preset.Defaults = map[string]any{"request": map[string]any{"url": "https://ci.example.com"}}
			}
			if _, err := steps.ReadConfig(kinds.Named(all, kindOf[name]), preset, raw); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			shown[kindOf[name]]++
		}
	}
	for _, match := range fence.FindAllStringSubmatch(readText(t, stepsPage), -1) {
		if !strings.HasPrefix(match[1], "yaml") {
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(match[2]), &value); err != nil {
			t.Errorf("%v:\n%s", err, match[2])
		}
		visit(value)
	}
	for _, kind := range kinds.Names(all) {
		if shown[kind] == 0 {
			t.Errorf("no step of kind %s is shown", kind)
		}
	}
}
