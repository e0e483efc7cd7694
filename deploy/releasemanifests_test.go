package deploy_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// templates are the files in which `make release-manifests` fills in the location and the
// SHA-256 of a plugin or of kubectl-canary, with the kind of files that it makes of them.
var templates = map[string]string{
	"plugin/argo-rollouts-config.yaml":            "install-OS-ARCH-yaml",
	"helm/argo-rollouts-values.yaml":              "argo-rollouts-values-OS-ARCH-yaml",
	"gatewayapi-plugin/argo-rollouts-config.yaml": "install-gatewayapi-OS-ARCH-yaml",
	"helm/argo-rollouts-values-gatewayapi.yaml":   "argo-rollouts-values-gatewayapi-OS-ARCH-yaml",
	"krew/canary.yaml":                            "install-canary-yaml",
}

// plugins are the traffic router plugins that a release has.
var plugins = []struct {
	program, asset, name string
	rbac                 string // the directory of its permission
	infix                string // what the files that install it have in their names
}{
	{"rollouts-plugin-kedify", "rollouts-plugin-kedify", "kedify/http", "rbac", ""},
	{"rollouts-plugin-gatewayapi", "gatewayapi-plugin", "argoproj-labs/gatewayAPI", "gatewayapi", "gatewayapi-"},
}

// platforms are those that a release has manifests for.
var platforms = []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}

const (
	releaseURL       = "https://example.com/v1.2.3"
	interceptorImage = "ghcr.io/kedify/argo-rollouts-interceptor"
	stepImage        = "ghcr.io/kedify/argo-rollouts-step-plugin"
)

// imagesIn are the images of a release that its manifests run, by their file.
var imagesIn = map[string]string{
	"interceptor.yaml": interceptorImage, "kedify-proxy.yaml": interceptorImage, "scaler.yaml": interceptorImage,
	"agent.yaml": interceptorImage, "agent-uninstall.yaml": interceptorImage, "step-init-container-patch.yaml": stepImage,
}

// A template as it is in the tree is no valid YAML, so that kubectl, kustomize and Helm
// stop at once, with an error that says what to do.
func TestTemplatesDoNotReadUnfilled(t *testing.T) {
	for template, file := range templates {
		var content map[string]any
		err := yaml.Unmarshal([]byte(readText(t, template)), &content)
		if err == nil || !strings.Contains(err.Error(), "unfilled-template") || !strings.Contains(err.Error(), "-"+file+"-of-a-release--or-run-make-release-manifests--see-docs-") {
			t.Errorf("%s: %v; want an error that says what it is, and what to do", template, err)
		}
	}
}

