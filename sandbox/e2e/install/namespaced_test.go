package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// With Argo Rollouts' own namespace-install.yaml, deploy/rbac-minimal and
// --watch-namespace, a controller with Roles in one namespace and no ClusterRole has
// all features of the plugin and requests nothing that is forbidden. The check finds
// nothing wrong.
func TestNamespacedInstallation(t *testing.T) {
	n := e2etest.NewNamespace(t)
	entry := strings.TrimRight(controllertest.Config(t), "\n") + "\n  args: [\"--watch-namespace=" + n.Name + "\"]\n"

	// The controller of the whole cluster would serve this namespace too.
	controllertest.Scale(t, 0)

	paths, err := cluster.AddonPaths(argorollouts.Name)
	if err != nil {
		t.Fatal(err)
	}
	in := "kubectl -n " + n.Name + " "
	e2etest.Shell(t, in+"apply --server-side -f "+filepath.Join(paths[argorollouts.Manifests], "namespace-install.yaml"))
	e2etest.Shell(t, "kubectl kustomize "+e2etest.Repository(t, "deploy/rbac-minimal")+" | sed 's/namespace: argo-rollouts/namespace: "+n.Name+"/' | "+in+"apply -f -")
	patch := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(patch, []byte(`{"data":{"trafficRouterPlugins":`+controllertest.QuoteJSON(t, entry)+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e2etest.Shell(t, in+"patch configmap argo-rollouts-config --type=merge --patch-file "+patch)
	e2etest.Shell(t, in+"rollout restart deploy/argo-rollouts")
	e2etest.Shell(t, in+"rollout status deploy/argo-rollouts --timeout=110s")
	controllertest.AwaitIn(t, n.Name)

	app := e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	n.AwaitReconciled(n.Name, name)
	n.RequireSplit(name, app.Split(20))
	n.Annotate(name, map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil})
	n.AwaitSplitWithin(20*time.Second, name, app.Split(20))
	n.AwaitEvent("Rollout", name, "SplitRestored", "was removed")
	checktest.AwaitHealthy(t, name, "-n", n.Name, "--controller-namespace", n.Name)
	n.Kubectl("delete", "rollout", name, "--wait=true")
	n.AwaitSplitWithin(time.Minute, name, e2etest.NoSplit)
	if log := e2etest.Shell(t, in+"logs deploy/argo-rollouts"); strings.Contains(log, "no watch") || strings.Contains(log, "forbidden") {
		t.Errorf("something forbidden was asked for:\n%s%s", e2etest.LinesWith(log, "no watch"), e2etest.LinesWith(log, "forbidden"))
	}
}
