package install

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/guidetest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// guide is the document that TestGuide walks through.
const guide = "docs/guide.md"

// shownOutputs is how many commands of the walk have their output in the guide.
const shownOutputs = 9

// TestGuide runs the guide's canary, from the restart of the controller to the deletion
// of the namespace: each command of the guide prints the output shown below it, except
// for ages and generated names. On the way it runs the commands of the other documents,
// too, and checks what they print. All along the HTTPScaledObject carries the weights
// of the sample's steps and nothing else. (TestTrafficCanary promotes the sample to its
// end, which the guide leaves to the reader.)
func TestGuide(t *testing.T) {
	t.Chdir(e2etest.Repository(t, ""))
	before := controllertest.Await(t)
	if now := controllertest.Restart(t); now.UID == before.UID {
		t.Error("rollout restart has restarted nothing")
	}
	installInterceptor(t)
	n := e2etest.AdoptNamespace(t, checktest.Sample)
	walked := 0
	walk := func(from, to string) { t.Helper(); walked += walkGuide(t, from, to) }

	walk("\n## 3. Deploy the sample\n", "\n## 4. Start a canary\n")
	says(t, "kubectl argo rollouts status rollouts-demo -n rollouts-demo --timeout 90s", "Healthy")
	e2etest.Shell(t, "kubectl -n rollouts-demo apply -k deploy/kedify-proxy")
	says(t, "kubectl -n rollouts-demo rollout status deploy/kedify-proxy --timeout 110s", "successfully rolled out")
	atRest := n.HTTPScaledObject(checktest.Sample).GetAnnotations()
	record := n.Record(checktest.Sample)

	walk("\n## 4. Start a canary\n", "\n## 5. Promote it\n")
	n.AwaitPaused(checktest.Sample, 1)
	says(t, "kubectl argo rollouts get rollout rollouts-demo -n rollouts-demo",
		"Paused", "CanaryPauseStep", "1/6", "ActualWeight:  20", "argoproj/rollouts-demo:blue", "argoproj/rollouts-demo:yellow")
	line := `kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations.http\.kedify\.io/weighted-backends}'`
	if diff := cmp.Diff(checktest.SampleSplit(20).Text, e2etest.Shell(t, line)); diff != "" {
		t.Errorf("%s (-want +printed):\n%s", line, diff)
	}
	says(t, "kubectl canary check rollouts-demo -n rollouts-demo",
		"✓ kedify-proxy-split", "✓ interceptor-split", "rollouts-demo-stable=80,rollouts-demo-canary=20", " 0 ✗")
	requireProxiesAnswer(t)
	requireWeightedClusters(t)
	lookAtProxies(t)
	lookAtController(t)

	walk("\n## 5. Promote it\n", "\n## 6. Or abort it\n")
	n.AwaitPaused(checktest.Sample, 5) // "30 s later"
	n.RequireSplit(checktest.Sample, checktest.SampleSplit(80))

	walk("\n## 6. Or abort it\n", "\n## 7. Clean up\n")
	says(t, `kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations}' | grep -c weighted-backends || true`, "0\n")
	checkWatch(t)
	n.AwaitAborted(checktest.Sample)
	record.Require(e2etest.NoSplit, checktest.SampleSplit(20), checktest.SampleSplit(50), checktest.SampleSplit(80), e2etest.NoSplit)
	if diff := cmp.Diff(atRest, n.HTTPScaledObject(checktest.Sample).GetAnnotations()); diff != "" {
		t.Errorf("annotations before and after the canary (-before +after):\n%s", diff)
	}

	walk("\n## 7. Clean up\n", "\nTo uninstall, ")
	// The sample contains nothing of the controller's, so the permissions are still
	// there.
	e2etest.Shell(t, "kubectl get clusterrole,clusterrolebinding "+e2etest.PluginClusterRole)
	if walked != shownOutputs {
		t.Errorf("%d outputs were compared, want %d", walked, shownOutputs)
	}
}

// walkGuide runs the commands between two lines of the guide, compares their output
// with the one shown below each, and returns how many outputs it has compared. The test
// itself does what needs an ingress or a second terminal.
func walkGuide(t *testing.T, from, to string) (compared int) {
	t.Helper()
	for _, s := range guidetest.StepsBetween(t, guide, from, to) {
		switch {
		case strings.Contains(s.Commands, "<ingress-address>") || strings.Contains(s.Commands, "kedify-proxy"):
			continue // requireProxiesAnswer, requireWeightedClusters
		case s.Output == "":
			t.Errorf("no output is shown for:\n%s", s.Commands)
			continue
		}
		guidetest.RequirePrinted(t, s)
		compared++
	}
	return compared
}

// lookAtController runs the commands of docs/troubleshooting.md that show the log of
// the controller and the objects it has made.
func lookAtController(t *testing.T) {
	t.Helper()
	says(t, `kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "plugin"`, "Downloading plugin kedify/http from", "split changed")
	says(t, `kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden"`, "httpScaledObject=rollouts-demo/rollouts-demo")
	says(t, "kubectl -n rollouts-demo get rs -l app=rollouts-demo", "rollouts-demo-")
	says(t, "kubectl -n rollouts-demo get endpointslices", "rollouts-demo-stable-", "rollouts-demo-canary-")
}

// says runs a command of the documents until it prints all the parts.
func says(t *testing.T, line string, parts ...string) {
	t.Helper()
	begun := time.Now()
	defer func() { t.Logf("%s (%v)", line, time.Since(begun).Round(time.Millisecond)) }()
	e2etest.Eventually(t, e2etest.Patience, line, func(ctx context.Context) error {
		output, err := e2etest.TryShell(ctx, line)
		if err == nil && !e2etest.ContainsAll(output, parts) {
			err = fmt.Errorf("it prints, without %q:\n%s", parts, output)
		}
		return err
	})
}

// checkWatch runs the guide's command that watches a Rollout, which ends only
// when it is interrupted.
func checkWatch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := exec.CommandContext(ctx, "kubectl", "argo", "rollouts", "get", "rollout", "rollouts-demo", "-n", "rollouts-demo", "-w")
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Wait() }() // an error, as the command is killed
	defer cancel()
	var text strings.Builder
	chunk := make([]byte, 4096)
	for !strings.Contains(text.String(), "Degraded") {
		n, err := stdout.Read(chunk)
		text.Write(chunk[:n])
		if err != nil {
			t.Fatalf("the watch ends (%v) after:\n%s", err, text.String())
		}
	}
}
