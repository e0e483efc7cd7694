package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// dryRun has the API server check manifests as it does when they are applied,
// unknown fields included.
func dryRun(t *testing.T, n *e2etest.Namespace, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", path}
	// kubectl refuses a --namespace that differs from the manifest's own.
	if objects, err := e2etest.Decode(manifest); err == nil && !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetNamespace() != "" }) {
		args = append(args, "--namespace", n.Name)
	}
	output, err := exec.CommandContext(t.Context(), "kubectl", args...).CombinedOutput()
	if err != nil {
		t.Errorf("kubectl apply: %v\n%s\n%s", err, output, manifest)
	}
}

// Every YAML fence of the documents is a manifest that the API server accepts, or is
// marked as a fragment and is valid YAML.
func TestYAMLOfDocuments(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	pages, err := page.List(os.DirFS(e2etest.Repository(t)))
	if err != nil {
		t.Fatal(err)
	}
	manifests := 0
	for _, path := range pages {
		for _, f := range guidetest.Fences(t, path) {
			if f.Language != "yaml" {
				continue
			}
			t.Run(fmt.Sprintf("%s:%d", path, f.Line), func(t *testing.T) {
				if f.Fragment {
					var value any
					if err := yaml.Unmarshal([]byte(f.Text), &value); err != nil {
						t.Errorf("%v\n%s", err, f.Text)
					}
					return
				}
				manifests++
				dryRun(t, n.With(t), f.Text)
			})
		}
	}
	if manifests == 0 {
		t.Error("no document holds a manifest")
	}
}

// Every kustomization of examples/ builds, and the API server accepts its objects. Those of
// deploy/ are tried by hack/kind.sh, in e2e/deploy.
func TestYAMLOfKustomizations(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	found := 0
	err := filepath.WalkDir(e2etest.Repository(t, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		dir := filepath.Dir(path)
		relative := strings.TrimPrefix(dir, e2etest.Repository(t)+"/")
		if relative == "examples/gatewayapi/gateway" {
			return nil // in Contour's namespace: the tests in e2e/contour apply it
		}
		found++
		t.Run(relative, func(t *testing.T) {
			output, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", dir).Output()
			if err != nil {
				t.Fatalf("kubectl kustomize %s: %v", relative, err)
			}
			dryRun(t, n.With(t), string(output))
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("%d kustomizations found", found)
	}
}

// overInstallation returns the directory of a kustomization that adds a component to
// Argo Rollouts' own installation.
func overInstallation(t *testing.T, component string) string {
	t.Helper()
	paths, err := cluster.AddonPaths(argorollouts.Name)
	if err != nil {
		t.Fatal(err)
	}
	install, err := os.ReadFile(filepath.Join(paths[argorollouts.Manifests], "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// kustomize takes no absolute paths.
	root := t.TempDir()
	for path, text := range map[string]string{
		"base/install.yaml":       string(install),
		"base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: argo-rollouts\nresources: [install.yaml]\ncomponents: [../component]\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, "component"), os.DirFS(component)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "base")
}

// The kustomization of docs/how-to/install.md builds, registers the plugin and
// grants its permissions. Files of this tree and of the Argo Rollouts that runs here
// replace the files that it downloads.
func TestKustomizationOfTheInstallPage(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	// kustomize takes no absolute paths.
	root := overInstallation(t, e2etest.Repository(t, "deploy", "gatewayapi"))
	text := guidetest.YAML(t, guidetest.Install, "kustomization")
	for url, path := range map[string]string{
		"https://github.com/argoproj/argo-rollouts/releases/download/" + argorollouts.Version + "/install.yaml": "install.yaml",
		"https://github.com/kedify/argo-rollouts-plugin//deploy/gatewayapi?ref=vX.Y.Z":                          "../component",
	} {
		if !strings.Contains(text, "  - "+url+"\n") {
			t.Fatalf("the kustomization does not have %s:\n%s", url, text)
		}
		text = strings.Replace(text, url, path, 1)
	}
	if err := os.WriteFile(filepath.Join(root, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", root, "--load-restrictor=LoadRestrictionsNone").Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v", err)
	}
	objects, err := e2etest.Decode(string(output))
	if err != nil {
		t.Fatal(err)
	}
	made := objectsByName(objects)
	config, _ := made["ConfigMap argo-rollouts-config"].(map[string]any)
	plugins, _, _ := unstructured.NestedString(config, "data", "trafficRouterPlugins")
	if !strings.Contains(plugins, "name: \"argoproj-labs/gatewayAPI\"\n") {
		t.Errorf("the ConfigMap registers:\n%s", plugins)
	}
	for _, want := range []string{"Deployment argo-rollouts", "ClusterRole argo-rollouts-gatewayapi", "ClusterRoleBinding argo-rollouts-gatewayapi"} {
		if made[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	dryRun(t, n, string(output))
}

// Every other YAML file of deploy/ and examples/ is a manifest that the API server
// accepts, or is a template or a part of a kustomization.
func TestYAMLFiles(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	for _, root := range []string{"deploy", "examples"} {
		err := filepath.WalkDir(e2etest.Repository(t, root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" || entry.Name() == "kustomization.yaml" ||
				strings.HasSuffix(path, "-patch.yaml") || strings.Contains(path, "/testdata/") {
				return err
			}
			relative := strings.TrimPrefix(path, e2etest.Repository(t)+"/")
			if relative == "examples/gatewayapi/gateway/gateway.yaml" {
				return nil // in Contour's namespace: the tests in e2e/contour apply it
			}
			content, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(content), "\ntemplate: *unfilled-template--") {
				return err // TestReleaseManifests checks the manifests made from templates
			}
			t.Run(relative, func(t *testing.T) {
				dryRun(t, n.With(t), string(content))
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
