package lint

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

// The keys of presets with clusters are known, and what is wrong with them is found.
func TestPresetsWithClusters(t *testing.T) {
	const files = `
apiVersion: v1
kind: ConfigMap
metadata: {name: argo-rollouts-config, namespace: argo-rollouts}
data: {stepPlugins: "[{name: kedify/step, location: 'https://example.com/rollouts-plugin-step', sha256: SUM, args: [ARGS]}]"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: regions, namespace: argo-rollouts, labels: {rollouts.kedify.io/step-preset: "true"}}
data: {preset.yaml: "{hosts: [eu.example.com], defaults: {rollouts: {CLUSTERS, until: Promoted, onUnreachable: Fail, version: 'rollout.labels[\"v\"]'}}}"}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {namespace: demo, name: app}
spec: {strategy: {canary: {steps: [{plugin: {name: kedify/step, config: {CONFIG}}}]}}}
`
	const right, namespace, use = "clusters: [{name: eu, secret: region-eu}]", "--secrets-namespace=argo-rollouts", "use: regions"
	for name, test := range map[string]struct{ clusters, args, config, want string }{
		"right":                  {right, namespace, use, ""},
		"a typo":                 {"clusters: [{name: eu, secrt: region-eu}]", namespace, use, `rollouts.clusters[0].secrt: the key is not known: did you mean "secret"?`},
		"another typo":           {right + ", untl: Barrier", namespace, use, `rollouts.untl: the key is not known: did you mean "until"?`},
		"no name":                {"clusters: [{secret: region-eu}]", namespace, use, "rollouts.clusters[0].name: want a name"},
		"no namespace":           {right, "", use, "--secrets-namespace"},
		"a Rollout's own":        {right, namespace, "rollouts: {clusters: [{name: eu, secret: region-eu}]}", "rollouts.clusters: only a preset has these"},
		"in place of a preset's": {right, namespace, use + ", rollouts: {clusters: []}", "rollouts.clusters: only a preset has these"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("SUM", strings.Repeat("0123456789abcdef", 4), "ARGS", test.args, "CLUSTERS", test.clusters, "CONFIG", test.config).Replace(files)
			var got strings.Builder
			for _, finding := range Files([]File{{Name: "files.yaml", Text: []byte(text)}}, kinds.All).Findings {
				got.WriteString(finding.String() + "\n")
			}
			if (got.Len() == 0) != (test.want == "") || !strings.Contains(got.String(), test.want) {
				t.Errorf("found\n%swant %q", got.String(), test.want)
			}
		})
	}
}
