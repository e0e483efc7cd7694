package install

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
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

// migration is the page about moving here from v0.0.1.
const migration = "docs/how-to/migrate-v0.0.1.md"

// A release installs the plugin in a cluster that has nothing of it, by README's commands:
// its file brings the permission and the registration, the controller downloads the plugin
// from the URL in the file, with the SHA-256 in the file, and a canary runs. Then the
// plugin is removed as docs/how-to/install.md says.
func TestReleaseInstalls(t *testing.T) {
	controllertest.KeepConfig(t)
	controllertest.KeepAccess(t)
	url := guidetest.UseRelease(t)
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding "+e2etest.PluginClusterRole)

	guidetest.Run(t, "README.md", []string{"files", "install"})
	guidetest.RequirePrinted(t, guidetest.Step(t, guidetest.Install, "apply")) // the same once more
	guidetest.Run(t, guidetest.Install, []string{"restarted"})
	controllertest.AwaitLog(t, controllertest.Await(t), "Downloading plugin kedify/http from: "+url+"/"+plugin.Asset)
	c := canarytest.Start(t)
	checktest.AwaitHealthy(t, name, "-n", c.Name, "--download")
	c.Finish()

	guidetest.Run(t, guidetest.Install, []string{"remove-plugin", "remove-permission"})
	if left := controllertest.Config(t); left != "" {
		t.Errorf("the controller's ConfigMap still has:\n%s", left)
	}
	if left := e2etest.Shell(t, "kubectl get -o name --ignore-not-found clusterrole,clusterrolebinding "+e2etest.PluginClusterRole); left != "" {
		t.Errorf("still there:\n%s", left)
	}
}

// The commands of docs/how-to/install.md download the files of the other parts, and the API
// server accepts all of them.
func TestReleaseFilesOfOtherParts(t *testing.T) {
	guidetest.UseRelease(t)
	guidetest.Run(t, guidetest.Install, []string{"parts"})
	applied := 0
	for _, name := range []string{"interceptor", "scaler", "agent", "all", "kedify-proxy"} {
		for line := range strings.Lines(guidetest.Step(t, guidetest.Install, name).Commands) {
			if strings.HasPrefix(line, "curl ") {
				e2etest.Shell(t, line)
			}
			if before, after, is := strings.Cut(strings.ReplaceAll(line, "-n myapp", "-n default"), " apply "); is {
				applied++
				// What the sandbox has of it is another manager's.
				after = strings.Replace(after, "--server-side", "--server-side --force-conflicts", 1)
				e2etest.Shell(t, before+" apply --dry-run=server "+after)
			}
		}
	}
	if applied != 5 {
		t.Errorf("%d files were applied, want one for each part", applied)
	}
}

// A release's file does not replace another plugin that is registered: kubectl refuses
// it, and the merge of docs/how-to/install.md registers both.
func TestReleaseBesideAnotherPlugin(t *testing.T) {
	good := controllertest.KeepConfig(t)
	controllertest.KeepAccess(t)
	location := guidetest.UseRelease(t) + "/" + plugin.Asset
	guidetest.Run(t, guidetest.Install, []string{"files"})
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
		output, err := e2etest.TryShell(t.Context(), guidetest.Step(t, guidetest.Install, "apply").Commands)
		if err == nil || !strings.Contains(output, "conflict") || !strings.Contains(output, ".data.trafficRouterPlugins") {
			t.Errorf("%s: kubectl takes it: %v\n%s", by, err, output)
		}
		if diff := cmp.Diff(other, controllertest.Config(t)); diff != "" {
			t.Fatalf("%s: what was registered before (-want +got):\n%s", by, diff)
		}
	}

	guidetest.Run(t, guidetest.Install, []string{"apply-permission"})
	controllertest.AwaitAccess(t, "patch", "-A", true)
	// The edit that the page tells a person to make.
	editor := filepath.Join(t.TempDir(), "editor")
	script := "#!/bin/sh\ntail -n 3 install-$PLATFORM.yaml >entry\nexec sed -i -e '/^  trafficRouterPlugins: |/r entry' \"$1\"\n"
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBE_EDITOR", editor)
	guidetest.Run(t, guidetest.Install, []string{"edit"})

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

// Moving from v0.0.1 in the middle of a canary, and back. v0.0.1 cannot be run here:
// what it leaves is made by hand: a split that names no Rollout, and, after v0.0.1 has
// ended a canary of this plugin, the Rollout's name without a split.
func TestMoveFromV001AndBack(t *testing.T) {
	good := controllertest.KeepConfig(t)
	guidetest.RequireNames(t, migration, "force", "list", "remove-owners")
	guidetest.UseRelease(t)
	guidetest.Run(t, guidetest.Install, []string{"files"})
	c := canarytest.Start(t)
	at20 := c.App.Split(20)

	// v0.0.1's entry, as if a user had applied it, and its split, in the middle of a
	// canary.
	controllertest.SetPlugins(t, strings.Replace(good, "plugin", "plugin-v0.0.1", 1))
	controllertest.Scale(t, 0)
	c.Annotate(name, map[string]*string{e2etest.OwnerAnnotation: nil})
	ownerless := e2etest.Split{Text: at20.Text, Owner: e2etest.Absent}
	c.RequireSplit(name, ownerless)
	if listed := guidetest.Run(t, migration, []string{"list"}); !regexp.MustCompile(`(?m)^` + c.Name + ` +` + name + ` +<none> +- service:`).MatchString(listed) {
		t.Errorf("the page's list does not show the split without a Rollout:\n%s", listed)
	}

	guidetest.Run(t, migration, []string{"force"})
	controllertest.Scale(t, 1)
	c.AwaitSplit(name, at20)
	c.Begun = append(c.Begun, ownerless, at20)

	// Back: the canary goes on, and v0.0.1 ends it by removing its one annotation.
	controllertest.Scale(t, 0)
	c.Annotate(name, map[string]*string{e2etest.SplitAnnotation: nil})
	left := e2etest.Split{Text: e2etest.Absent, Owner: name}
	c.RequireSplit(name, left)
	guidetest.Run(t, migration, []string{"remove-owners"}, "mynamespace", c.Name)
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
