package install

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	rolloutsconfig "github.com/argoproj/argo-rollouts/utils/config"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/plugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// guide is the document whose commands these tests run.
const guide = "docs/guide.md"

// installFile is the file of a release that installs the plugin under test.
var installFile = "install-linux-" + runtime.GOARCH + ".yaml"

// The guide's commands for that file: on linux/amd64 they are literally those of the
// guide.
var (
	applyInstall    = "kubectl apply --server-side --field-manager=rollouts-plugin-kedify -f " + installFile
	applyPermission = applyInstall + " -l app.kubernetes.io/name=rollouts-plugin-kedify"
	// Removes the permission at the end, and keeps the ConfigMap.
	deletePermission = "kubectl delete -f " + installFile + " -l app.kubernetes.io/name=rollouts-plugin-kedify"
)

// getInstallFile gets the file that installs the plugin, as the guide says.
func getInstallFile(t *testing.T, url string) {
	t.Helper()
	guidetest.GetFiles(t, url, "docs/guide.md", "1. Get the files", "2. Install")
}

// requireInGuide fails the test where the guide does not have these commands, for
// linux/amd64, each on a line of its own.
func requireInGuide(t *testing.T, commands ...string) {
	t.Helper()
	for i, line := range commands {
		commands[i] = strings.ReplaceAll(line, installFile, "install-linux-amd64.yaml")
	}
	guidetest.RequireLines(t, guide, commands...)
}

// A release installs the plugin in a cluster that has nothing of it: its file brings
// the permission and the registration, the controller downloads the plugin from the URL
// in the file, with the SHA-256 in the file, and a canary runs.
func TestReleaseInstalls(t *testing.T) {
	controllertest.KeepConfig(t)
	controllertest.KeepAccess(t)
	url := guidetest.MakeRelease(t)
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding "+e2etest.PluginClusterRole)
	requireInGuide(t, applyInstall, deletePermission, controllertest.RestartCommand)

	getInstallFile(t, url)
	e2etest.Shell(t, applyInstall)
	controllertest.AwaitLog(t, controllertest.Restart(t), "Downloading plugin kedify/http from: "+url+"/"+plugin.Asset)
	c := canarytest.Start(t)
	checktest.AwaitHealthy(t, name, "-n", c.Name, "--download")
	c.Finish()

	e2etest.Shell(t, deletePermission)
	e2etest.Shell(t, "kubectl -n argo-rollouts get configmap argo-rollouts-config")
}

// README's commands download the plugin's file, and those of docs/interceptor.md the
// interceptor's files. The API server accepts all of them.
func TestReleaseFilesOfOtherPages(t *testing.T) {
	url := guidetest.MakeRelease(t)
	guidetest.GetFiles(t, url, "README.md", "Install", "Documentation")
	e2etest.Shell(t, "kubectl apply --dry-run=server --server-side --force-conflicts -f "+installFile)
	guidetest.GetFiles(t, url, "docs/interceptor.md", "Install", "Which HTTPScaledObject a request belongs to")
	e2etest.Shell(t, "kubectl apply --dry-run=server -f crds.yaml -f interceptor.yaml")
	e2etest.Shell(t, "kubectl -n default apply --dry-run=server -f kedify-proxy.yaml")
}

// A release's file does not replace another plugin that is registered: kubectl refuses
// it, and the guide's merge registers both.
func TestReleaseBesideAnotherPlugin(t *testing.T) {
	good := controllertest.KeepConfig(t)
	controllertest.KeepAccess(t)
	url := guidetest.MakeRelease(t)
	location := url + "/" + plugin.Asset
	getInstallFile(t, url)
	requireInGuide(t, applyPermission, "tail -n 3 "+installFile, "kubectl -n argo-rollouts edit configmap argo-rollouts-config")
	other := strings.ReplaceAll(good, "kedify/http", "example/other")
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding "+e2etest.PluginClusterRole)

	for by, register := range map[string]func(){
		"patched": func() { controllertest.SetPlugins(t, other) },
		// kubectl would hand over to itself what it has applied before.
		"applied": func() {
			controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
			manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argo-rollouts-config, namespace: argo-rollouts}\ndata: {trafficRouterPlugins: " + controllertest.QuoteJSON(t, other) + "}\n"
			if err := os.WriteFile("before.yaml", []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			e2etest.Shell(t, "kubectl apply -f before.yaml")
			t.Cleanup(func() {
				if _, err := e2etest.TryShell(context.Background(), "kubectl -n argo-rollouts annotate configmap argo-rollouts-config "+corev1.LastAppliedConfigAnnotation+"-"); err != nil {
					t.Errorf("removing what kubectl apply notes: %v", err)
				}
			})
		},
	} {
		register()
		output, err := e2etest.TryShell(t.Context(), applyInstall)
		if err == nil || !strings.Contains(output, "conflict") || !strings.Contains(output, ".data.trafficRouterPlugins") {
			t.Errorf("%s: kubectl takes it: %v\n%s", by, err, output)
		}
		if diff := cmp.Diff(other, controllertest.Config(t)); diff != "" {
			t.Fatalf("%s: what was registered before (-want +got):\n%s", by, diff)
		}
	}

	e2etest.Shell(t, applyPermission)
	controllertest.AwaitAccess(t, "patch", "-A", true)
	// The edit that the guide tells a person to make.
	editor := filepath.Join(t.TempDir(), "editor")
	script := "#!/bin/sh\ntail -n 3 " + installFile + " >entry\nexec sed -i -e '/^  trafficRouterPlugins: |/r entry' \"$1\"\n"
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e2etest.Shell(t, "KUBE_EDITOR="+editor+" kubectl -n argo-rollouts edit configmap argo-rollouts-config")

	t.Setenv("POD_NAMESPACE", e2etest.ControllerNamespace)
	t.Cleanup(rolloutsconfig.UnInitializeConfig)
	read, err := rolloutsconfig.InitializeConfig(e2etest.Connect(t).Kube, e2etest.ControllerConfigMap)
	if err != nil {
		t.Fatal(err)
	}
	sum := controllertest.SHA256.FindString(good)
	want := []plugintypes.PluginItem{
		{Name: "kedify/http", Location: location, Sha256: sum, Type: plugintypes.PluginTypeTrafficRouter},
		{Name: "example/other", Location: controllertest.PluginURL, Sha256: sum, Type: plugintypes.PluginTypeTrafficRouter},
	}
	if diff := cmp.Diff(want, read.GetAllPlugins()); diff != "" {
		t.Errorf("what the controller reads (-want +got):\n%s", diff)
	}
	controller := controllertest.Restart(t)
	controllertest.AwaitLog(t, controller, "Downloading plugin kedify/http from: "+location)
	controllertest.AwaitLog(t, controller, "Downloading plugin example/other from: "+controllertest.PluginURL)
	canarytest.Start(t).Finish()
}

