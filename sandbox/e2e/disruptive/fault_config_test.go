package disruptive

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/plugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

var pinned = regexp.MustCompile(`[0-9a-f]{64}`)

// asset is where the sandbox's ConfigMap has the plugin downloaded from.
var asset = "http://" + cluster.ReleasesHost + "/" + plugin.Asset

// otherSum is a sha256, but not the plugin's.
const otherSum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// awaitRefusal waits until a controller's pod restarts again and again, and
// returns it.
func awaitRefusal(t *testing.T) corev1.Pod {
	t.Helper()
	var refusing corev1.Pod
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "a controller that refuses to start", func(ctx context.Context) error {
		pods, err := controllerPods(ctx, c)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, status := range pod.Status.ContainerStatuses {
				if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" && status.LastTerminationState.Terminated.ExitCode != 0 {
					refusing = pod
					return nil
				}
			}
		}
		return errors.New("none waits to be started again")
	})
	return refusing
}

// A sha256 that is not the download's: the controller refuses to start, and
// says so. Corrected, it comes up by itself, and the canary under way goes on.
// (Whether the controller before it lives on meanwhile is left open: Argo's
// install.yaml has no readiness probe, so that a container that is about to
// refuse counts as available for a moment.)
func TestWrongChecksum(t *testing.T) {
	e2etest.AllowRestarts(t, e2etest.ControllerNamespace)
	c := startCanary(t)
	good := keepConfig(t)
	setPlugins(t, pinned.ReplaceAllString(good, otherSum))
	e2etest.Shell(t, restart)

	refusing := awaitRefusal(t)
	if log := controllerLog(t, refusing); !strings.Contains(log, "level=fatal") || !strings.Contains(log, "sha256") {
		t.Errorf("the log of the refusing controller does not say why:\n%s", log)
	}
	checktest.Fault{
		Name: "wrong sha256", Make: func() {}, Args: []string{"--download"},
		Want: []checktest.Finding{
			{Check: "controller-found", Status: checktest.Failure, Object: "Pod " + refusing.Name, Message: "sha256", Remedy: "checksums.txt"},
			{Check: "plugin-download", Status: checktest.Failure, Object: asset, Message: "is pinned: the controller does not start"},
		},
		Also: []string{"controller-restarted"},
	}.FindOnly(t, name, "-n", c.Name)
	c.RequireSplit(name, c.app.Split(20))

	setPlugins(t, good)
	e2etest.Shell(t, restarted)
	if now := awaitController(t); now.UID != refusing.UID {
		t.Errorf("the controller is pod %s, want %s, which refused before", now.Name, refusing.Name)
	}
	c.finish()
}

// A value that a flag of the plugin does not take: the controller's log says
// which, and what it takes; corrected, the canary goes on.
func TestBadFlag(t *testing.T) {
	good := keepConfig(t)
	setPlugins(t, strings.TrimRight(good, "\n")+"\n  args: [\"--log-level\", \"loud\"]\n")
	pod := restartController(t)
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	says := []string{"--log-level", "loud", "want one of trace, debug, info, warn, error"}
	e2etest.Eventually(t, e2etest.Patience, "the plugin's error in the controller's log", func(context.Context) error {
		log := controllerLog(t, pod)
		for line := range strings.Lines(log) {
			if containsAll(line, says) {
				return nil
			}
		}
		return fmt.Errorf("no line with %q:\n%s", says, grep(log, "plugin"))
	})

	setPlugins(t, good)
	restartController(t)
	n.AwaitHealthy(name, e2etest.Image("blue"))
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitSplit(name, app.Split(20))
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
