package disruptive

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check finds each fault in the controller's permissions.
func TestCheckAccess(t *testing.T) {
	n := e2etest.NewNamespace(t)
	checktest.DeploySample(t, n)
	controllertest.KeepAccess(t)
	args := []string{checktest.Sample, "-n", n.Name}
	checktest.AwaitHealthy(t, args...)

	verbs := func(list string) string {
		return "kubectl patch clusterrole " + e2etest.PluginClusterRole + ` --type=json -p='[{"op":"replace","path":"/rules/0/verbs","value":[` + list + `]}]'`
	}
	const account = "ServiceAccount argo-rollouts"
	for _, tc := range []struct {
		name, make string
		finding    checktest.Finding
	}{
		{"no role", "kubectl delete clusterrole --ignore-not-found " + e2etest.PluginClusterRole,
			checktest.Finding{Check: "controller-access", Status: checktest.Failure, Object: account, Message: "may not get, patch httpscaledobjects.http.keda.sh in namespace", Remedy: "deploy/rbac"}},
		{"no get", verbs(`"list","watch","patch"`),
			checktest.Finding{Check: "controller-access", Status: checktest.Failure, Object: account, Message: "may not get httpscaledobjects", Remedy: "deploy/rbac"}},
		{"no patch", verbs(`"get","list","watch","update"`),
			checktest.Finding{Check: "controller-access", Status: checktest.Failure, Object: account, Message: "may not patch httpscaledobjects", Remedy: "deploy/rbac"}},
		{"no list", verbs(`"get","watch","patch"`),
			checktest.Finding{Check: "controller-access", Status: checktest.Warning, Object: account, Message: "may not list httpscaledobjects"}},
		{"no watch", verbs(`"get","list","patch"`),
			checktest.Finding{Check: "controller-access", Status: checktest.Warning, Object: account, Message: "may not watch httpscaledobjects"}},
		{"another ServiceAccount", "kubectl patch clusterrolebinding " + e2etest.PluginClusterRole + ` --type=json -p='[{"op":"replace","path":"/subjects/0/namespace","value":"rollouts"}]'`,
			checktest.Finding{Check: "controller-access", Status: checktest.Failure, Object: account, Message: "may not get, patch httpscaledobjects.http.keda.sh in namespace", Remedy: "ServiceAccount argo-rollouts/argo-rollouts"}},
	} {
		passed := t.Run(tc.name, func(t *testing.T) {
			checktest.Fault{
				Name: tc.name,
				Make: func() { e2etest.Shell(t, tc.make) },
				Undo: func() {
					e2etest.Shell(t, "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac"))
				},
				Want: []checktest.Finding{tc.finding},
			}.Find(t, args...)
		})
		if !passed {
			t.Fatal("the faults that follow are not made: the one before may still be there")
		}
	}
}
