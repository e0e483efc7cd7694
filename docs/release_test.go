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
)

// The URL and the hashes of v0.0.1, which is another program, are in the guide's section
// about moving from it, and nowhere else: nothing that users copy installs it.
func TestV001IsPinnedInOneSectionAlone(t *testing.T) {
	pin := regexp.MustCompile(`releases/download/v0\.0\.1/|6cd7597788f9cee|8776c96475b699a|82dced37ae4c012|22bf1e7364d97cf`)
	const section = "## Moving from v0.0.1, and back\n"
	_, after, found := strings.Cut(readText(t, "guide.md"), section)
	body, _, _ := strings.Cut(after, "\n## ")
	if hashes := pin.FindAllString(body, -1); !found || len(hashes) != 5 {
		t.Errorf("the section %q pins %q, want the URL and four SHA-256", strings.TrimSpace(section), hashes)
	}
	for _, root := range []string{"../README.md", ".", "../deploy", "../examples", "../hack", "../.goreleaser.yaml"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rest := string(text)
			if path == "guide.md" {
				rest = strings.Replace(rest, body, "", 1)
			}
			if match := pin.FindString(rest); match != "" {
				t.Errorf("%s pins v0.0.1: %s", path, match)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// README and guides begin with how to get the files of a release.
func TestPagesBeginWithTheFiles(t *testing.T) {
	for page, download := range map[string]string{
		"../README.md":  `curl -fsSLO "$URL/install-$PLATFORM.yaml"`,
		"guide.md":      `curl -fsSLO "$URL/install-$PLATFORM.yaml"`,
		"gatewayapi.md": `curl -fsSLO "$URL/install-gatewayapi-$PLATFORM.yaml"`,
	} {
		for _, match := range fence.FindAllStringSubmatch(readText(t, page), -1) {
			if strings.Contains(match[2], "kubectl apply") {
				t.Errorf("%s applies before %s:\n%s", page, download, match[2])
			}
			if strings.Contains(match[2], download) {
				break
			}
		}
		if !strings.Contains(readText(t, page), download) {
			t.Errorf("%s does not say how to get the files (%s)", page, download)
		}
	}
}

// The manifests that the guide shows are those of the sample.
func TestGuideShowsTheSample(t *testing.T) {
	shown := map[string]any{}
	for _, match := range fence.FindAllStringSubmatch(readText(t, "guide.md"), -1) {
		if match[1] != "yaml" || !strings.Contains(match[2], "name: rollouts-demo\n") {
			continue
		}
		for _, document := range strings.Split(match[2], "---\n") {
			object := decode(t, document)
			shown[object["kind"].(string)] = object
		}
	}
	want := map[string]any{
		"Rollout":          decode(t, readText(t, "../examples/canary/rollout.yaml")),
		"ScaledObject":     decode(t, readText(t, "../examples/canary/scaledobject.yaml")),
		"AnalysisTemplate": decode(t, readText(t, "../examples/analysis/analysistemplate.yaml")),
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-examples +guide):\n%s", diff)
	}
}

// The analysis that the guide adds to the Rollout is that of the sample.
func TestGuideShowsTheAnalysis(t *testing.T) {
	var patch []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := yaml.Unmarshal([]byte(readText(t, "../examples/analysis/rollout-patch.yaml")), &patch); err != nil {
		t.Fatal(err)
	}
	var want any
	for _, operation := range patch {
		if operation.Path == "/spec/strategy/canary/analysis" {
			want = operation.Value
		}
	}
	for _, match := range fence.FindAllStringSubmatch(readText(t, "guide.md"), -1) {
		if strings.HasPrefix(match[2], "analysis:\n") {
			if diff := cmp.Diff(want, decode(t, match[2])["analysis"]); diff != "" {
				t.Errorf("(-examples/analysis +guide):\n%s", diff)
			}
			return
		}
	}
	t.Error("guide.md does not show spec.strategy.canary.analysis")
}

func decode(t *testing.T, document string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return object
}
