package docs_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

const gatewayPage = "gatewayapi.md"

// sectionOf returns what a page has under a heading, up to the next one of its level.
func sectionOf(t *testing.T, page, title string) string {
	t.Helper()
	level, _, _ := strings.Cut(title, " ")
	_, text, found := strings.Cut(readText(t, page), "\n"+title+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, title)
	}
	text, _, _ = strings.Cut(text, "\n"+level+" ")
	return text
}

// cells returns the words in backquotes that a column of a section's tables has.
func cells(section string, column int) []string {
	var words []string
	for line := range strings.Lines(section) {
		columns := strings.Split(line, "|")
		if len(columns) <= column+1 || columns[0] != "" {
			continue
		}
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(columns[column+1], -1) {
			words = append(words, match[1])
		}
	}
	return words
}

// The page lists every key of the router's block, and no other.
func TestGatewayAPIPageListsEveryKey(t *testing.T) {
	_, block, _ := strings.Cut(sectionOf(t, gatewayPage, "## Configuration in the Rollout"), "| key | value |")
	block, _, _ = strings.Cut(block, "\n\n")
	listed := cells(block, 0)
	source := readText(t, "../internal/trafficrouter/gatewayapi/configparse.go")
	_, source, _ = strings.Cut(source, "type settings struct {")
	settings, source, _ := strings.Cut(source, "}")
	_, source, _ = strings.Cut(source, "type listedRoute struct {")
	ofOne, _, _ := strings.Cut(source, "}")
	keys := regexp.MustCompile(`json:"(\w+)"`)
	var want []string
	for _, match := range keys.FindAllStringSubmatch(settings, -1) {
		want = append(want, match[1])
	}
	want = slices.DeleteFunc(want, func(key string) bool { return key == "ruleName" }) // which is for a route in a list
	for _, match := range keys.FindAllStringSubmatch(ofOne, -1) {
		if !strings.Contains(block, match[1]) {
			t.Errorf("the key %s of a route in a list is not told", match[1])
		}
	}
	for _, kind := range gatewayapi.Kinds {
		key := strings.ToLower(strings.TrimSuffix(string(kind), "Route")) + "Route"
		want = append(want, key, key+"s", key+"Selector", key+"RuleName")
	}
	slices.Sort(want)
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" || len(want) < 20 {
		t.Errorf("keys (-made +listed):\n%s", diff)
	}
	for _, key := range listed {
		config, _ := gatewayapi.ParseConfig(json.RawMessage(`{"`+key+`": null}`), "default")
		if text := strings.Join(config.Warnings, "\n"); strings.Contains(text, "unknown key") {
			t.Errorf("the router does not know the key %s: %s", key, text)
		}
	}
}