// For each plugin and platform a release has one file with the permission of deploy/ and
// the registration of that platform's program, and the same as values for Helm.
func TestReleaseManifestsInstallThePlugins(t *testing.T) {
	dir := madeRelease(t)
	for number, plugin := range plugins {
		var role rbacv1.ClusterRole
		var binding rbacv1.ClusterRoleBinding
		read(t, plugin.rbac+"/clusterrole.yaml", &role)
		read(t, plugin.rbac+"/clusterrolebinding.yaml", &binding)
		for i, platform := range platforms {
			t.Run(plugin.program+"/"+platform, func(t *testing.T) {
				install := filepath.Join(dir, "install-"+plugin.infix+platform+".yaml")
				found := documents(t, install)
				if len(found) != 3 {
					t.Fatalf("%d objects, want 3", len(found))
				}
				var gotRole rbacv1.ClusterRole
				var gotBinding rbacv1.ClusterRoleBinding
				var configMap corev1.ConfigMap
				for i, into := range []any{&gotRole, &gotBinding, &configMap} {
					if err := yaml.UnmarshalStrict(found[i], into); err != nil {
						t.Fatalf("object %d: %v", i+1, err)
					}
				}
				equal(t, "ClusterRole", role, gotRole)
				equal(t, "ClusterRoleBinding", binding, gotBinding)
				equal(t, "ConfigMap", "argo-rollouts/argo-rollouts-config", configMap.Namespace+"/"+configMap.Name)
				// By this label the guides apply and delete the permission alone.
				const label = "app.kubernetes.io/name"
				equal(t, "labels", []string{plugin.program, plugin.program, ""},
					[]string{gotRole.Labels[label], gotBinding.Labels[label], configMap.Labels[label]})
				want := types.PluginItem{
					Name: plugin.name, Location: releaseURL + "/" + plugin.asset + "-" + platform, Sha256: sumOf(number, i),
				}
				equal(t, "registration", want, registered(t, configMap))
				// Each plugin has a field manager, so that one does not replace the other.
				if text := readText(t, install); !strings.Contains(text, "--field-manager="+plugin.program+" -f "+filepath.Base(install)+"\n") {
					t.Errorf("%s does not say how it is applied", install)
				}

				var values struct {
					ProviderRBAC struct {
						AdditionalRules []rbacv1.PolicyRule `json:"additionalRules"`
					} `json:"providerRBAC"`
					Controller struct {
						TrafficRouterPlugins []types.PluginItem `json:"trafficRouterPlugins"`
					} `json:"controller"`
				}
				read(t, filepath.Join(dir, "argo-rollouts-values-"+plugin.infix+platform+".yaml"), &values)
				equal(t, "rules of the Helm values", role.Rules, values.ProviderRBAC.AdditionalRules)
				equal(t, "plugins of the Helm values", []types.PluginItem{want}, values.Controller.TrafficRouterPlugins)
			})
		}
	}
}