// The guide's commands for moving to this plugin from v0.0.1, and for finding and
// removing what either version leaves.
var (
	applyForced  = strings.Replace(applyInstall, " -f ", " --force-conflicts -f ", 1)
	listSplits   = `kubectl get httpso -A -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,ROLLOUT:.metadata.annotations.http\.kedify\.io/weighted-backends-rollout,SPLIT:.metadata.annotations.http\.kedify\.io/weighted-backends'`
	removeOwners = "kubectl -n mynamespace annotate httpso --all " + e2etest.OwnerAnnotation + "-"
)

// Moving from v0.0.1 in the middle of a canary, and back. v0.0.1 cannot be run here:
// what it leaves is made by hand: a split that names no Rollout, and, after v0.0.1 has
// ended a canary of this plugin, the Rollout's name without a split.
func TestMoveFromV001AndBack(t *testing.T) {
	good := controllertest.KeepConfig(t)
	requireInGuide(t, applyForced, listSplits, removeOwners)
	getInstallFile(t, guidetest.MakeRelease(t))
	c := canarytest.Start(t)
	at20 := c.App.Split(20)

	// v0.0.1's entry, as if a user had applied it, and its split, in the middle of a
	// canary.
	controllertest.SetPlugins(t, strings.Replace(good, "plugin", "plugin-v0.0.1", 1))
	controllertest.Scale(t, 0)
	c.Annotate(name, map[string]*string{e2etest.OwnerAnnotation: nil})
	ownerless := e2etest.Split{Text: at20.Text, Owner: e2etest.Absent}
	c.RequireSplit(name, ownerless)
	if listed := e2etest.Shell(t, listSplits); !regexp.MustCompile(`(?m)^` + c.Name + ` +` + name + ` +<none> +- service:`).MatchString(listed) {
		t.Errorf("the guide's list does not show the split without a Rollout:\n%s", listed)
	}

	e2etest.Shell(t, applyForced)
	controllertest.Scale(t, 1)
	c.AwaitSplit(name, at20)
	c.Begun = append(c.Begun, ownerless, at20)

	// Back: the canary goes on, and v0.0.1 ends it by removing its one annotation.
	controllertest.Scale(t, 0)
	c.Annotate(name, map[string]*string{e2etest.SplitAnnotation: nil})
	left := e2etest.Split{Text: e2etest.Absent, Owner: name}
	c.RequireSplit(name, left)
	e2etest.Shell(t, strings.Replace(removeOwners, "mynamespace", c.Name, 1))
	c.RequireSplit(name, e2etest.NoSplit)

	// And to this plugin again, which restores the split from the Rollout's state.
	controllertest.Scale(t, 1)
	c.AwaitSplit(name, at20)
	c.Begun = append(c.Begun, left, e2etest.NoSplit, at20)
	c.Finish()
}

// A canary that this plugin began and v0.0.1 has ended leaves the name of the Rollout
// behind. This plugin removes it when it is back, even without a canary under way.
func TestRolloutLeftByV001IsRemoved(t *testing.T) {
	c := canarytest.Start(t)
	c.Finish()
	owner := name
	c.Annotate(name, map[string]*string{e2etest.OwnerAnnotation: &owner})
	c.Reconcile(name)
	c.AwaitSplit(name, e2etest.NoSplit)
}
