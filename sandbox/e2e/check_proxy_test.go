package e2e

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check reads the split of every kedify-proxy and every interceptor, through the API
// server: before a canary, in the middle of it, and after it.
func TestCheckKedifyProxy(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	interceptortest.Pods(t)
	app := e2etest.App{Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	interceptortest.ApplyKedifyProxy(t, n)
	look := func(moment, split string) {
		t.Helper()
		report := checktest.AwaitHealthy(t, "app", "-n", n.Name)
		for check, who := range map[string]string{"kedify-proxy-split": "2 pods of kedify-proxy: ", "interceptor-split": "2 pods of the interceptor: "} {
			message := ""
			for _, result := range report.Results {
				if result.Check == check {
					message += result.Message
				}
			}
			if !strings.Contains(message, who+split) {
				t.Errorf("%s: %s says %q, want %q in it", moment, check, message, who+split)
			}
		}
	}
	look("before", "all to app-stable")
	n.SetImage("app", e2etest.Image("red"))
	n.AwaitSplit("app", app.Split(20))
	look("at 20 %", "app-stable=80,app-canary=20")
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("red"))
	look("after", "all to app-stable")
}
