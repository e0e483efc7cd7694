package deploy_test

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// workflow has the parts of a file in .github/workflows that matter here.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]job    `json:"jobs"`
}

type job struct {
	Permissions map[string]string `json:"permissions"`
	Needs       any               `json:"needs"`
	Uses        string            `json:"uses"`
	Steps       []workflowStep    `json:"steps"`
}

type workflowStep struct {
	If   string         `json:"if"`
	Uses string         `json:"uses"`
	Run  string         `json:"run"`
	With map[string]any `json:"with"`
}

// workflows returns the workflows by the name of their file.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	read := map[string]workflow{}
	for _, path := range yamlFiles(t, "../.github/workflows") {
		var w workflow
		readLoosely(t, path, &w)
		read[filepath.Base(path)] = w
	}
	return read
}

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

// Each job has the rights that it names and no others, nothing but the job that
// publishes may write, and no checkout leaves its credentials to later steps.
func TestWorkflowRights(t *testing.T) {
	publishing := map[string]string{"contents": "write", "packages": "write", "id-token": "write", "attestations": "write"}
	for file, w := range workflows(t) {
		if w.Permissions == nil || len(w.Permissions) != 0 {
			t.Errorf("%s: its jobs have %v by default, want none: permissions: {}", file, w.Permissions)
		}
		for name, j := range w.Jobs {
			want := map[string]string{"contents": "read"}
			if file == "release.yml" && name == "publish" {
				want = publishing
			}
			equal(t, "permissions of job "+name+" in "+file, want, j.Permissions)
			for _, step := range j.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: job %s: %s keeps credentials: want persist-credentials: false", file, name, step.Uses)
				}
			}
		}
	}
	if text := readText(t, "../.github/workflows/ci.yml"); strings.Contains(text, "secrets.") {
		t.Error("ci.yml, which runs the code of pull requests, reads secrets")
	}
}

