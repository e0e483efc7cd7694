package deploy_test

import (
	"go/version"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"
)

// make build, a release and the images are one build of each program: the same
// flags, but for where the version comes from.
func TestOneSetOfBuildFlags(t *testing.T) {
	makefile := readText(t, "../Makefile")
	shared := regexp.MustCompile(`(?m)^BUILDFLAGS = (.*) -ldflags '([^']*)'$`).FindStringSubmatch(makefile)
	plugin := regexp.MustCompile(`(?m)^PLUGINFLAGS = (.*) \$\(BUILDFLAGS\)$`).FindStringSubmatch(makefile)
	if shared == nil || plugin == nil {
		t.Fatal("the Makefile has no BUILDFLAGS, or no PLUGINFLAGS")
	}
	programs := map[string]string{
		"rollouts-plugin-kedify": plugin[1] + " " + shared[1],
		"interceptor":            shared[1],
		"kubectl-canary":         plugin[1] + " " + shared[1],
	}

	var config struct {
		Builds []struct {
			ID      string   `json:"id"`
			Flags   []string `json:"flags"`
			Tags    []string `json:"tags"`
			LDFlags []string `json:"ldflags"`
		} `json:"builds"`
	}
	if err := yaml.Unmarshal([]byte(readText(t, "../.goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Builds) != len(programs) {
		t.Fatalf("%d builds in .goreleaser.yaml, want %d", len(config.Builds), len(programs))
	}
	for _, release := range config.Builds {
		flags, known := programs[release.ID]
		if !known {
			t.Errorf(".goreleaser.yaml builds %s, which is not known here", release.ID)
			continue
		}
		// The Makefile has -buildvcs=false in GOFLAGS.
		got := append([]string{"-tags", strings.Join(release.Tags, ",")}, release.Flags...)
		want := append([]string{"-buildvcs=false"}, strings.Fields(flags)...)
		slices.Sort(got)
		slices.Sort(want)
		equal(t, "flags of a release of "+release.ID, want, got)
		ldflags := strings.NewReplacer("$(VERSION)", "v{{ .Version }}", "$(COMMIT)", "{{ .FullCommit }}").Replace(shared[2])
		equal(t, "ldflags of a release of "+release.ID, []string{ldflags}, release.LDFlags)

		if release.ID == "kubectl-canary" {
			continue // runs on people's machines, from no image
		}
		image := strings.NewReplacer("$(VERSION)", "$VERSION", "$(COMMIT)", "$COMMIT").Replace(
			"go build " + flags + ` -ldflags "` + shared[2] + `"` + " \\\n      -o /" + release.ID)
		if !strings.Contains(readText(t, "../Dockerfile"), image+" ") {
			t.Errorf("the Dockerfile does not say %s", image)
		}
	}
}

// The notes of a release, rendered as GoReleaser does it (text/template with
// its functions split and contains), hold an entry for each binary that can be
// pasted as it is.
func TestReleaseNotesHoldAnEntryForEachPlatform(t *testing.T) {
	var config struct {
		Release struct {
			Footer string `json:"footer"`
		} `json:"release"`
	}
	if err := yaml.Unmarshal([]byte(readText(t, "../.goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	notes, err := template.New("footer").
		Funcs(template.FuncMap{"split": strings.Split, "contains": strings.Contains}).
		Parse(config.Release.Footer)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	want := []types.PluginItem{}
	var checksums strings.Builder
	for i, platform := range []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"} {
		asset, digit := "rollouts-plugin-kedify-"+platform, string(rune('a'+i))
		checksums.WriteString(sum(digit) + "  " + asset + "\n")
		checksums.WriteString(sum("0") + "  " + asset + ".sbom.json\n")
		checksums.WriteString(sum("1") + "  interceptor-" + platform + "\n") // no plugin
		want = append(want, types.PluginItem{
			Name:     "kedify/http",
			Location: "https://github.com/kedify/argo-rollouts-plugin/releases/download/v1.2.3/" + asset,
			Sha256:   sum(digit),
		})
	}
	var text strings.Builder
	if err := notes.Execute(&text, map[string]any{"Tag": "v1.2.3", "Checksums": checksums.String()}); err != nil {
		t.Fatal(err)
	}

	got := []types.PluginItem{}
	for _, fence := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text.String(), -1) {
		var entries []types.PluginItem
		if err := yaml.UnmarshalStrict([]byte(fence[1]), &entries); err != nil {
			t.Fatalf("%v in:\n%s", err, fence[1])
		}
		got = append(got, entries...)
	}
	equal(t, "entries", want, got)
}

// .go-version is what CI, releases and the image build with: it has to do for
// every module here, the tools' included.
func TestOneGoVersion(t *testing.T) {
	pinned := strings.TrimSpace(readText(t, "../.go-version"))
	modules, err := filepath.Glob("../tools/*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no modules of tools: %v", err)
	}
	directive := regexp.MustCompile(`(?m)^go (\S+)$`)
	for _, module := range append(modules, "../go.mod", "../sandbox/go.mod") {
		match := directive.FindStringSubmatch(readText(t, module))
		if match == nil || version.Compare("go"+match[1], "go"+pinned) > 0 {
			t.Errorf("%s: %q, but .go-version says %s", module, match, pinned)
		}
	}
	if !strings.Contains(readText(t, "../Dockerfile"), "golang:"+pinned+"-") {
		t.Errorf("the Dockerfile does not build with Go %s", pinned)
	}
}
