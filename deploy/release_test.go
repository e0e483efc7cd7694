package deploy_test

import (
	"go/version"
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

// make build, a release and the images build each program with the same flags, but for
// where the version comes from.
func TestOneSetOfBuildFlags(t *testing.T) {
	makefile := readText(t, "../Makefile")
	shared := regexp.MustCompile(`(?m)^BUILDFLAGS = (.*) -ldflags '([^']*)'$`).FindStringSubmatch(makefile)
	plugin := regexp.MustCompile(`(?m)^PLUGINFLAGS = (.*) \$\(BUILDFLAGS\)$`).FindStringSubmatch(makefile)
	if shared == nil || plugin == nil {
		t.Fatal("the Makefile has no BUILDFLAGS, or no PLUGINFLAGS")
	}
	programs := map[string]string{
		"rollouts-plugin-kedify":     plugin[1] + " " + shared[1],
		"rollouts-plugin-gatewayapi": plugin[1] + " " + shared[1],
		"rollouts-plugin-step":       plugin[1] + " " + shared[1],
		"interceptor":                shared[1],
		"scaler":                     shared[1],
		"agent":                      shared[1],
		"kubectl-canary":             plugin[1] + " " + shared[1],
	}
	withoutImage := []string{"rollouts-plugin-gatewayapi", "kubectl-canary"}

	var config struct {
		Builds []struct {
			ID      string   `json:"id"`
			Flags   []string `json:"flags"`
			Tags    []string `json:"tags"`
			LDFlags []string `json:"ldflags"`
		} `json:"builds"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
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

		if slices.Contains(withoutImage, release.ID) {
			continue
		}
		image := strings.NewReplacer("$(VERSION)", "$VERSION", "$(COMMIT)", "$COMMIT").Replace(
			"go build " + flags + ` -ldflags "` + shared[2] + `"` + " \\\n      -o /" + release.ID)
		if !strings.Contains(readText(t, "../Dockerfile"), image+" ") {
			t.Errorf("the Dockerfile does not say %s", image)
		}
	}
}

// The images of a release are those that the Dockerfile builds: on the same base, with
// the programs at the same places, its user and its entrypoint.
func TestReleasedImagesAreThoseOfTheDockerfile(t *testing.T) {
	var config struct {
		Images []struct {
			IDs        []string `json:"ids"`
			Images     []string `json:"images"`
			Platforms  []string `json:"platforms"`
			Dockerfile string   `json:"dockerfile"`
		} `json:"dockers_v2"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	comment := regexp.MustCompile(`(?m)^#.*\n`)
	stages := map[string]string{}
	for _, stage := range strings.Split(comment.ReplaceAllString(readText(t, "../Dockerfile"), ""), "\nFROM ") {
		base, rest, _ := strings.Cut(stage, "\n")
		base, name, _ := strings.Cut(base, " AS ")
		stages[name] = "FROM " + base + "\n" + strings.TrimSpace(rest)
	}
	targets := map[string]string{"rollouts-plugin-kedify": "plugin", "rollouts-plugin-step": "step", "interceptor scaler agent": "interceptor"}
	makefile := readText(t, "../Makefile")
	for _, image := range config.Images {
		program := strings.Join(image.IDs, " ")
		got := comment.ReplaceAllString(readText(t, "../"+image.Dockerfile), "")
		got = strings.Replace(got, "ARG TARGETPLATFORM\n", "", 1)
		got = strings.ReplaceAll(got, "COPY $TARGETPLATFORM/", "COPY --from=build /")
		equal(t, "released image of "+program, stages[targets[program]], strings.TrimSpace(got))
		equal(t, "platforms of "+program, []string{"linux/amd64", "linux/arm64"}, image.Platforms)
		if !strings.Contains(makefile, "_IMG ?= "+image.Images[0]+":dev\n") && !strings.Contains(makefile, "\nIMG    ?= "+image.Images[0]+":dev\n") {
			t.Errorf("make docker-build does not make %s", image.Images[0])
		}
		delete(targets, program)
	}
	if len(targets) > 0 {
		t.Errorf("a release has no image of %v", targets)
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

// The Gateway API plugin has the names of the assets of argoproj-labs/gatewayAPI, so that
// its users change the release in the URL alone.
func TestGatewayAPIAssetsAreNamedAsItsUsersHaveThem(t *testing.T) {
	got := slices.DeleteFunc(releasedBinaries(t), func(name string) bool { return !strings.HasPrefix(name, "gatewayapi-plugin-") })
	equal(t, "assets", []string{
		"gatewayapi-plugin-darwin-amd64", "gatewayapi-plugin-darwin-arm64", "gatewayapi-plugin-linux-amd64",
		"gatewayapi-plugin-linux-arm64", "gatewayapi-plugin-windows-amd64.exe", "gatewayapi-plugin-windows-arm64.exe",
	}, got)
}

// make release-binaries makes the binaries of a release, and their checksums.
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
	if output, err := exec.CommandContext(t.Context(), "make", "-C", dir, "-f", makefile, "release-binaries", "GO="+compiler).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var made []string
	for line := range strings.Lines(readText(t, filepath.Join(dir, "dist", "checksums.txt"))) {
		name := strings.Fields(line)[1]
		if strings.HasSuffix(name, ".tar.gz") {
			continue // TestReleaseHasKrewsArchives
		}
		made = append(made, name)
		system, arch, _ := strings.Cut(strings.TrimSpace(readText(t, filepath.Join(dir, "dist", name))), "/")
		if !strings.Contains(name, "-"+system+"-"+arch) {
			t.Errorf("%s is built for %s/%s", name, system, arch)
		}
	}
	slices.Sort(made)
	equal(t, "binaries", releasedBinaries(t), made)
}

// CI, releases and the image build with the version in .go-version: it has to be new
// enough for every module here, including those of the tools.
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
