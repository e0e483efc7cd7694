package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The article's Rollout, with the part under spec.strategy in the place of %s.
const articleManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: my-app
spec:
  replicas: 4
  selector: {matchLabels: {app: my-app}}
  template:
    metadata: {labels: {app: my-app}}
    spec: {containers: [{name: app, image: "my-app:v1.0.0", ports: [{containerPort: 8080}]}]}
  strategy:
    canary:
      stableService: my-app-stable
      canaryService: my-app-canary
      steps: [{setWeight: 5}, {pause: {}}]
%s`

func inCanary(text string) string {
	return fmt.Sprintf(articleManifest, strings.ReplaceAll("\n"+text, "\n", "\n      "))
}

// A manifest is checked as it is written, before an API server has dropped unknown
// fields.
func TestManifests(t *testing.T) {
	const (
		file    = "File rollout.yaml"
		rollout = "Rollout default/my-app"
		plugins = "spec.strategy.canary.trafficRouting.plugins"
	)
	for name, c := range map[string]struct {
		text string
		want []finding
	}{
		"as in the article":     {inCanary("trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: my-app-route, namespace: default}}}"), nil},
		"kedify/http":           {inCanary("trafficRouting: {plugins: {kedify/http: {httpScaledObjectName: my-app}}}"), nil},
		"no traffic router":     {inCanary(""), nil},
		"of Argo Rollouts' own": {inCanary("trafficRouting: {nginx: {stableIngress: my-app}}"), nil},
		"JSON": {`{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "my-app"}, "spec": {"strategy": {"canary": {"plugins": {}}}}}`,
			[]finding{{"manifest-fields", Failure, file, []string{"no field spec.strategy.canary.plugins", "move it to " + plugins}}}},
		"gatewayAPI beside plugins": {inCanary("trafficRouting: {gatewayAPI: {httpRoute: my-app-route}}"), []finding{
			{"manifest-fields", Failure, file, []string{"no field spec.strategy.canary.trafficRouting.gatewayAPI", "move it to " + plugins + `["argoproj-labs/gatewayAPI"]: edit rollout.yaml`}},
			{"rollout-router", Failure, rollout, []string{"has no router", "edit rollout.yaml"}},
		}},
		"plugin for plugins": {inCanary("trafficRouting: {plugin: {argoproj-labs/gatewayAPI: {httpRoute: my-app-route}}}"), []finding{
			{"manifest-fields", Failure, file, []string{"no field spec.strategy.canary.trafficRouting.plugin:", "move it to " + plugins + ":"}},
			{"rollout-router", Failure, rollout, []string{"has no router"}},
		}},
		"the name above plugins": {inCanary("trafficRouting: {argoproj-labs/gatewayAPI: {httpRoute: my-app-route}}"), []finding{
			{"manifest-fields", Failure, file, []string{"trafficRouting.argoproj-labs/gatewayAPI", "move it to " + plugins + `["argoproj-labs/gatewayAPI"]`}},
			{"rollout-router", Failure, rollout, nil},
		}},
		"the route above plugins": {inCanary("trafficRouting: {httpRoute: my-app-route}"), []finding{
			{"manifest-fields", Failure, file, []string{"move it to " + plugins + `["argoproj-labs/gatewayAPI"].httpRoute`}},
			{"rollout-router", Failure, rollout, nil},
		}},
		"the route in plugins": {inCanary("trafficRouting: {plugins: {httpRoute: my-app-route}}"), []finding{
			{"rollout-config", Failure, rollout, []string{"has httpRoute where the name of a plugin is wanted", `move it to ` + plugins + `["argoproj-labs/gatewayAPI"]: edit rollout.yaml`}},
		}},
		"no name of a plugin": {inCanary("trafficRouting: {plugins: {gatewayAPI: {httpRoute: my-app-route}}}"), []finding{
			{"rollout-config", Failure, rollout, []string{`no argoproj-labs/gatewayAPI, but "gatewayAPI"`, "edit rollout.yaml"}},
		}},
		"beside canary": {fmt.Sprintf(articleManifest, "    trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: my-app-route}}}"), []finding{
			{"manifest-fields", Failure, file, []string{"no field spec.strategy.trafficRouting", "move it to spec.strategy.canary.trafficRouting:"}},
		}},
		"kedify above plugins": {inCanary("trafficRouting: {kedify/http: {httpScaledObjectName: my-app}}"), []finding{
			{"manifest-fields", Failure, file, []string{"move it to " + plugins + `["kedify/http"]`}},
			{"rollout-router", Failure, rollout, nil},
		}},
		"unknown key of the plugin": {inCanary("trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: a, httpRuote: b}}}"), []finding{
			{"rollout-config", Failure, rollout, []string{`unknown key "httpRuote"`}},
		}},
		"another unknown field": {inCanary("maxSrge: 1"), []finding{{"manifest-fields", Failure, file, []string{"spec.strategy.canary.maxSrge", "correct it"}}}},
		"of a newer Kubernetes": {strings.Replace(inCanary(""), "spec: {containers", "spec: {newField: 1, containers", 1),
			[]finding{{"manifest-fields", Warning, file, []string{"spec.template.spec.newField"}}}},
		"of a wrong type": {inCanary("trafficRouting: [argoproj-labs/gatewayAPI]"), []finding{{"manifest-fields", Failure, file, []string{"cannot be read"}}}},
		"no YAML":         {"a: [", []finding{{"manifest-fields", Failure, file, []string{"document 1 cannot be read"}}}},
		"no Rollout":      {"apiVersion: v1\nkind: Service\n", []finding{{"rollout-found", Failure, file, []string{"holds no Rollout"}}}},
		"among others": {"kind: Service\n---\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(inCanary("plugin: {}")), "\n", "\n  "),
			[]finding{{"manifest-fields", Failure, file, []string{"spec.strategy.canary.plugin"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want []string
			var found []Result
			for _, result := range lookAtManifests("rollout.yaml", []byte(c.text), "default") {
				if result.Message == "" || (result.Remedy == "") != (result.Status == OK) || result.Check == "" {
					t.Errorf("incomplete: %+v", result)
				}
				if result.Status != OK {
					got = append(got, fmt.Sprint(result.Check, " ", result.Status, " ", result.Object))
					found = append(found, result)
				}
			}
			for _, f := range c.want {
				want = append(want, fmt.Sprint(f.check, " ", f.status, " ", f.object))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("-want +got:\n%s\n%+v", diff, found)
			}
			for i, f := range c.want {
				for _, part := range f.says {
					if text := found[i].Message + ": → " + found[i].Remedy; !strings.Contains(text, part) {
						t.Errorf("%s does not say %q: %s", f.check, part, text)
					}
				}
			}
		})
	}
}

// check -f needs no cluster, takes several files and stdin, and fails as it does for a
// cluster.
func TestCommandOnManifests(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "absent"))
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{
		good: inCanary("trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: a}}}"),
		bad:  inCanary("trafficRouting: {gatewayAPI: {httpRoute: a}}"),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := execute("-f", good); err != nil || !strings.Contains(out, "Rollout default/my-app\n✓ manifest-fields  File "+good) || !strings.Contains(out, " 0 !  0 ✗\n") {
		t.Errorf("a good manifest: %v\n%s", err, out)
	}
	out, err := execute("-f", good, "-f", bad, "-n", "shop", "-o", "json")
	var report Report
	if ExitCode(err) != 1 || json.Unmarshal([]byte(out), &report) != nil || len(report.Results) == 0 || report.Results[0].Rollout != "shop/my-app" {
		t.Errorf("a good and a bad one: %v\n%s", err, out)
	}
	cmd := NewCommand("dev")
	cmd.SetArgs([]string{"-f", "-"})
	cmd.SetIn(strings.NewReader("{}"))
	var text strings.Builder
	cmd.SetOut(&text)
	if err := cmd.Execute(); ExitCode(err) != 1 || !strings.Contains(text.String(), "✗ rollout-found  File -  holds no Rollout") {
		t.Errorf("stdin: %v\n%s", err, text.String())
	}
	for _, args := range [][]string{{"-f", filepath.Join(dir, "missing.yaml")}, {"-f", good, "my-app"}} {
		if out, err := execute(args...); ExitCode(err) != 2 {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// FuzzManifests: whatever a file contains is reported, without a panic.
func FuzzManifests(f *testing.F) {
	f.Add(inCanary("trafficRouting: {gatewayAPI: {httpRoute: a}}"))
	f.Add("kind: List\nitems: [1, {}]\n---\n- a\n")
	f.Add("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: null\n")
	f.Add("apiVersion: argoproj.io/v1\nkind: Rollout\n")
	f.Fuzz(func(t *testing.T, text string) {
		results := lookAtManifests("rollout.yaml", []byte(text), "default")
		if len(results) == 0 {
			t.Error("nothing is said")
		}
		for _, result := range results {
			if result.Check == "" || result.Message == "" || (result.Status == OK) != (result.Remedy == "") {
				t.Errorf("%+v", result)
			}
		}
	})
}