// A release is published after all of ci has passed, the end-to-end tests included,
// by a job that runs no test and nothing from a cache. It is a draft until the
// attestations and the manifests are there.
func TestReleaseIsTestedAndCompleteBeforeItIsPublished(t *testing.T) {
	all := workflows(t)
	publish := all["release.yml"].Jobs["publish"]
	equal[any](t, "what publish waits for", "ci", publish.Needs)
	equal(t, "job ci of release.yml", "./.github/workflows/ci.yml", all["release.yml"].Jobs["ci"].Uses)
	tests := slices.ContainsFunc(all["ci.yml"].Jobs["test"].Steps, func(step workflowStep) bool { return step.Run == "bash .ci/run" })
	if !tests {
		t.Error("ci does not run .ci/run")
	}
	_, parts, _ := strings.Cut(readText(t, "../Makefile"), "\ntest: ")
	parts, _, _ = strings.Cut(parts, " ##")
	equal(t, "what make test is made of", "test-unit e2e e2e-contour e2e-keda e2e-agent", parts)
	for _, part := range append(strings.Fields(parts), "lint", "race") {
		if !regexp.MustCompile(`(?m)^ *step '[^']+' (?:env GOGC=400 )?make ` + part + `$`).MatchString(readText(t, "../.ci/run")) {
			t.Errorf(".ci/run has no step of its own for make %s", part)
		}
	}

	var config struct {
		Release struct {
			Draft bool `json:"draft"`
		} `json:"release"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	if !config.Release.Draft {
		t.Error("GoReleaser publishes the release before its manifests are there")
	}
	var order []string
	for _, step := range publish.Steps {
		switch {
		case strings.HasPrefix(step.Uses, "actions/cache@"), strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["cache"] != false:
			t.Errorf("publish takes what it builds from a cache: %s", step.Uses)
		case strings.HasPrefix(step.Uses, "actions/attest-build-provenance@"):
			for _, subject := range []string{"subject-checksums", "subject-path"} {
				if value, found := step.With[subject].(string); found {
					order = append(order, "attest "+value)
				}
			}
		}
		for line := range strings.Lines(step.Run) {
			line = strings.TrimSpace(line)
			if strings.Contains(line, "test") || strings.Contains(line, "lint") {
				t.Errorf("publish runs tests, with the right to write: %s", line)
			}
			order = append(order, line)
		}
	}
	equal(t, "order", []string{
		"make release",
		`make release-manifests VERSION="$TAG" DIGESTS=dist/digests.txt MANIFESTS=dist/manifests`,
		"attest dist/checksums.txt", "attest dist/digests.txt", "attest dist/manifests/*",
		`gh release upload "$TAG" dist/manifests/*`,
		`gh release edit "$TAG" --draft=false`,
	}, order)
}

// The files that failed end-to-end tests leave are uploaded, from where the tests keep
// them.
func TestFailedRunIsUploaded(t *testing.T) {
	steps := workflows(t)["ci.yml"].Jobs["test"].Steps
	runs := slices.IndexFunc(steps, func(step workflowStep) bool { return step.Run == "bash .ci/run" })
	upload := slices.IndexFunc(steps, func(step workflowStep) bool { return strings.HasPrefix(step.Uses, "actions/upload-artifact@") })
	if runs < 0 || upload < runs {
		t.Fatalf("step %d runs the tests and step %d uploads what they leave: want both, in this order", runs, upload)
	}
	equal(t, "when it is uploaded", "failure() || cancelled()", steps[upload].If)
	path, _ := steps[upload].With["path"].(string)
	if dir, base := filepath.Split(path); path == "" || !strings.Contains(readText(t, "../sandbox/internal/artifacts/artifacts.go"), `"`+filepath.Clean(dir)+`", "`+base+`"`) {
		t.Errorf("%q is uploaded, which is not where package artifacts keeps it", path)
	}
	if !strings.Contains(readText(t, "../.gitignore"), "\n/"+path+"/\n") {
		t.Errorf("%s is not ignored by git", path)
	}
}

// Images are built on bases that are pinned by digest, the same in each Dockerfile, and
// the images of BuildKit and of the SBOM scanner are pinned, too.
func TestBaseImagesArePinnedByDigest(t *testing.T) {
	from := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)(?: AS (\S+))?$`)
	pin := regexp.MustCompile(`^(\S+:\S+)@sha256:[0-9a-f]{64}$`)
	bases := map[string]string{}
	for _, path := range dockerfiles(t) {
		text := readText(t, path)
		found := from.FindAllStringSubmatch(text, -1)
		if len(found) == 0 || len(found) != strings.Count(text, "\nFROM ")+strings.Count(text[:5], "FROM ") {
			t.Errorf("%s: %d lines FROM can be read", path, len(found))
		}
		if strings.Contains(text, "# syntax=") {
			t.Errorf("%s takes the image of a Dockerfile frontend by tag", path)
		}
		for _, match := range found {
			parts := pin.FindStringSubmatch(match[1])
			if parts == nil {
				t.Errorf("%s: FROM %s: want a tag and a digest, as in name:tag@sha256:<64 digits>", path, match[1])
				continue
			}
			if before, known := bases[parts[1]]; known && before != match[1] {
				t.Errorf("two digests of one base: %s and %s", before, match[1])
			}
			bases[parts[1]] = match[1]
		}
	}
	if len(bases) != 3 {
		t.Errorf("bases: %v, want Go's, busybox and distroless", bases)
	}
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}\b`)
	for _, step := range workflows(t)["release.yml"].Jobs["publish"].Steps {
		if strings.HasPrefix(step.Uses, "docker/setup-buildx-action@") {
			if image, _ := step.With["driver-opts"].(string); !digest.MatchString(image) {
				t.Errorf("BuildKit's image is not pinned: driver-opts %q", image)
			}
		}
	}
	var config struct {
		Images []struct {
			ID    string   `json:"id"`
			SBOM  any      `json:"sbom"`
			Flags []string `json:"flags"`
		} `json:"dockers_v2"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	for _, image := range config.Images {
		if image.SBOM != false || len(image.Flags) != 1 || !digest.MatchString(image.Flags[0]) {
			t.Errorf("the SBOM scanner of image %s is not pinned: sbom %v, flags %q", image.ID, image.SBOM, image.Flags)
		}
	}
}

// dockerfiles lists the Dockerfiles of the repository.
func dockerfiles(t *testing.T) []string {
	t.Helper()
	inHack, err := filepath.Glob("../hack/*Dockerfile")
	if err != nil || len(inHack) != 3 {
		t.Fatalf("Dockerfiles in hack: %v (%v)", inHack, err)
	}
	return append(inHack, "../Dockerfile")
}

func matches(t *testing.T, pattern, name string) bool {
	t.Helper()
	ok, err := path.Match(pattern, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
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
	var got []string
	for _, update := range config.Updates {
		for _, dir := range append(update.Directories, update.Directory) {
			if dir != "" {
				got = append(got, update.Ecosystem+" "+dir)
			}
		}
	}
	want := []string{"github-actions /"}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "dist") {
			return fs.SkipDir
		}
		dir := "/" + strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".."), "/")
		switch {
		case entry.Name() == "go.mod":
			want = append(want, "gomod "+dir)
		case strings.HasSuffix(entry.Name(), "Dockerfile"):
			want = append(want, "docker "+dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A directory in dependabot.yml may be a pattern: a new add-on has a go.mod of its own.
	for _, pin := range want {
		if !slices.ContainsFunc(got, func(pattern string) bool { return matches(t, pattern, pin) }) {
			t.Errorf("Dependabot does not look at %s", pin)
		}
	}
	for _, pattern := range got {
		if !slices.ContainsFunc(want, func(pin string) bool { return matches(t, pattern, pin) }) {
			t.Errorf("Dependabot looks at %s, where nothing is pinned", pattern)
		}
	}
}
