package e2e

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The kubectl plugin that `make build` makes for this machine runs here and checks the
// cluster.
func TestCheckOfTheBuildForThisMachine(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	checktest.DeploySample(t, n)
	program := e2etest.Repository(t, "bin", "kubectl-canary")
	version, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	if platform := runtime.GOOS + "/" + runtime.GOARCH; err != nil || !strings.Contains(string(version), platform) {
		t.Fatalf("%s version: %v\n%s; want it to be for %s", program, err, version, platform)
	}
	checktest.AwaitHealthy(t, checktest.Sample, "-n", n.Name)
	if output, err := exec.CommandContext(t.Context(), program, "check", checktest.Sample, "-n", n.Name).CombinedOutput(); err != nil || !strings.Contains(string(output), " 0 ✗") {
		t.Errorf("%s check: %v\n%s", program, err, output)
	}
}
