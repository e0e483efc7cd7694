package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// page has the commands that take the plugin from an image, and the one that removes the
// init container again.
const page = "docs/contributing/development.md"

// deploy/local is applied over the running installation: an init container copies the
// plugin out of its image, the controller takes it from the file:// location, and the
// plugin routes a canary, also after the restart that brings in a new build. Afterwards
// the installation is as it was.
func TestLocalImage(t *testing.T) {
	t.Chdir(e2etest.Repository(t, ""))
	before := controllertest.KeepTemplate(t)
	good := controllertest.KeepConfig(t)
	outer := e2etest.NewNamespace(t)
	checktest.DeploySample(t, outer)

	// The sandbox has the image without an import.
	guidetest.Run(t, page, []string{"local"}, "make k3d-import K3D_CLUSTER=mycluster\n", "")
	e2etest.Shell(t, controllertest.StatusCommand)
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

// goBack undoes the local installation as the page says, and checks that the
// controller is as it was before.
func goBack(t *testing.T, before corev1.PodTemplateSpec, plugins string) {
	t.Helper()
	controllertest.SetPlugins(t, plugins)
	guidetest.Run(t, page, []string{"local-removal"})
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
