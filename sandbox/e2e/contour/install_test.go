package contour

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// migration is the page about moving here from the plugin of argoproj-labs.
const migration = "docs/how-to/migrate-argoproj-labs.md"

// keepInstallation puts registration and permissions back when the test ends, and
// returns the list of registered plugins.
func keepInstallation(t *testing.T) (plugins string) {
	t.Helper()
	plugins = controllertest.KeepConfig(t)
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), "kubectl apply --server-side --force-conflicts -k "+e2etest.Repository(t, "deploy", "gatewayapi")); err != nil {
			t.Errorf("putting the permissions back: %v", err)
		}
	})
	return plugins
}

// A release installs the router in a cluster that has nothing of it, by the tutorial's
// commands: its file brings the permission and the registration, the controller downloads
// the plugin from the URL in the file, and a canary runs. The command that removes the
// permission keeps the controller's ConfigMap.
func TestReleaseInstallsTheRouter(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
	keepInstallation(t)
	url := guidetest.UseRelease(t)
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding argo-rollouts-gatewayapi")

	guidetest.Run(t, tutorial, []string{"install", "restart"})
	awaitDownload(t, controllertest.Await(t), url)
	guidetest.Run(t, guidetest.Install, []string{"apply-gatewayapi"}) // the same once more
	if printed := guidetest.Run(t, guidetest.Install, []string{"service-account"}); !regexp.MustCompile(`(?m)^argo-rollouts +argo-rollouts$`).MatchString(printed) {
		t.Errorf("the command to find the controller's ServiceAccount prints:\n%s", printed)
	}
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)

	guidetest.Run(t, guidetest.Install, []string{"remove-permission-gatewayapi"})
	e2etest.Shell(t, "kubectl -n argo-rollouts get configmap argo-rollouts-config")
}

// With the Role of docs/how-to/install.md in the namespace of a canary instead of the ClusterRole, and
// with --watch-namespace, a canary runs, and its route is repaired when something else
// changes it.
func TestOneNamespaceOnly(t *testing.T) {
	plugins := keepInstallation(t)
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.Apply(guidetest.YAML(t, guidetest.Install, "role-gatewayapi"))
	e2etest.Shell(t, "kubectl delete clusterrolebinding argo-rollouts-gatewayapi")
	const entry = "  name: " + pluginName + "\n"
	controllertest.SetPlugins(t, changed(t, plugins, entry, entry+`  args: ["--watch-namespace=`+c.Name+`"]`+"\n"))
	controllertest.Restart(t)

	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.AwaitReconciled(e2etest.ControllerNamespace, name)
	requireWeights(t, c.Namespace, name, "80/20")
	c.Apply(c.route)
	c.awaitWeights(t, soon, "80/20")
	c.AwaitEvent("Rollout", name, "RouteRestored", "field manager e2e (")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
}

// Moving from the plugin of argoproj-labs in the middle of a canary, and back. That
// plugin does not run here: what it leaves on a route, which is weights and the label
// but no annotation, is made by hand. The page's commands register this plugin in its
// place; the canary goes on at its weight, and ends with everything on stable and
// nothing else left. On the way back, the page's command removes the annotation, which
// the other plugin would leave.
func TestMoveFromTheOtherPluginAndBack(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
	guidetest.RequireNames(t, migration, "download", "permission", "register", "restart", "check", "annotation")
	keepInstallation(t)
	url := guidetest.UseRelease(t)
	other := "- name: " + pluginName + "\n  location: http://example.com/v0.12.0/gatewayapi-plugin-linux-amd64\n"
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	controllertest.Scale(t, 0)
	controllertest.SetPlugins(t, other)
	c.removeState(t)
	requireWeightsAlone(t, c, "80/20")

	// The edit that the page tells a person to make.
	editor := filepath.Join(t.TempDir(), "editor")
	script := `#!/bin/sh
set -e
tail -n 3 "install-gatewayapi-$PLATFORM.yaml" >entry
for key in location sha256; do sed -i -e "/^    *$key:/d" "$1"; done
sed -n -e '/location:/p' -e '/sha256:/p' entry >lines
exec sed -i -e '/name: .*gatewayAPI/r lines' "$1"
`
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBE_EDITOR", editor)
	guidetest.Run(t, migration, []string{"download", "permission", "register", "restart"})
	controllertest.Scale(t, 1)
	awaitDownload(t, controllertest.Await(t), url)

	c.awaitWeights(t, e2etest.Patience, "80/20")
	guidetest.Run(t, migration, []string{"check"}, "my-app", c.Name)
	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60")

	// Back: requests do not depend on the annotation, and the weights stay.
	controllertest.Scale(t, 0)
	c.removeState(t)
	requireWeightsAlone(t, c, "40/60")
	controllertest.Scale(t, 1)
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
}

// removeState removes the annotation with the page's command.
func (c canary) removeState(t *testing.T) {
	t.Helper()
	guidetest.Run(t, migration, []string{"annotation"}, "my-app", c.Name)
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
	text := "Downloading plugin " + pluginName + " from: " + url + "/gatewayapi-plugin-" + sourceguide.Platform
	e2etest.Eventually(t, e2etest.Patience, text+" in the log of pod "+controller.Name, func(ctx context.Context) error {
		log, err := e2etest.TryShell(ctx, "kubectl -n argo-rollouts logs "+controller.Name)
		if err == nil && !strings.Contains(log, text) {
			err = fmt.Errorf("it has not:\n%s", e2etest.LinesWith(log, "lugin"))
		}
		return err
	})
}
