package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The template of the registration cannot be applied as it is, alone or beside other
// manifests: kubectl says what to do instead, and fails before it writes anything.
func TestTemplatesAreNotApplied(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	configMaps := n.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace)
	before, err := configMaps.Get(t.Context(), e2etest.ControllerConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	beside := t.TempDir()
	if err := os.CopyFS(filepath.Join(beside, "plugin"), os.DirFS(e2etest.Repository(t, "deploy", "plugin"))); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"kustomization.yaml": "resources: [first.yaml, plugin]\n",
		"first.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, namespace: " + n.Name + "}\n",
	} {
		if err := os.WriteFile(filepath.Join(beside, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-k", e2etest.Repository(t, "deploy", "plugin")},
		{"-k", beside},
		{"-f", e2etest.Repository(t, "deploy", "plugin", "argo-rollouts-config.yaml")},
		{"-k", e2etest.Repository(t, "deploy", "gatewayapi-plugin")},
		{"-f", e2etest.Repository(t, "deploy", "gatewayapi-plugin", "argo-rollouts-config.yaml")},
	} {
		output, err := exec.CommandContext(t.Context(), "kubectl", append([]string{"apply"}, args...)...).CombinedOutput()
		advice := "unfilled-template--apply-install-OS-ARCH-yaml-of-a-release--or-run-make-release-manifests--see-docs-how-to-install-md"
		if strings.Contains(args[1], "gatewayapi-plugin") {
			advice = "unfilled-template--apply-install-gatewayapi-OS-ARCH-yaml-of-a-release--or-run-make-release-manifests--see-docs-how-to-install-md"
		}
		if err == nil || !strings.Contains(string(output), advice) {
			t.Errorf("kubectl apply %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	after, err := configMaps.Get(t.Context(), e2etest.ControllerConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the ConfigMap was written:\n%s", cmp.Diff(before, after))
	}
	if _, err := n.Kube.CoreV1().ConfigMaps(n.Name).Get(t.Context(), "first", metav1.GetOptions{}); err == nil {
		t.Error("what stands before the template was written")
	}
}

// The manifests of a release have the objects of deploy/, and the API server accepts
// each of them.
func TestReleaseManifests(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	made := filepath.Join(t.TempDir(), "manifests")
	sums := filepath.Join(t.TempDir(), "checksums.txt")
	var text strings.Builder
	for _, plugin := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin"} {
		for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
			text.WriteString(strings.Repeat("0123456789abcdef", 4) + "  " + plugin + "-" + platform + "\n")
		}
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"} {
		text.WriteString(strings.Repeat("0123456789abcdef", 4) + "  kubectl-canary-" + platform + ".tar.gz\n")
	}
	if err := os.WriteFile(sums, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "make", "-C", e2etest.Repository(t), "release-manifests",
		"VERSION=v1.2.3", "CHECKSUMS="+sums, "MANIFESTS="+made).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	files, err := filepath.Glob(filepath.Join(made, "*.yaml"))
	permissions, permissionsErr := filepath.Glob(e2etest.Repository(t, "deploy", "rbac-[rs]*", "*.yaml"))
	if err != nil || permissionsErr != nil || len(permissions) == 0 || len(files) != 25+len(permissions) {
		t.Fatalf("%d files (%v): %v", len(files), err, files)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "argo-rollouts-values-") || name == "canary.yaml" {
			continue // for Helm, and for Krew
		}
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "-patch.yaml") {
				e2etest.Shell(t, "kubectl -n argo-rollouts patch deploy argo-rollouts --dry-run=server --patch-file "+file)
				return
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dryRun(t, n.With(t), string(content))
			dir, ofKustomization := map[string]string{"crds.yaml": "crds", "interceptor.yaml": "interceptor", "kedify-proxy.yaml": "kedify-proxy", "scaler.yaml": "scaler", "agent.yaml": "agent", "agent-uninstall.yaml": "agent-uninstall", "all.yaml": "all"}[name]
			if !ofKustomization {
				return
			}
			built, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", e2etest.Repository(t, "deploy", dir)).Output()
			if err != nil {
				t.Fatal(err)
			}
			const image = "ghcr.io/kedify/argo-rollouts-interceptor:"
			want, err := e2etest.Decode(strings.ReplaceAll(string(built), image+"dev", image+"v1.2.3"))
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range want {
				// Which kubectl's kustomize does not know as kinds without a namespace.
				if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
					object.SetNamespace("")
				}
			}
			got, err := e2etest.Decode(string(content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(objectsByName(want), objectsByName(got)); diff != "" {
				t.Errorf("(-kubectl kustomize deploy/%s +%s):\n%s", dir, name, diff)
			}
		})
	}
}

// objectsByName indexes objects by kind and name, to compare them in any order.
func objectsByName(objects []*unstructured.Unstructured) map[string]any {
	byName := map[string]any{}
	for _, object := range objects {
		byName[object.GetKind()+" "+object.GetName()] = object.Object
	}
	return byName
}
