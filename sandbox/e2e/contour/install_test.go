package contour

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/guidetest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// installFile is the file of a release that installs the router under test.
const installFile = "install-gatewayapi-" + guidetest.Platform + ".yaml"

// The guide's commands for that file: on linux/amd64 they are as they stand there.
const (
	label            = " -l app.kubernetes.io/name=rollouts-plugin-gatewayapi"
	applyInstall     = "kubectl apply --server-side --field-manager=rollouts-plugin-gatewayapi -f " + installFile
	applyPermission  = applyInstall + label
	deletePermission = "kubectl delete -f " + installFile + label
	editConfigMap    = "kubectl -n argo-rollouts edit configmap argo-rollouts-config"
	tail             = "tail -n 3 " + installFile
	removeState      = "kubectl -n my-app annotate httproute --all rollouts.kedify.io/gatewayapi-canary-"
)

// getRelease makes a release and gets its file for this machine, as the guide says. It
// has registration and permissions as they were when the test has ended.
func getRelease(t *testing.T) (url string) {
	t.Helper()
	var lines []string
	for _, line := range []string{applyInstall, applyPermission, tail, editConfigMap, deletePermission, removeState, controllertest.RestartCommand} {
		lines = append(lines, strings.ReplaceAll(line, installFile, "install-gatewayapi-linux-amd64.yaml"))
	}
	guidetest.RequireLines(t, guide, lines...)
	controllertest.KeepConfig(t)
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), "kubectl apply --server-side --force-conflicts -k "+e2etest.Repository(t, "deploy", "gatewayapi")); err != nil {
			t.Errorf("putting the permissions back: %v", err)
		}
	})
	url = guidetest.MakeRelease(t)
	guidetest.GetFiles(t, url, guide, "1. Get the files", "2. Install")
	return url
}

// A release installs the router where nothing of it is: its file brings the permission and
// the registration, the controller downloads the plugin from the URL in it, and a canary
// runs. The permission goes again, and the controller's ConfigMap does not.
func TestReleaseInstallsTheRouter(t *testing.T) {
	url := getRelease(t)
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding argo-rollouts-gatewayapi")

	for _, s := range guidetest.StepsBetween(t, guide, "\n### Option B: kubectl\n", "\n### Option C: kustomize\n") {
		s.Commands = strings.ReplaceAll(s.Commands, "install-gatewayapi-linux-amd64.yaml", installFile)
		guidetest.RequirePrinted(t, s)
	}
	awaitDownload(t, controllertest.Restart(t), url)
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)

	e2etest.Shell(t, deletePermission)
	e2etest.Shell(t, "kubectl -n argo-rollouts get configmap argo-rollouts-config")
}

// Moving from the plugin of argoproj-labs in the middle of a canary, and back. That one
// does not run here: what it leaves on a route is made by hand, weights and the label, but
// no annotation. The guide's commands register this plugin in its place; the canary goes
// on at its weight, and ends with everything on stable and nothing else left. On the way
// back, the guide's command takes off what that plugin would leave.
func TestMoveFromTheOtherPluginAndBack(t *testing.T) {
	url := getRelease(t)
	other := "- name: " + pluginName + "\n  location: http://example.com/v0.12.0/gatewayapi-plugin-linux-amd64\n"
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	controllertest.Scale(t, 0)
	controllertest.SetPlugins(t, other)
	c.removeState(t)
	requireWeightsAlone(t, c, "80/20")

	// What the guide has a person do in the editor.
	editor := filepath.Join(t.TempDir(), "editor")
	script := "#!/bin/sh\nset -e\n" + tail + ` >entry
for key in location sha256; do sed -i -e "/^    *$key:/d" "$1"; done
sed -n -e '/location:/p' -e '/sha256:/p' entry >lines
exec sed -i -e '/name: .*gatewayAPI/r lines' "$1"
`
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e2etest.Shell(t, applyPermission)
	e2etest.Shell(t, "KUBE_EDITOR="+editor+" "+editConfigMap)
	controllertest.Scale(t, 1)
	awaitDownload(t, controllertest.Await(t), url)

	c.awaitWeights(t, e2etest.Patience, "80/20")
	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60")

	// Back: no request goes by the annotation, and the weights stay.
	controllertest.Scale(t, 0)
	c.removeState(t)
	requireWeightsAlone(t, c, "40/60")
	controllertest.Scale(t, 1)
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
}

// removeState takes the annotation off, by the guide's command.
func (c canary) removeState(t *testing.T) {
	t.Helper()
	e2etest.Shell(t, strings.Replace(removeState, "my-app", c.Name, 1))
}

// requireWeightsAlone fails the test unless a canary's route has these weights and the
// label, and no annotation of the router.
func requireWeightsAlone(t *testing.T, c canary, want string) {
	t.Helper()
	route := routeOf(t, c.Namespace, name)
	marks := func(route *unstructured.Unstructured) []string {
		return []string{weightsOf(route), route.GetLabels()[inProgressLabel], route.GetAnnotations()[stateAnnotation]}
	}
	if diff := cmp.Diff([]string{want, "in-progress", ""}, marks(route)); diff != "" {
		t.Errorf("weights, label and annotation of the route (-want +got):\n%s", diff)
	}
}

// awaitDownload waits until a controller has downloaded the router from a release.
func awaitDownload(t *testing.T, controller corev1.Pod, url string) {
	t.Helper()
	text := "Downloading plugin " + pluginName + " from: " + url + "/gatewayapi-plugin-" + guidetest.Platform
	e2etest.Eventually(t, e2etest.Patience, text+" in the log of pod "+controller.Name, func(ctx context.Context) error {
		log, err := e2etest.TryShell(ctx, "kubectl -n argo-rollouts logs "+controller.Name)
		if err == nil && !strings.Contains(log, text) {
			err = fmt.Errorf("it has not:\n%s", e2etest.LinesWith(log, "lugin"))
		}
		return err
	})
}
