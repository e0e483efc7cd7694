package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"
)

// The notes of a release, rendered as GoReleaser does it (text/template with
// its functions split and contains), hold an entry for each binary that can be
// pasted as it is.
func TestReleaseNotesHoldAnEntryForEachPlatform(t *testing.T) {
	var config struct {
		Release struct {
			Footer string `json:"footer"`
		} `json:"release"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	notes, err := template.New("footer").
		Funcs(template.FuncMap{"split": strings.Split, "contains": strings.Contains}).
		Parse(config.Release.Footer)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	want := []types.PluginItem{}
	var checksums strings.Builder
	for i, asset := range releasedBinaries(t) {
		checksums.WriteString(sum(string("0123456789abcdef"[i%16])) + "  " + asset + "\n")
		checksums.WriteString(sum("0") + "  " + asset + ".sbom.json\n")
		if strings.HasPrefix(asset, "rollouts-plugin-step-") {
			want = append(want, types.PluginItem{
				Name:     "kedify/step",
				Location: "https://github.com/kedify/argo-rollouts-plugin/releases/download/v1.2.3/" + asset,
				Sha256:   sum(string("0123456789abcdef"[i%16])),
				Args:     []string{"--allow-host=hooks.slack.com"},
			})
		}
		for _, plugin := range plugins {
			if strings.HasPrefix(asset, plugin.asset+"-") {
				want = append(want, types.PluginItem{
					Name:     plugin.name,
					Location: "https://github.com/kedify/argo-rollouts-plugin/releases/download/v1.2.3/" + asset,
					Sha256:   sum(string("0123456789abcdef"[i%16])),
				})
			}
		}
	}
	if len(want) != 14 {
		t.Errorf("a release has %d binaries of plugins, want 14", len(want))
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

// releasedBinaries are the names of the binaries of a release as .goreleaser.yaml has
// them; GoReleaser adds .exe to those for Windows.
func releasedBinaries(t *testing.T) []string {
	t.Helper()
	var config struct {
		Builds []struct {
			Binary string   `json:"binary"`
			GOOS   []string `json:"goos"`
			GOARCH []string `json:"goarch"`
		} `json:"builds"`
		Archives []struct {
			Name string `json:"name_template"`
		} `json:"archives"`
		SBOMs []struct {
			Documents []string `json:"documents"`
		} `json:"sboms"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	equal(t, "names of SBOMs", []string{"{{ .ArtifactName }}.sbom.json"}, config.SBOMs[0].Documents)
	equal(t, "names of binaries", "{{ .Binary }}-{{ .Os }}-{{ .Arch }}", config.Archives[0].Name)
	var names []string
	for _, build := range config.Builds {
		for _, system := range build.GOOS {
			for _, arch := range build.GOARCH {
				names = append(names, build.Binary+"-"+system+"-"+arch+map[string]string{"windows": ".exe"}[system])
			}
		}
	}
	slices.Sort(names)
	return names
}

// make release-binaries makes the binaries of a release, and their checksums; of some
// platforms, if PLATFORMS says so.
func TestReleaseBinariesAreThoseOfARelease(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	compiler := filepath.Join(dir, "go")
	const script = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo "$GOOS/$GOARCH" >"$2"
`
	if err := os.WriteFile(compiler, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("part of archives"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, variables := range [][]string{nil, {"PLATFORMS=linux/amd64 windows/arm64"}} {
		args := append([]string{"-C", dir, "-f", makefile, "release-binaries", "GO=" + compiler}, variables...)
		if output, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		var made []string
		for line := range strings.Lines(readText(t, filepath.Join(dir, "dist", "checksums.txt"))) {
			name := strings.Fields(line)[1]
			if strings.HasSuffix(name, ".tar.gz") {
				continue // for Krew: TestKrewManifest
			}
			made = append(made, name)
			system, arch, _ := strings.Cut(strings.TrimSpace(readText(t, filepath.Join(dir, "dist", name))), "/")
			if !strings.Contains(name, "-"+system+"-"+arch) {
				t.Errorf("%s is built for %s/%s", name, system, arch)
			}
		}
		slices.Sort(made)
		want := releasedBinaries(t)
		if variables != nil {
			want = slices.DeleteFunc(want, func(name string) bool {
				return !strings.Contains(name, "-linux-amd64") && !strings.Contains(name, "-windows-arm64")
			})
		}
		equal(t, "binaries", want, made)
	}
}
