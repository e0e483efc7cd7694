package docs_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// The page lists every key of the router's block, and no other.
func TestGatewayAPIPageListsEveryKey(t *testing.T) {
	var listed []string
	var block strings.Builder
	for _, row := range docstest.Table(t, "docs/reference/gatewayapi.md", "| key | value |") {
		listed = append(listed, docstest.Quoted(row[0])...)
		block.WriteString(row[1])
	}
	source := docstest.Read(t, "internal/trafficrouter/gatewayapi/configparse.go")
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
		if !strings.Contains(block.String(), match[1]) {
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

// The rules of our traffic routers that pages show, for Helm, for one namespace or for another
// ServiceAccount, are those of deploy/.
func TestPagesShowTheRulesOfDeploy(t *testing.T) {
	deployed := map[string][]rbacv1.PolicyRule{}
	for group, file := range map[string]string{"http.keda.sh": "rbac", "gateway.networking.k8s.io": "gatewayapi"} {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(docstest.Read(t, "deploy/"+file+"/clusterrole.yaml")), &role); err != nil {
			t.Fatal(err)
		}
		deployed[group] = role.Rules
	}
	shown := map[string]int{}
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Language != "yaml" {
				continue
			}
			for _, document := range strings.Split(f.Text, "---\n") {
				var object struct {
					Rules        []rbacv1.PolicyRule `json:"rules"`
					ProviderRBAC struct {
						AdditionalRules []rbacv1.PolicyRule `json:"additionalRules"`
					} `json:"providerRBAC"`
				}
				if !strings.Contains(document, "verbs:") {
					continue
				}
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatal(err)
				}
				rules := slices.Concat(object.Rules, object.ProviderRBAC.AdditionalRules)
				group := rules[0].APIGroups[0]
				if shown[group]++; deployed[group] == nil {
					continue // TestStepsPageGrantsWhatAStepWithAnObjectNeeds reads it
				}
				if diff := cmp.Diff(deployed[group], rules); diff != "" {
					t.Errorf("%s (-deploy +shown):\n%s\nin:\n%s", page, diff, document)
				}
			}
		}
	}
	for group := range deployed {
		if shown[group] == 0 {
			t.Errorf("no page shows rules of %s", group)
		}
	}
}

// The parts of Rollouts that pages show have only fields that a Rollout has, and blocks that
// our routers accept without a warning.
func TestPagesShowPartsOfRollouts(t *testing.T) {
	found := map[string]int{}
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Language != "yaml" || !f.Fragment {
				continue
			}
			text, err := yaml.YAMLToJSON([]byte(f.Text))
			if err != nil {
				t.Fatal(err)
			}
			var canary v1alpha1.CanaryStrategy
			key, _, _ := strings.Cut(f.Text, ":")
			switch key {
			case "strategy":
				whole := struct {
					Strategy struct {
						Canary *v1alpha1.CanaryStrategy `json:"canary"`
					} `json:"strategy"`
				}{}
				whole.Strategy.Canary = &canary
				err = yaml.UnmarshalStrict(text, &whole)
			case "trafficRouting", "steps", "analysis":
				err = yaml.UnmarshalStrict(text, &canary)
			default:
				continue
			}
			if err != nil {
				t.Errorf("%s: %v in:\n%s", page, err, f.Text)
			}
			found[key]++
			if canary.TrafficRouting == nil {
				continue
			}
			for name, block := range canary.TrafficRouting.Plugins {
				var warnings []string
				switch name {
				case gatewayapi.DefaultPluginName:
					var config gatewayapi.Config
					config, err = gatewayapi.ParseConfig(block, "default")
					warnings = config.Warnings
				case kedify.PluginName:
					_, err = kedify.ParseConfig(block)
				default:
					t.Errorf("%s: no router is called %s", page, name)
				}
				if found[name]++; err != nil || len(warnings) > 0 {
					t.Errorf("%s: %v, %q in:\n%s", page, err, warnings, f.Text)
				}
			}
		}
	}
	for _, key := range []string{"strategy", "trafficRouting", "steps", "analysis", gatewayapi.DefaultPluginName} {
		if found[key] == 0 {
			t.Errorf("no page shows %s", key)
		}
	}
}
