package disruptive

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The commands of the guide and of its troubleshooting, as they are written,
// with what they should print.
func TestGuideCommands(t *testing.T) {
	t.Chdir(repository(t, ""))
	before := awaitController(t)
	shell(t, "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts")
	shell(t, restarted)
	if now := awaitController(t); now.UID == before.UID {
		t.Error("rollout restart has restarted nothing")
	}
	t.Cleanup(func() {
		if _, err := tryShell(context.Background(), "kubectl delete ns rollouts-demo"); err != nil {
			t.Error(err)
		}
	})
	says := func(line string, parts ...string) { t.Helper(); says(t, line, parts...) }
	shell(t, "kubectl create ns rollouts-demo")
	shell(t, "kubectl -n rollouts-demo apply -k examples/canary")
	says("kubectl -n rollouts-demo get rollout,httpso,scaledobject",
		"rollout.argoproj.io/rollouts-demo", "httpscaledobject.http.keda.sh/rollouts-demo", "TARGETSERVICE", "scaledobject.keda.sh/rollouts-demo", "TRIGGERS")
	says("kubectl argo rollouts status rollouts-demo -n rollouts-demo --timeout 90s", "Healthy")
	shell(t, "kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:yellow")
	says("kubectl argo rollouts get rollout rollouts-demo -n rollouts-demo",
		"Paused", "CanaryPauseStep", "1/6", "ActualWeight:  20", "argoproj/rollouts-demo:blue", "argoproj/rollouts-demo:yellow")
	says(`kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations.http\.kedify\.io/weighted-backends}'`,
		checktest.SampleSplit(20).Text)
	says(`kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "plugin"`, "Downloading plugin kedify/http from", "split changed")
	says(`kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden"`, "httpScaledObject=rollouts-demo/rollouts-demo")
	says("kubectl -n rollouts-demo get rs -l app=rollouts-demo", "rollouts-demo-")
	says("kubectl -n rollouts-demo get endpointslices", "rollouts-demo-stable-", "rollouts-demo-canary-")
	says("rollouts-plugin-kedify check rollouts-demo -n rollouts-demo", " 0 ✗")
	says("kubectl argo rollouts -n rollouts-demo promote rollouts-demo", "rollout 'rollouts-demo' promoted")
	says(`kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations.http\.kedify\.io/weighted-backends}'`,
		checktest.SampleSplit(50).Text)
	says("kubectl argo rollouts -n rollouts-demo abort rollouts-demo", "rollout 'rollouts-demo' aborted")
	says(`kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations}' | grep -c weighted-backends || true`, "0\n")
	checkWatch(t)
}

// says runs a command of the documents until it prints all the parts.
func says(t *testing.T, line string, parts ...string) {
	t.Helper()
	begun := time.Now()
	defer func() { t.Logf("%s (%v)", line, time.Since(begun).Round(time.Millisecond)) }()
	e2etest.Eventually(t, e2etest.Patience, line, func(ctx context.Context) error {
		output, err := tryShell(ctx, line)
		if err == nil && !containsAll(output, parts) {
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
	defer func() { _ = watch.Wait() }() // it is killed
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
