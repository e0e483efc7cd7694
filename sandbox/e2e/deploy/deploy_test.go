// Package deploy tries all of deploy/ with hack/kind.sh, in a sandbox of its own: what
// the workflow kind.yml does in a cluster of kind.
package deploy

import (
	"os"
	"os/exec"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunTests(m, "e2e-deploy", interceptor.Name, stepplugin.Name))
}

// Each kustomization of deploy/ is applied over what the sandbox has of it already, all
// pods become ready, and a canary gets its fifth of the requests.
func TestEachKustomizationServes(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), e2etest.Repository(t, "hack", "kind.sh"), "--here").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Logf("%s", output)
}
