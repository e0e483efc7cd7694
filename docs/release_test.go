package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
)

// The URL and the hashes of v0.0.1, which is another program, are in the page about moving
// from it, and nowhere else: nothing that users copy installs it.
func TestV001IsPinnedInOnePageAlone(t *testing.T) {
	pin := regexp.MustCompile(`releases/download/v0\.0\.1/|6cd7597788f9cee|8776c96475b699a|82dced37ae4c012|22bf1e7364d97cf`)
	const page = "how-to/migrate-v0.0.1.md"
	if hashes := pin.FindAllString(docstest.Read(t, "docs/"+page), -1); len(hashes) != 5 {
		t.Errorf("%s pins %q, want the URL and four SHA-256", page, hashes)
	}
	for _, root := range []string{"../README.md", ".", "../deploy", "../examples", "../hack", "../.goreleaser.yaml"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") || filepath.ToSlash(path) == page {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if match := pin.Find(text); match != nil {
				t.Errorf("%s pins v0.0.1: %s", path, match)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A page downloads the file of a release before it applies anything.
func TestPagesBeginWithTheFiles(t *testing.T) {
	for page, download := range map[string]string{
		"README.md":                            `curl -fsSLO "$URL/install-$PLATFORM.yaml"`,
		"docs/how-to/install.md":               `curl -fsSLO "$URL/install-$PLATFORM.yaml"`,
		"docs/how-to/migrate-argoproj-labs.md": `curl -fsSLO "$URL/install-gatewayapi-$PLATFORM.yaml"`,
		"docs/how-to/step-admin.md":            `curl -fsSLO "$URL/rbac-step-every-kind.yaml"`,
		"docs/tutorials/gateway.md":            `curl -fsSLO "$URL/install-gatewayapi-$PLATFORM.yaml"`,
		"docs/tutorials/kedify.md":             `curl -fsSLO "$URL/install-$PLATFORM.yaml"`,
		"docs/tutorials/step.md":               `curl -fsSLO "$URL/rbac-step-every-kind.yaml"`,
	} {
		var commands string
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Language == "sh" {
				commands += f.Text
			}
		}
		before, after, found := strings.Cut(commands, download+"\n")
		if !found || !strings.Contains(after, "kubectl ") {
			t.Errorf("%s does not say how to get the files (%s), or does nothing with them", page, download)
		}
		if strings.Contains(before, "kubectl apply") {
			t.Errorf("%s applies before %s:\n%s", page, download, before)
		}
	}
}

// The manifests that the tutorial and the page on analyses show are those of the samples.
func TestPagesShowTheSamples(t *testing.T) {
	for page, want := range map[string]map[string]string{
		"docs/tutorials/kedify.md":  {"Rollout": "canary/rollout.yaml", "ScaledObject": "canary/scaledobject.yaml"},
		"docs/tutorials/gateway.md": {"Rollout": "gatewayapi/canary/rollout.yaml", "HTTPRoute": "gatewayapi/canary/httproute.yaml"},
		"docs/how-to/analysis.md":   {"AnalysisTemplate": "analysis/analysistemplate.yaml"},
	} {
		samples, shown := map[string]any{}, map[string]any{}
		for kind, file := range want {
			samples[kind] = decode(t, docstest.Read(t, "examples/"+file))
		}
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Language != "yaml" || f.Fragment {
				continue
			}
			for _, document := range strings.Split(f.Text, "---\n") {
				object := decode(t, document)
				shown[object["kind"].(string)] = object
			}
		}
		if diff := cmp.Diff(samples, shown); diff != "" {
			t.Errorf("%s (-examples +shown):\n%s", page, diff)
		}
	}
}

// The analysis that the page adds to the Rollout is that of the sample.
func TestPageShowsTheAnalysis(t *testing.T) {
	var patch []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := yaml.Unmarshal([]byte(docstest.Read(t, "examples/analysis/rollout-patch.yaml")), &patch); err != nil {
		t.Fatal(err)
	}
	var want any
	for _, operation := range patch {
		if operation.Path == "/spec/strategy/canary/analysis" {
			want = operation.Value
		}
	}
	shown := decode(t, docstest.Named(t, "docs/how-to/analysis.md", "analysis"))
	if diff := cmp.Diff(map[string]any{"analysis": want}, shown); diff != "" {
		t.Errorf("(-examples/analysis +shown):\n%s", diff)
	}
}
