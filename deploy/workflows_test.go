package deploy_test

import (
	"path/filepath"
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
	for _, path := range yamlFiles(t, "../.github/workflows") {
		if filepath.Base(path) != "release.yml" && strings.Contains(readText(t, path), "secrets.") {
			t.Errorf("%s, which runs the code of pull requests, reads secrets", path)
		}
	}
}

// A release is published after all of ci has passed, by a job that runs no test and
// nothing of a cache, as it has the right to write.
func TestPublishingTakesNothingUntested(t *testing.T) {
	all := workflows(t)
	publish := all["release.yml"].Jobs["publish"]
	equal[any](t, "what publish waits for", "ci", publish.Needs)
	equal(t, "job ci of release.yml", "./.github/workflows/ci.yml", all["release.yml"].Jobs["ci"].Uses)
	for _, step := range publish.Steps {
		if strings.HasPrefix(step.Uses, "actions/cache@") || strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["cache"] != false {
			t.Errorf("publish takes what it builds from a cache: %s", step.Uses)
		}
		if strings.Contains(step.Run, "test") || strings.Contains(step.Run, "lint") {
			t.Errorf("publish runs tests, with the right to write: %s", step.Run)
		}
	}
}

// A release is a draft until all of it is attested and uploaded: what is public once cannot
// be taken back.
func TestReleaseIsADraftUntilItIsComplete(t *testing.T) {
	var config struct {
		Release struct {
			Draft bool `json:"draft"`
		} `json:"release"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	equal(t, "GoReleaser makes a draft", true, config.Release.Draft)
	const publishes = `gh release edit "$TAG" --draft=false`
	equal(t, "times that the draft is published", 1, strings.Count(readText(t, "../.github/workflows/release.yml"), "--draft=false"))
	steps := workflows(t)["release.yml"].Jobs["publish"].Steps
	if last := strings.TrimSpace(steps[len(steps)-1].Run); !strings.HasSuffix(last, "\n"+publishes) {
		t.Errorf("the last thing that publish does is not %s:\n%s", publishes, last)
	}
}
