package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check is content with what the agent makes of the sample, and finds what keeps the
// agent from it.
//
// It is not parallel: other tests need the agent that it stops.
func TestCheck(t *testing.T) {
	n := e2etest.NewNamespace(t)
	const name = checktest.Sample
	sample := func(path ...string) string {
		text, err := os.ReadFile(e2etest.Repository(t, append([]string{"examples"}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "rollouts-demo.example.com", n.Name+".test")
	}
	for _, file := range []string{"services", "ingress", "rollout", "scaledobject"} {
		n.Apply(sample("canary", file+".yaml"))
	}
	n.AwaitHealthy(name, e2etest.Image("blue"))
	args := []string{name, "-n", n.Name}
	report := checktest.AwaitHealthy(t, args...)
	for _, check := range []string{"agent-ready", "ingress-wired", "scaledobject-trigger"} {
		if report.Status(check) != checktest.OK {
			t.Errorf("%s is not made of a ScaledObject that the agent serves", check)
		}
	}

	scale := func(replicas int) {
		// Not in the test's context, which is over in the clean-up.
		if _, err := e2etest.TryShell(context.Background(), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=%d", keda.Namespace, agent.Deployment, replicas)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { scale(2) })
	checktest.Fault{
		Name: "webhook away",
		Make: func() {
			scale(0)
			n.Apply(sample("canary", "scaledobject.yaml"))
		},
		Undo: func() { scale(2) },
		Want: []checktest.Finding{
			{Check: "agent-ready", Status: checktest.Failure, Object: "Deployment " + agent.Deployment, Message: "has no ready pod", Remedy: "deploy/agent"},
			{Check: "scaledobject-ready", Status: checktest.Failure, Object: "ScaledObject " + name, Message: "of type kedify-http", Remedy: "agent-ready"},
		},
		Also: []string{"scaledobject-min-replicas"},
	}.Find(t, args...)

	checktest.Fault{
		Name: "Ingress written back",
		Make: func() {
			n.Kubectl("patch", "ingress", name, "--type=json", "-p", `[
				{"op":"replace","path":"/spec/rules/0/http/paths/0/backend/service/name","value":"rollouts-demo-stable"},
				{"op":"replace","path":"/spec/rules/0/http/paths/0/backend/service/port/number","value":80}]`)
		},
		Undo: func() { n.Kubectl("annotate", "ingress", name, "http.kedify.io/left-alone-until-") },
		Want: []checktest.Finding{{Check: "ingress-wired", Status: checktest.Failure, Object: "HTTPScaledObject " + name,
			Message: "is left alone until", Remedy: "describe ingress"}},
		Also: []string{"scaledobject-ready"},
	}.Find(t, args...)
}
