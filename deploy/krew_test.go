package deploy_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// krewPlatforms are those that a release has kubectl-canary for.
var krewPlatforms = []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"}

// archiveSum is the SHA-256 of a platform's archive of kubectl-canary in checksums.
func archiveSum(platform int) string { return strings.Repeat(string(rune('0'+platform)), 64) }

// krewPlugin is what Krew reads of a manifest; it refuses other fields.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// Krew accepts the manifest of a release: these are the rules that it checks when it
// installs a plugin.
func TestKrewManifest(t *testing.T) {
	path := filepath.Join(madeRelease(t), "canary.yaml")
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict([]byte(readText(t, path)), &plugin); err != nil {
		t.Fatal(err)
	}
	equal(t, "kind", "krew.googlecontainertools.github.com/v1alpha2 Plugin", plugin.APIVersion+" "+plugin.Kind)
	// The name is for kubectl-canary; Krew wants the file to have it.
	equal(t, "name", "canary", plugin.Metadata.Name)
	equal(t, "version", "v1.2.3", plugin.Spec.Version)
	for field, text := range map[string]string{"shortDescription": plugin.Spec.ShortDescription, "description": plugin.Spec.Description} {
		if text == "" || field == "shortDescription" && (len(text) > 50 || strings.HasSuffix(text, ".") || strings.Contains(text, "\n")) {
			t.Errorf("%s is %q: Krew wants one, and of shortDescription a line of 50 characters without a full stop", field, text)
		}
	}
	var found []string
	for i, platform := range plugin.Spec.Platforms {
		labels := platform.Selector.MatchLabels
		if keys := slices.Sorted(maps.Keys(labels)); !slices.Equal(keys, []string{"arch", "os"}) {
			t.Errorf("platform %d is selected by %v: Krew knows os and arch", i, keys)
		}
		name := labels["os"] + "-" + labels["arch"]
		found = append(found, name)
		equal(t, "uri of "+name, releaseURL+"/kubectl-canary-"+name+".tar.gz", platform.URI)
		if j := slices.Index(krewPlatforms, name); j >= 0 {
			equal(t, "sha256 of "+name, archiveSum(j), platform.SHA256)
		}
		if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(platform.SHA256) {
			t.Errorf("sha256 of %s is %q", name, platform.SHA256)
		}
		equal(t, "bin of "+name, map[bool]string{true: "kubectl-canary.exe", false: "kubectl-canary"}[labels["os"] == "windows"], platform.Bin)
	}
	equal(t, "platforms", krewPlatforms, found)
}
