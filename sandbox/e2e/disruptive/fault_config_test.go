package disruptive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// awaitRefusal waits until a controller's pod is in CrashLoopBackOff after an error,
// and returns it.
func awaitRefusal(t *testing.T) corev1.Pod {
	t.Helper()
	var refusing corev1.Pod
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "a controller that refuses to start", func(ctx context.Context) error {
		pods, err := controllertest.Pods(ctx, c)
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

// With a sha256 that is not the download's the controller refuses to start, and says
// so. When the sha256 is corrected, the controller comes up by itself, and the canary
// under way goes on. (The test does not check whether the previous controller runs on
// meanwhile: Argo's install.yaml has no readiness probe, so that a container that is
// about to refuse counts as available for a moment.)
func TestWrongChecksum(t *testing.T) {
	e2etest.AllowRestarts(t, e2etest.ControllerNamespace)
	c := canarytest.Start(t)
	good := controllertest.KeepConfig(t)
	controllertest.SetPlugins(t, controllertest.SHA256.ReplaceAllString(good, controllertest.OtherSHA256))
	e2etest.Shell(t, controllertest.RestartCommand)

	refusing := awaitRefusal(t)
	if log := controllertest.Log(t, refusing); !strings.Contains(log, "level=fatal") || !strings.Contains(log, "sha256") {
		t.Errorf("the log of the refusing controller does not say why:\n%s", log)
	}
	checktest.Fault{
		Name: "wrong sha256", Make: func() {}, Args: []string{"--download"},
		Want: []checktest.Finding{
			{Check: "controller-found", Status: checktest.Failure, Object: "Pod " + refusing.Name, Message: "CrashLoopBackOff", Remedy: "plugin-download"},
			{Check: "plugin-download", Status: checktest.Failure, Object: controllertest.PluginURL, Message: "is pinned: the controller does not start"},
		},
		Also: []string{"controller-restarted"},
	}.FindOnly(t, name, "-n", c.Name)
	c.RequireSplit(name, c.App.Split(20))

	controllertest.SetPlugins(t, good)
	e2etest.Shell(t, controllertest.StatusCommand)
	if now := controllertest.Await(t); now.UID != refusing.UID {
		t.Errorf("the controller is pod %s, want %s, which refused before", now.Name, refusing.Name)
	}
	c.Finish()
}

// If a flag of the plugin has an invalid value, the controller's log names both and the
// valid values. After the correction a canary runs.
func TestBadFlag(t *testing.T) {
	good := controllertest.KeepConfig(t)
	controllertest.SetPlugins(t, strings.TrimRight(good, "\n")+"\n  args: [\"--log-level\", \"loud\"]\n")
	pod := controllertest.Restart(t)
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	says := []string{"--log-level", "loud", "want one of trace, debug, info, warn, error"}
	e2etest.Eventually(t, e2etest.Patience, "the plugin's error in the controller's log", func(context.Context) error {
		log := controllertest.Log(t, pod)
		if e2etest.LineWith(log, says...) {
			return nil
		}
		return fmt.Errorf("no line with %q:\n%s", says, e2etest.LinesWith(log, "plugin"))
	})

	controllertest.SetPlugins(t, good)
	controllertest.Restart(t)
	n.AwaitHealthy(name, e2etest.Image("blue"))
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitSplit(name, app.Split(20))
}