// The manifests of a release run its images, and by their digests where these are known.
// The definition of HTTPScaledObjects is apart: deleting the interceptor must not delete
// every HTTPScaledObject.
func TestReleaseManifestsPinImages(t *testing.T) {
	digests := filepath.Join(t.TempDir(), "digests.txt")
	digestOf := map[string]string{interceptorImage: strings.Repeat("1", 64), stepImage: strings.Repeat("2", 64)}
	list := sumOf(0, 0) + "  ghcr.io/kedify/argo-rollouts-plugin:v1.2.3\n"
	for image, digest := range digestOf {
		list += digest + "  " + image + ":v1.2.3\n"
	}
	if err := os.WriteFile(digests, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	byDigest := filepath.Join(t.TempDir(), "new")
	if output, err := makeManifests(t, "DIGESTS="+digests, "MANIFESTS="+byDigest); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, dir := range []string{madeRelease(t), byDigest} {
		for file, image := range imagesIn {
			want := image + ":v1.2.3"
			if dir == byDigest {
				want += "@sha256:" + digestOf[image]
			}
			path := filepath.Join(dir, file)
			var images []string
			for _, document := range documents(t, path) {
				var object struct {
					Kind string `json:"kind"`
					Spec struct {
						Template corev1.PodTemplateSpec `json:"template"`
					} `json:"spec"`
				}
				if err := yaml.Unmarshal(document, &object); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if object.Kind == "CustomResourceDefinition" {
					t.Errorf("%s holds a CustomResourceDefinition", path)
				}
				for _, container := range slices.Concat(object.Spec.Template.Spec.InitContainers, object.Spec.Template.Spec.Containers) {
					if strings.HasPrefix(container.Image, image) {
						images = append(images, container.Image)
					}
				}
			}
			equal(t, "images in "+path, []string{want}, images)
		}
		equal(t, "CustomResourceDefinition", string(bytes.TrimSpace(documents(t, "crds/http.keda.sh_httpscaledobjects.yaml")[0])),
			string(bytes.TrimSpace(documents(t, filepath.Join(dir, "crds.yaml"))[0])))
	}
}

// What a release installs in KEDA's namespace needs no kustomization that sets a namespace:
// each of its objects that has a namespace says that it is keda.
func TestReleasedManifestsSayTheirNamespace(t *testing.T) {
	dir := madeRelease(t)
	ofCluster := regexp.MustCompile("^(ClusterRole|MutatingWebhookConfiguration|ValidatingAdmissionPolicy)(Binding)?$")
	for _, file := range []string{"interceptor.yaml", "scaler.yaml", "agent.yaml", "agent-uninstall.yaml"} {
		for _, document := range documents(t, filepath.Join(dir, file)) {
			var object appsv1.Deployment // any kind has this metadata
			readAny(t, document, &object)
			if want := map[bool]string{false: "keda"}[ofCluster.MatchString(object.Kind)]; object.Namespace != want {
				t.Errorf("%s: %s %s is in namespace %q, want %q", file, object.Kind, object.Name, object.Namespace, want)
			}
		}
	}
}

// all.yaml is what a cluster with KEDA needs.
func TestReleasedManifestOfAll(t *testing.T) {
	dir := madeRelease(t)
	var want []string
	for _, file := range []string{"crds.yaml", "interceptor.yaml", "scaler.yaml", "agent.yaml"} {
		want = append(want, texts(documents(t, filepath.Join(dir, file)))...)
	}
	equal(t, "objects", want, texts(documents(t, filepath.Join(dir, "all.yaml"))))
}

// texts are documents without the lines around them.
func texts(documents [][]byte) []string {
	var all []string
	for _, document := range documents {
		all = append(all, strings.TrimSpace(string(document)))
	}
	return all
}

// readAny reads of a document what the type has.
func readAny(t *testing.T, document []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(document, into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
}

// Input that does not make a release is refused with what was expected, and nothing is
// written, not even the manifests of the platforms before the one that is missing.
func TestReleaseManifestsRefuse(t *testing.T) {
	broken := func(change func(lines []string) []string) string {
		path := filepath.Join(t.TempDir(), "checksums.txt")
		lines := change(slices.Collect(strings.Lines(checksums())))
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	without := func(name string) string {
		return broken(func(lines []string) []string {
			return slices.DeleteFunc(lines, func(line string) bool { return strings.HasSuffix(line, "  "+name+"\n") })
		})
	}
	missing, unarchived := without("rollouts-plugin-kedify-darwin-arm64"), without("kubectl-canary-windows-arm64.tar.gz")
	withoutGateway := without("gatewayapi-plugin-linux-arm64")
	oneImage := broken(func([]string) []string { return []string{sumOf(0, 0) + "  " + interceptorImage + ":v1.2.3\n"} })
	short := broken(func(lines []string) []string { return append([]string{lines[0][1:]}, lines[1:]...) })
	for name, c := range map[string]struct {
		variable string
		says     []string
	}{
		"no version":         {"VERSION=2ffb523-dirty", []string{"VERSION is '2ffb523-dirty'", "expected the tag of a release", "make release-manifests VERSION=v1.2.3"}},
		"no checksums":       {"CHECKSUMS=/absent/checksums.txt", []string{"there is no /absent/checksums.txt", "make release-binaries"}},
		"a platform missing": {"CHECKSUMS=" + missing, []string{missing + " has no SHA-256 of rollouts-plugin-kedify-darwin-arm64", "64 hexadecimal digits"}},
		"an archive missing": {"CHECKSUMS=" + unarchived, []string{unarchived + " has no SHA-256 of kubectl-canary-windows-arm64.tar.gz", "64 hexadecimal digits"}},
		"no other plugin":    {"CHECKSUMS=" + withoutGateway, []string{withoutGateway + " has no SHA-256 of gatewayapi-plugin-linux-arm64"}},
		"a sum too short":    {"CHECKSUMS=" + short, []string{short + " has no SHA-256 of gatewayapi-plugin-linux-amd64"}},
		"no URL":             {"RELEASE_URL=releases/v1.2.3", []string{"RELEASE_URL is 'releases/v1.2.3'", "expected the http:// or https:// URL"}},
		"credentials":        {"RELEASE_URL=https://robot:s3cret@example.com", []string{"RELEASE_URL has credentials in it", "headersFrom"}},
		"digests without the step plugin's image": {"DIGESTS=" + oneImage, []string{oneImage + " has no SHA-256 of " + stepImage + ":v1.2.3"}},
		"digests without an image":                {"DIGESTS=" + missing, []string{missing + " has no SHA-256 of " + interceptorImage + ":v1.2.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "manifests")
			output, err := makeManifests(t, "MANIFESTS="+dir, c.variable)
			if err == nil {
				t.Errorf("no error:\n%s", output)
			}
			for _, part := range c.says {
				if !strings.Contains(output, part) {
					t.Errorf("no %q in:\n%s", part, output)
				}
			}
			if strings.Contains(output, "s3cret") || strings.Contains(output, "robot") {
				t.Errorf("credentials in:\n%s", output)
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
				t.Errorf("written: %v", entries)
			}
		})
	}
}

// A kustomization that does more than the script can do stops the script, rather than
// being left out of the release; so does a template with an unknown placeholder.
func TestReleaseManifestsRefuseWhatTheyCannotMake(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"a patch":       {"deploy/rbac/kustomization.yaml", "patches:\n  - path: more.yaml\n", "deploy/rbac/kustomization.yaml does more than to list files"},
		"another patch": {"deploy/interceptor/kustomization.yaml", "namePrefix: x-\n", "deploy/interceptor/kustomization.yaml does more than to list files"},
		"of Krew":       {"deploy/krew/canary.yaml", "  x: \"@OTHER@\"\n", "deploy/krew/canary.yaml: there is nothing to fill in for @OTHER@"},
		"a placeholder": {"deploy/plugin/argo-rollouts-config.yaml", "      args: [\"@ARGS@\"]\n", "deploy/plugin/argo-rollouts-config.yaml: there is nothing to fill in for @ARGS@"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			for _, dir := range []string{"deploy", "hack"} {
				if err := os.CopyFS(filepath.Join(tree, dir), os.DirFS("../"+dir)); err != nil {
					t.Fatal(err)
				}
			}
			changed, sums, made := filepath.Join(tree, c.file), filepath.Join(tree, "checksums.txt"), filepath.Join(tree, "made")
			for path, text := range map[string]string{changed: readText(t, changed) + c.text, sums: checksums()} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			output, err := exec.CommandContext(t.Context(), filepath.Join(tree, "hack", "release-manifests.sh"), "v1.2.3", sums, releaseURL, "", made).CombinedOutput()
			if err == nil || !strings.Contains(string(output), c.says) {
				t.Errorf("%v; want %q in:\n%s", err, c.says, output)
			}
			if entries, err := os.ReadDir(made); err == nil && len(entries) > 0 {
				t.Errorf("written: %v", entries)
			}
		})
	}
}

// sumOf is the SHA-256 of a plugin for a platform in checksums.
func sumOf(plugin, platform int) string {
	return strings.Repeat("0123456789abcdef"[len(platforms)*plugin+platform:][:1], 64)
}

// checksums is the text of a release's checksums.txt; the first plugin comes last.
func checksums() string {
	var text strings.Builder
	for number, plugin := range slices.Backward(plugins) {
		for i, platform := range platforms {
			_, _ = io.WriteString(&text, sumOf(number, i)+"  "+plugin.asset+"-"+platform+"\n")
		}
	}
	for i, platform := range krewPlatforms {
		_, _ = io.WriteString(&text, archiveSum(i)+"  kubectl-canary-"+platform+".tar.gz\n")
	}
	return text.String()
}

// madeRelease returns a directory with the manifests of the release v1.2.3.
func madeRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if output, err := makeManifests(t, "MANIFESTS="+dir); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return dir
}

// makeManifests runs make release-manifests for v1.2.3; variables change that.
func makeManifests(t *testing.T, variables ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checksums.txt")
	if err := os.WriteFile(path, []byte(checksums()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-C", "..", "release-manifests", "VERSION=v1.2.3", "CHECKSUMS=" + path, "RELEASE_URL=" + releaseURL}, variables...)
	output, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput()
	return string(output), err
}
