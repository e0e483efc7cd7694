package deploy_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

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

// For each plugin and platform a release has one file that registers that platform's
// program, and values for Helm that do the same, with the permission.
func TestReleaseManifestsInstallThePlugins(t *testing.T) {
	dir := madeRelease(t)
	for number, plugin := range plugins {
		var role rbacv1.ClusterRole
		read(t, plugin.rbac+"/clusterrole.yaml", &role)
		for i, platform := range platforms {
			want := []types.PluginItem{{
				Name: plugin.name, Location: releaseURL + "/" + plugin.asset + "-" + platform, Sha256: sumOf(number, i),
			}}
			install := documents(t, filepath.Join(dir, "install-"+plugin.infix+platform+".yaml"))
			var configMap corev1.ConfigMap
			readAny(t, install[len(install)-1], &configMap)
			var registered []types.PluginItem
			readAny(t, []byte(configMap.Data["trafficRouterPlugins"]), &registered)
			equal(t, "registration of "+plugin.program+" for "+platform, want, registered)

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
			equal(t, "plugins of the Helm values", want, values.Controller.TrafficRouterPlugins)
		}
	}
}

// texts are documents without the lines around them.
func texts(documents [][]byte) []string {
	var all []string
	for _, document := range documents {
		all = append(all, strings.TrimSpace(string(document)))
	}
	return all
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
	for dir, pins := range map[string]map[string]string{madeRelease(t): nil, byDigest: digestOf} {
		for file, image := range imagesIn {
			want := image + ":v1.2.3"
			if digest := pins[image]; digest != "" {
				want += "@sha256:" + digest
			}
			text := readText(t, filepath.Join(dir, file))
			equal(t, "images in "+file, []string{want}, slices.Compact(regexp.MustCompile(regexp.QuoteMeta(image)+`:\S+`).FindAllString(text, -1)))
			if strings.Contains(text, "\nkind: CustomResourceDefinition\n") {
				t.Errorf("%s holds a CustomResourceDefinition", file)
			}
		}
		equal(t, "CustomResourceDefinition", texts(documents(t, "crds/http.keda.sh_httpscaledobjects.yaml")), texts(documents(t, filepath.Join(dir, "crds.yaml"))))
	}
}

// The permissions of steps and of regions, and the schemas for editors, are in a release as
// they are here.
func TestReleaseHasFilesAsTheyAre(t *testing.T) {
	released := madeRelease(t)
	found := 0
	for _, pattern := range []string{"rbac-step/*.yaml", "rbac-regions/*.yaml", "schema/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found++
			name := strings.TrimPrefix(strings.ReplaceAll(file, "/", "-"), "schema-")
			if !strings.HasSuffix(readText(t, filepath.Join(released, name)), readText(t, file)) {
				t.Errorf("a release does not have %s as it is", file)
			}
		}
	}
	if found < 9 {
		t.Errorf("%d files found", found)
	}
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
		"no platform":        {"PLATFORMS=linux/amd64 linux/386", []string{"PLATFORMS has 'linux/386'", "expected some of linux/amd64 linux/arm64"}},
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

// Who has built some platforms gets their manifests, and none for Krew, whose manifest is of
// all platforms.
func TestReleaseManifestsOfOnePlatform(t *testing.T) {
	const platform = "linux-amd64"
	sums := filepath.Join(t.TempDir(), "checksums.txt")
	var built strings.Builder
	for line := range strings.Lines(checksums()) {
		if strings.HasSuffix(line, "-"+platform+"\n") {
			built.WriteString(line)
		}
	}
	if err := os.WriteFile(sums, []byte(built.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "manifests")
	if output, err := makeManifests(t, "MANIFESTS="+dir, "CHECKSUMS="+sums, "PLATFORMS=linux/amd64"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	list := func(dir string, drop func(string) bool) []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			if !drop(entry.Name()) {
				names = append(names, entry.Name())
			}
		}
		return names
	}
	want := list(madeRelease(t), func(name string) bool {
		return name == "canary.yaml" || strings.Contains(name, "-darwin-") || strings.Contains(name, "-linux-arm64")
	})
	equal(t, "manifests", want, list(dir, func(string) bool { return false }))
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
			output, err := exec.CommandContext(t.Context(), filepath.Join(tree, "hack", "release", "manifests.sh"), "v1.2.3", sums, releaseURL, "", made).CombinedOutput()
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
