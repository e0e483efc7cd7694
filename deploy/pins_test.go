package deploy_test

import (
	"go/version"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every action is pinned by its commit, with the version beside it, and the same one
// in all workflows: the owner of a tag can move it to another commit.
func TestActionsArePinnedByCommit(t *testing.T) {
	uses := regexp.MustCompile(`(?m)uses: (.*)$`)
	pin := regexp.MustCompile(`^([\w-]+/[\w-]+)((?:/[\w-]+)*)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$`)
	pins := map[string]string{}
	for _, path := range yamlFiles(t, "../.github/workflows") {
		for _, match := range uses.FindAllStringSubmatch(readText(t, path), -1) {
			if strings.HasPrefix(match[1], "./") {
				continue
			}
			parts := pin.FindStringSubmatch(match[1])
			if parts == nil {
				t.Errorf("%s: uses: %s: want a commit of 40 digits and its version, as in name@<commit> # v1.2.3", path, match[1])
				continue
			}
			if before, known := pins[parts[1]]; known && before != parts[3] {
				t.Errorf("%s is pinned to %s and to %s", parts[1], before, parts[3])
			}
			pins[parts[1]] = parts[3]
		}
	}
	if len(pins) < 5 {
		t.Errorf("%d actions found: %v", len(pins), pins)
	}
}

// Images are built on bases that are pinned by digest, the same in each Dockerfile, and
// the images of BuildKit and of the SBOM scanner are pinned, too.
func TestBaseImagesArePinnedByDigest(t *testing.T) {
	pin := regexp.MustCompile(`^(\S+:\S+)@sha256:[0-9a-f]{64}$`)
	pins := map[string]string{}
	for file, images := range map[string]struct {
		named string
		count int
	}{
		"../Dockerfile":                          {`(?m)^FROM (?:--platform=\S+ )?(\S+)`, 4},
		"../hack/release/plugin.Dockerfile":      {`(?m)^FROM (\S+)`, 1},
		"../hack/release/step.Dockerfile":        {`(?m)^FROM (\S+)`, 1},
		"../hack/release/interceptor.Dockerfile": {`(?m)^FROM (\S+)`, 1},
		"../.github/workflows/release.yml":       {`driver-opts: image=(\S+)`, 1},
		"../.goreleaser.yaml":                    {`,generator=(\S+)`, 1},
	} {
		text := readText(t, file)
		found := regexp.MustCompile(images.named).FindAllStringSubmatch(text, -1)
		if len(found) != images.count || strings.Contains(text, "# syntax=") || strings.Contains(text, "sbom: true") {
			t.Errorf("%s names %d images, want %d, and no Dockerfile frontend or SBOM scanner by tag", file, len(found), images.count)
		}
		for _, match := range found {
			parts := pin.FindStringSubmatch(match[1])
			if parts == nil {
				t.Errorf("%s: %s: want a tag and a digest, as in name:tag@sha256:<64 digits>", file, match[1])
			} else if before, known := pins[parts[1]]; known && before != match[1] {
				t.Errorf("two digests of one image: %s and %s", before, match[1])
			} else {
				pins[parts[1]] = match[1]
			}
		}
	}
}

// Dependabot moves each pin: the actions, and the modules and base images of every
// directory that has any.
func TestDependabotMovesEveryPin(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directory   string   `json:"directory"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	readLoosely(t, "../.github/dependabot.yml", &config)
	var moved []string // may be patterns: a new add-on has a go.mod of its own
	for _, update := range config.Updates {
		for _, dir := range append(update.Directories, update.Directory) {
			if dir != "" {
				moved = append(moved, update.Ecosystem+" "+dir)
			}
		}
	}
	used := map[string]bool{}
	require := func(pin string) {
		i := slices.IndexFunc(moved, func(pattern string) bool {
			matches, err := path.Match(pattern, pin)
			return err == nil && matches
		})
		if i < 0 {
			t.Errorf("Dependabot does not look at %s", pin)
			return
		}
		used[moved[i]] = true
	}
	require("github-actions /")
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		dir := path.Join("/", strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), ".."))
		if entry.Name() == "go.mod" {
			require("gomod " + dir)
		} else if strings.HasSuffix(entry.Name(), "Dockerfile") {
			require("docker " + dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range moved {
		if !used[pattern] {
			t.Errorf("Dependabot looks at %s, where nothing is pinned", pattern)
		}
	}
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