// The page lists the reasons of all of the router's Events, and no other.
func TestGatewayAPIPageListsEveryEvent(t *testing.T) {
	sources, err := filepath.Glob("../internal/trafficrouter/gatewayapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := []string{trafficrouter.ReasonError}
	for _, source := range sources {
		for _, match := range regexp.MustCompile(`(?m)^(?:\t|const )reason\w+ += "(\w+)"`).FindAllStringSubmatch(readText(t, source), -1) {
			made = append(made, match[1])
		}
	}
	_, table, _ := strings.Cut(sectionOf(t, gatewayPage, "## Events"), "| reason | says |")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := slices.DeleteFunc(cells(table, 0), func(word string) bool { return word == "SetWeight" })
	slices.Sort(made)
	slices.Sort(listed)
	if diff := cmp.Diff(made, listed); diff != "" || len(made) < 5 {
		t.Errorf("reasons (-made +listed):\n%s", diff)
	}
}

// The page lists the flags of the program, and no other.
func TestGatewayAPIPageListsEveryFlag(t *testing.T) {
	var made []string
	rolloutsplugin.TrafficRouter{}.Command().Flags().VisitAll(func(f *pflag.Flag) { made = append(made, "--"+f.Name) })
	// Its own flags are named in constants or where they are defined.
	own := regexp.MustCompile(`(?m)^\tformer[A-Z]\w+ += "(\w+)"$|former\.\w+\((?:&\w+, )?"(\w+)"`)
	for _, match := range own.FindAllStringSubmatch(readText(t, "../cmd/rollouts-plugin-gatewayapi/main.go"), -1) {
		made = append(made, "--"+match[1]+match[2])
	}
	var listed []string
	for _, word := range cells(sectionOf(t, gatewayPage, "## The program"), 0) {
		if strings.HasPrefix(word, "--") {
			listed = append(listed, word)
		}
	}
	slices.Sort(made)
	slices.Sort(listed)
	if diff := cmp.Diff(made, listed); diff != "" || len(made) < 8 {
		t.Errorf("flags (-made +listed):\n%s", diff)
	}
}

// gatewayRules are what deploy/gatewayapi grants.
func gatewayRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(readText(t, "../deploy/gatewayapi/clusterrole.yaml")), &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

// The page gives a reason for each verb on each resource of deploy/gatewayapi, and shows
// the same rules wherever it shows any.
func TestGatewayAPIPageSaysWhatEachVerbIsFor(t *testing.T) {
	var granted []string
	for _, rule := range gatewayRules(t) {
		for _, verb := range rule.Verbs {
			granted = append(granted, strings.Join(rule.Resources, ",")+" "+verb)
		}
	}
	var told []string
	var resources string
	for line := range strings.Lines(sectionOf(t, gatewayPage, "## Permissions")) {
		if named := cells(line, 0); len(named) > 0 {
			resources = strings.Join(named, ",")
		}
		for _, verb := range cells(line, 1) {
			told = append(told, resources+" "+verb)
		}
	}
	if diff := cmp.Diff(granted, told); diff != "" {
		t.Errorf("verbs (-granted +told):\n%s", diff)
	}

	shown := 0
	for _, match := range fence.FindAllStringSubmatch(readText(t, gatewayPage), -1) {
		for _, document := range strings.Split(match[2], "---\n") {
			if !strings.HasPrefix(match[1], "yaml") || !strings.Contains(document, "verbs:") {
				continue
			}
			shown++
			var object struct {
				Rules        []rbacv1.PolicyRule `json:"rules"`
				ProviderRBAC struct {
					AdditionalRules []rbacv1.PolicyRule `json:"additionalRules"`
				} `json:"providerRBAC"`
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(gatewayRules(t), append(object.Rules, object.ProviderRBAC.AdditionalRules...)); diff != "" {
				t.Errorf("(-deploy/gatewayapi +shown):\n%s\nin:\n%s", diff, document)
			}
		}
	}
	if shown != 2 {
		t.Errorf("rules are shown %d times, want 2: for Helm and for one namespace", shown)
	}
}

// The manifests that the page walks through are those of the sample.
func TestGatewayAPIPageShowsTheSample(t *testing.T) {
	shown := map[string]any{}
	for _, match := range fence.FindAllStringSubmatch(sectionOf(t, gatewayPage, "## 3. Deploy the sample"), -1) {
		if match[1] != "yaml" {
			continue
		}
		for _, document := range strings.Split(match[2], "---\n") {
			object := decode(t, document)
			shown[object["kind"].(string)] = object
		}
	}
	want := map[string]any{
		"Rollout":   decode(t, readText(t, "../examples/gatewayapi/canary/rollout.yaml")),
		"HTTPRoute": decode(t, readText(t, "../examples/gatewayapi/canary/httproute.yaml")),
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-examples +shown):\n%s", diff)
	}
}

// The parts of Rollouts that the page shows have only fields that a Rollout has, and
// blocks that the router accepts without a warning.
func TestGatewayAPIPageShowsPartsOfRollouts(t *testing.T) {
	found := map[string]int{}
	for _, match := range fence.FindAllStringSubmatch(readText(t, gatewayPage), -1) {
		if match[1] != "yaml {fragment}" {
			continue
		}
		var strategy v1alpha1.RolloutStrategy
		key, _, _ := strings.Cut(match[2], ":")
		switch key {
		case "strategy":
			text, _ := yaml.YAMLToJSON([]byte(match[2]))
			var whole struct {
				Strategy v1alpha1.RolloutStrategy `json:"strategy"`
			}
			if err := yaml.UnmarshalStrict(text, &whole); err != nil {
				t.Errorf("%v in:\n%s", err, match[2])
			}
			strategy = whole.Strategy
		case "trafficRouting", "steps":
			strategy.Canary = &v1alpha1.CanaryStrategy{}
			if err := yaml.UnmarshalStrict([]byte(match[2]), strategy.Canary); err != nil {
				t.Errorf("%v in:\n%s", err, match[2])
			}
		default:
			continue
		}
		found[key]++
		if strategy.Canary.TrafficRouting == nil {
			continue
		}
		config, err := gatewayapi.ParseConfig(strategy.Canary.TrafficRouting.Plugins[gatewayapi.DefaultPluginName], "default")
		if err != nil || len(config.Warnings) > 0 {
			t.Errorf("%v, %q in:\n%s", err, config.Warnings, match[2])
		}
	}
	if diff := cmp.Diff(map[string]int{"strategy": 1, "trafficRouting": 1, "steps": 1}, found); diff != "" {
		t.Errorf("parts (-want +found):\n%s", diff)
	}
}
