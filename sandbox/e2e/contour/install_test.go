package contour

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// installFile is the file of a release that installs the router under test.
const installFile = "install-gatewayapi-" + guidetest.Platform + ".yaml"

// The guide's commands for that file: on linux/amd64 they are literally those of the
// guide.
const (
	label            = " -l app.kubernetes.io/name=rollouts-plugin-gatewayapi"
	applyInstall     = "kubectl apply --server-side --field-manager=rollouts-plugin-gatewayapi -f " + installFile
	applyPermission  = applyInstall + label
	deletePermission = "kubectl delete -f " + installFile + label
	editConfigMap    = "kubectl -n argo-rollouts edit configmap argo-rollouts-config"
	tail             = "tail -n 3 " + installFile
	removeState      = "kubectl -n my-app annotate httproute --all rollouts.kedify.io/gatewayapi-canary-"
	findController   = "kubectl get deploy -A -l app.kubernetes.io/name=argo-rollouts -o custom-columns=NS:.metadata.namespace,SA:.spec.template.spec.serviceAccountName"
)

// The tests run every command of the guide, except for those that need Helm or a
// release on GitHub, or that set up a sandbox: TestGatewayGuide runs those of the
// canary, and the tests of this file run these.
func TestEveryCommandOfTheGuideIsRun(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
	notRun := regexp.MustCompile(`^(make sandbox-build|bin/sandbox (up|shell)|git clone|helm (repo add|upgrade)|curl -fsSLO "\$URL/argo-rollouts-values-gatewayapi-)`)
	run := []string{
		"VERSION=vX.Y.Z", "PLATFORM=linux-amd64 # or linux-arm64", "URL=https://github.com/kedify/argo-rollouts-plugin/releases/download/$VERSION",
		`curl -fsSLO "$URL/install-gatewayapi-$PLATFORM.yaml"`, // GetFiles
		applyInstall, applyPermission, tail, editConfigMap, deletePermission, removeState, findController,
		controllertest.RestartCommand, strings.TrimSuffix(controllertest.StatusCommand, " --timeout=110s"),
	}
	commands := guidetest.Commands(t, guide, "\n## 3. Deploy the sample\n", "\nTo uninstall, ")
	for _, command := range commands {
		command = strings.ReplaceAll(command, "install-gatewayapi-linux-amd64.yaml", installFile)
		if !notRun.MatchString(command) && !slices.Contains(run, command) {
			t.Errorf("no test runs %s", command)
		}
	}
	if len(commands) < len(run) {
		t.Errorf("%d commands found, want %d at least", len(commands), len(run))
	}
}

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

// getRelease makes a release and gets its file for this machine, as the guide says.
func getRelease(t *testing.T) (url string) {
	t.Helper()
	var lines []string
	for _, line := range []string{applyInstall, applyPermission, tail, editConfigMap, deletePermission, removeState, controllertest.RestartCommand} {
		lines = append(lines, strings.ReplaceAll(line, installFile, "install-gatewayapi-linux-amd64.yaml"))
	}
	guidetest.RequireLines(t, guide, lines...)
	keepInstallation(t)
	url = guidetest.MakeRelease(t)
	guidetest.GetFiles(t, url, guide, "1. Get the files", "2. Install")
	return url
}

// A release installs the router in a cluster that has nothing of it: its file brings
// the permission and the registration, the controller downloads the plugin from the URL
// in the file, and a canary runs. The guide's command removes the permission and keeps
// the controller's ConfigMap.
func TestReleaseInstallsTheRouter(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
	url := getRelease(t)
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding argo-rollouts-gatewayapi")

	for _, s := range guidetest.StepsBetween(t, guide, "\n### Option B: kubectl\n", "\n### Option C: kustomize\n") {
		s.Commands = strings.ReplaceAll(s.Commands, "install-gatewayapi-linux-amd64.yaml", installFile)
		guidetest.RequirePrinted(t, s)
	}
	awaitDownload(t, controllertest.Restart(t), url)
	if printed := e2etest.Shell(t, findController); !regexp.MustCompile(`(?m)^argo-rollouts +argo-rollouts$`).MatchString(printed) {
		t.Errorf("the guide's command to find the controller's ServiceAccount prints:\n%s", printed)
	}
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

// With the guide's Role in the namespace of a canary instead of the ClusterRole, and
// with --watch-namespace, a canary runs, and its route is repaired when something else
// changes it.
func TestOneNamespaceOnly(t *testing.T) {
	plugins := keepInstallation(t)
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.Apply(guidetest.Manifest(t, guide, "\n### One namespace only\n"))
	e2etest.Shell(t, "kubectl delete clusterrolebinding argo-rollouts-gatewayapi")
	const entry = "  name: " + pluginName + "\n"
	controllertest.SetPlugins(t, changed(t, plugins, entry, entry+`  args: ["--watch-namespace=`+c.Name+`"]`+"\n"))
	controllertest.Restart(t)

	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
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
// but no annotation, is made by hand. The guide's commands register this plugin in its
// place; the canary goes on at its weight, and ends with everything on stable and
// nothing else left. On the way back, the guide's command removes the annotation, which
// the other plugin would leave.
func TestMoveFromTheOtherPluginAndBack(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
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

	// The edit that the guide tells a person to make.
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

	// Back: requests do not depend on the annotation, and the weights stay.
	controllertest.Scale(t, 0)
	c.removeState(t)
	requireWeightsAlone(t, c, "40/60")
	controllertest.Scale(t, 1)
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
}

// removeState removes the annotation with the guide's command.
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
