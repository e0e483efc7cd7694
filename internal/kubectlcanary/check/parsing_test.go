package check

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestParseLogLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 33, 12, 0, time.UTC)
	for name, c := range map[string]struct {
		line string
		want logEntry
	}{
		"logfmt": {`time="2026-11-21T09:33:12Z" level=error msg="rollout syncHandler error: \"demo\" is forbidden" namespace=shop rollout=demo`,
			logEntry{at, "error", `rollout syncHandler error: "demo" is forbidden`, "shop", "demo", ""}},
		"logfmt with an error": {`time="2026-11-21T09:33:12Z" level=error msg="Unhandled Error" error="no: rollout=other" namespace=shop rollout=demo`,
			logEntry{at, "error", "Unhandled Error", "shop", "demo", "no: rollout=other"}},
		"JSON": {`{"time":"2026-11-21T09:33:12Z","level":"error","msg":"no","namespace":"shop","rollout":"demo","generation":4}`,
			logEntry{at, "error", "no", "shop", "demo", ""}},
		"broken JSON":  {`{"time":`, logEntry{message: `{"time":`}},
		"another form": {"panic: runtime error", logEntry{message: "panic: runtime error"}},
		"strange time": {`time=now level=info msg=hello`, logEntry{level: "info", message: "hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseLogLine(c.line), cmp.AllowUnexported(logEntry{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func FuzzParseLogLine(f *testing.F) {
	f.Add(`time="2026-11-21T09:33:12Z" level=error msg="a \"b\" c" rollout=demo`)
	f.Add(`{"msg":"x"}`)
	f.Add(`msg=`)
	f.Fuzz(func(t *testing.T, line string) {
		if got := parseLogLine(line); line != "" && got.message == "" {
			t.Errorf("%q has lost its message", line)
		}
	})
}

func TestResembles(t *testing.T) {
	for name, want := range map[string]bool{
		"kedify/http": false, "kedify/grpc": false, "kedify/step": false, "argoproj-labs/contour": false, "": false, "http": false,
		"kedify-http": true, "Kedify/HTTP": true, "kedify/htp": true, "kedify/https": true, "kedfiy/http": true, "kedify.http": true, "kedify": true, "kedify/argo-rollouts-plugin": true,
	} {
		if got := kedifyRouter.resembles(name); got != want {
			t.Errorf("resembles(%q) = %v", name, got)
		}
	}
	gateway := gatewayRouter("argoproj-labs/gatewayAPI")
	for name, want := range map[string]bool{
		"argoproj-labs/gatewayAPI": false, "argoproj-labs/contour": false, "kedify/http": false, "": false, "argoproj-labs/nginx": false,
		"argoproj-labs/gatewayapi": true, "argoproj/gatewayAPI": true, "gatewayAPI": true, "argoproj-lab/gatewayAPI": true, "argoproj-labs/rollouts-plugin-trafficrouter-gatewayapi": true,
	} {
		if got := gateway.resembles(name); got != want {
			t.Errorf("resembles(%q) = %v for the Gateway API", name, got)
		}
	}
}

func FuzzOneEditApart(f *testing.F) {
	f.Add("kedifyhttp", "kedfiyhttp")
	f.Add("", "a")
	f.Add("ab", "ba")
	f.Fuzz(func(t *testing.T, a, b string) {
		if oneEditApart(a, b) != oneEditApart(b, a) {
			t.Errorf("%q and %q: order matters", a, b)
		}
		if !oneEditApart(a, a) || !oneEditApart(a, a+"x") || oneEditApart(a, a+"xy") {
			t.Errorf("%q: wrong about itself", a)
		}
	})
}

// FuzzRegister: whatever the ConfigMap contains is read or reported, without a panic.
func FuzzRegister(f *testing.F) {
	f.Add(pluginList, "")
	f.Add("- name: kedify-http", "- {}")
	f.Add("{", "[]")
	f.Fuzz(func(t *testing.T, routers, steps string) {
		s := healthy()
		s.controller.config.Value = &corev1.ConfigMap{Data: map[string]string{trafficRouterPlugins: routers, stepPlugins: steps}}
		r := register(s.controller, kedifyRouter)
		if r.item == nil && len(r.problems) == 0 {
			t.Errorf("nothing is registered, and nothing is said about it")
		}
		for _, results := range [][]Result{checkRegistered(s.controller, s.plugins[0]), checkLocation(s.controller, s.plugins[0]), checkPlatform(s.controller, s.plugins[0])} {
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
spec: {template: {spec: {containers: [{name: sidecar, resources: {}}, {name: main, image: "quay.io/argoproj/argo-rollouts:v1.10.1", args: [` + args + `], resources: {}}]}}}
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
