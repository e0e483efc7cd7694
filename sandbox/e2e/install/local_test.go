package install

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The commands of docs/development.md that take the plugin from an image, and the one
// that removes the init container again.
const (
	layConfigMap  = "kubectl -n argo-rollouts patch configmap argo-rollouts-config --patch-file deploy/local/argo-rollouts-config-patch.yaml"
	layDeployment = "kubectl -n argo-rollouts patch deploy argo-rollouts --patch-file deploy/local/deployment-patch.yaml"
	layAccess     = "kubectl apply -k deploy/rbac"
	takeOff       = `kubectl -n argo-rollouts patch deploy argo-rollouts -p '{"spec":{"template":{"spec":{"initContainers":[{"name":"rollouts-plugin-kedify","$patch":"delete"}]}}}}'`
)

// deploy/local is applied over the running installation: an init container copies the
// plugin out of its image, the controller takes it from the file:// location, and the
// plugin routes a canary, also after the restart that brings in a new build. Afterwards
// the installation is as it was.
func TestLocalImage(t *testing.T) {
	t.Chdir(e2etest.Repository(t, ""))
	document, err := os.ReadFile("docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{layAccess, layConfigMap, layDeployment, takeOff} {
		if !strings.Contains(string(document), "\n"+line+"\n") {
			t.Errorf("docs/development.md has not the line %s", line)
		}
	}
	before := controllertest.KeepTemplate(t)
	good := controllertest.KeepConfig(t)
	outer := e2etest.NewNamespace(t)
	checktest.DeploySample(t, outer)

	for _, line := range []string{layAccess, layConfigMap, layDeployment, controllertest.StatusCommand} {
		e2etest.Shell(t, line)
	}
	first := requireCopied(t)
	c := canarytest.Start(t)
	controllertest.Process(t, controllertest.PluginProgram)
	checktest.AwaitHealthy(t, checktest.Sample, "-n", outer.Name)

	controllertest.Restart(t)
	if second := requireCopied(t); second.UID == first.UID {
		t.Errorf("pod %s was not replaced", first.Name)
	}
	c.RequireSplit(name, c.App.Split(20))
	c.Finish()

	goBack(t, before, good)
}

// goBack undoes the local installation as docs/development.md says, and checks that the
// controller is as it was before.
func goBack(t *testing.T, before corev1.PodTemplateSpec, plugins string) {
	t.Helper()
	controllertest.SetPlugins(t, plugins)
	e2etest.Shell(t, takeOff)
	e2etest.Shell(t, controllertest.StatusCommand)
	controllertest.AwaitLog(t, controllertest.Await(t), "Downloading plugin kedify/http from: "+controllertest.PluginURL)
	if diff := cmp.Diff(before.Spec, controllertest.Template(t).Spec); diff != "" {
		t.Errorf("the pods are not what they were (-before +now):\n%s", diff)
	}
}

// requireCopied checks that the init container has put the plugin where the
// controller has taken it from, and returns the controller's pod.
func requireCopied(t *testing.T) corev1.Pod {
	t.Helper()
	pod := controllertest.Await(t)
	statuses := pod.Status.InitContainerStatuses
	if len(statuses) != 1 || statuses[0].State.Terminated == nil || statuses[0].State.Terminated.ExitCode != 0 ||
		!strings.HasPrefix(statuses[0].ImageID, "ghcr.io/kedify/argo-rollouts-plugin@sha256:") {
		t.Fatalf("the init containers of pod %s: %+v; want one that ran to its end", pod.Name, statuses)
	}
	log := controllertest.AwaitLog(t, pod, "Copied plugin from /home/argo-rollouts/plugin-bin/rollouts-plugin-kedify to "+controllertest.PluginProgram)
	if strings.Contains(log, "Downloading plugin") {
		t.Errorf("the controller has downloaded a plugin:\n%s", e2etest.LinesWith(log, "plugin"))
	}
	return pod
}
