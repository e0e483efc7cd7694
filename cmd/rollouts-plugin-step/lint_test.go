package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

func TestLint(t *testing.T) {
	const config = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: argo-rollouts, name: argo-rollouts-config}
data: {stepPlugins: "[{name: acme/e2e, location: file:///p/rollouts-plugin-step, args: [probe]}]"}
---
`
	const rollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {namespace: demo, name: app}
spec: {strategy: {canary: {steps: [{plugin: {name: acme/NAME}}]}}}
`
	p := program{Program: rolloutsplugin.Program{Name: "rollouts-plugin-step"}, kinds: func(options kinds.Options) []steps.Kind { return []steps.Kind{probe{options}} }}
	for name, tc := range map[string]struct {
		text  string
		stdin bool
		code  int
		out   string
		err   string
	}{
		"right":            {text: config + strings.ReplaceAll(rollout, "NAME", "e2e"), out: "ok: Rollouts: 1, plugin steps: 1 (1 read with their registration), registrations: 1"},
		"wrong":            {text: config + strings.ReplaceAll(rollout, "NAME", "e2"), code: 1, out: "document 2: Rollout demo/app: spec.strategy.canary.steps[0].plugin.name: acme/e2 is not registered", err: "1 problem"},
		"from stdin":       {text: config + strings.ReplaceAll(rollout, "NAME", "e2"), stdin: true, code: 1, out: "-: document 2: Rollout demo/app"},
		"nothing to check": {text: "kind: Service", code: 2, err: "the files have no Rollout"},
		"no such file":     {code: 2, err: "no such file"},
		"without files":    {code: 2, err: "requires at least 1 arg"},
		"not registered":   {text: strings.ReplaceAll(rollout, "NAME", "e2e"), out: "not checked: FILE: document 1: Rollout demo/app"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "manifests.yaml")
			if tc.text != "" {
				if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			root := p.command()
			var out strings.Builder
			root.SetOut(&out)
			switch {
			case tc.stdin:
				root.SetIn(strings.NewReader(tc.text))
				root.SetArgs([]string{"lint", "-"})
			case name == "without files":
				root.SetArgs([]string{"lint"})
			default:
				root.SetArgs([]string{"lint", file})
			}
			err, code, said := root.Execute(), 0, ""
			if err != nil {
				code, said = exitCode(err), err.Error()
			}
			if code != tc.code || !strings.Contains(out.String(), strings.ReplaceAll(tc.out, "FILE", file)) || !strings.Contains(said, tc.err) {
				t.Errorf("exit code %d (want %d), error %q (want %q), output, want %q in:\n%s", code, tc.code, said, tc.err, tc.out, out.String())
			}
		})
	}
}
