package check

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzRegister: whatever the ConfigMap contains is read or reported, without a panic.
func FuzzRegister(f *testing.F) {
	f.Add(pluginList, "")
	f.Add("- name: kedify-http", "- {}")
	f.Add("{", "[]")
	f.Fuzz(func(t *testing.T, routers, steps string) {
		s := healthy()
		s.controller.config.Value = &corev1.ConfigMap{Data: map[string]string{trafficRouterPlugins: routers, stepPlugins: steps}}
		registered := checkRegistered(s)
		if s.plugins[0].item(s.controller) == nil && !slices.ContainsFunc(registered, func(r Result) bool { return r.Status == Failure }) {
			t.Errorf("nothing is registered, and nothing is said about it")
		}
		for _, results := range [][]Result{registered, checkLocation(s.controller, s.plugins[0]), checkPlatform(s.controller, s.plugins[0])} {
			for _, result := range results {
				if result.Message == "" || (result.Status == OK) != (result.Remedy == "") {
					t.Errorf("%+v", result)
				}
			}
		}
	})
}

func TestChooseController(t *testing.T) {
	deploymentIn := func(namespace, args string) deployment {
		return parse[deployment](`
metadata: {name: argo-rollouts, namespace: ` + namespace + `}
spec: {template: {spec: {containers: [{name: sidecar, resources: {}}, {name: argo-rollouts, image: "quay.io/argoproj/argo-rollouts:v1.10.1", args: [` + args + `], resources: {}}]}}}
`)
	}
	usual, tools := deploymentIn("argo-rollouts", ""), deploymentIn("tools", "")
	bound, boundElsewhere := deploymentIn("shop", "--namespaced"), deploymentIn("elsewhere", "--namespaced")
	for name, c := range map[string]struct {
		candidates []deployment
		want       string
	}{
		"none":               {nil, ""},
		"one":                {[]deployment{tools}, "tools"},
		"the usual one":      {[]deployment{tools, usual}, "argo-rollouts"},
		"the bound one":      {[]deployment{usual, bound}, "shop"},
		"bound to elsewhere": {[]deployment{boundElsewhere}, ""},
		"not the bound one":  {[]deployment{boundElsewhere, tools}, "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if d := chooseController(c.candidates, "shop"); d != nil {
				got = d.Namespace
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}

	for manifest, want := range map[string]bool{
		"metadata: {name: x, labels: {app.kubernetes.io/component: rollouts-controller}}":                                                             true,
		"metadata: {name: argo-rollouts-dashboard, labels: {app.kubernetes.io/name: argo-rollouts, app.kubernetes.io/component: rollouts-dashboard}}": false,
		"metadata: {name: argo-rollouts}": true,
		"metadata: {name: other}":         false,
	} {
		if got := looksLikeController(parse[deployment](manifest)); got != want {
			t.Errorf("%s: got %v", manifest, got)
		}
	}

	named := parse[deployment](`
metadata: {name: c, namespace: tools}
spec: {template: {spec: {containers: [{name: argo-rollouts, env: [{name: POD_NAMESPACE, value: config}], resources: {}}]}}}
`)
	if got := configNamespaceOf(&named); got != "config" {
		t.Errorf("POD_NAMESPACE is not honoured: %q", got)
	}
	if got := configNamespaceOf(&tools); got != "tools" {
		t.Errorf("without POD_NAMESPACE: %q", got)
	}
}
