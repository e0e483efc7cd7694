package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// The page lists every sample of steps, with the hosts and the Secrets that its presets
// name, and no others, and with the flag that allows what it creates.
func TestSamplesPageListsEverySample(t *testing.T) {
	files, err := filepath.Glob("../examples/steps/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(docstest.Read(t, "docs/how-to/step-http.md")) {
		if found := regexp.MustCompile(`^\|.*\]\(\.\./(\.\./examples/steps/[a-z-]+\.yaml)\)`).FindStringSubmatch(line); found != nil {
			listed[filepath.FromSlash(found[1])] = line
		}
	}
	if len(listed) != len(files) {
		t.Errorf("%d samples are listed, want %d", len(listed), len(files))
	}
	secret := regexp.MustCompile(`secretKeyRef: \{namespace: argo-rollouts, name: ([a-z-]+),|secret: ([a-z-]+)\}`)
	for _, file := range files {
		columns := strings.Split(strings.Trim(listed[file], "|\n"), "|")
		if len(columns) != 5 {
			t.Errorf("%s is not in the table, or not with 5 columns: %q", file, listed[file])
			continue
		}
		var hosts, secrets []string
		for _, document := range strings.Split(docstest.Read(t, strings.TrimPrefix(filepath.ToSlash(file), "../")), "\n---\n") {
			var object struct {
				Kind string
				Data map[string]string
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Kind != "ConfigMap" {
				continue
			}
			var preset steps.Preset
			text := object.Data[steps.PresetKey]
			if err := yaml.Unmarshal([]byte(text), &preset); err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, preset.Hosts...)
			for _, found := range secret.FindAllStringSubmatch(text, -1) {
				secrets = append(secrets, found[1]+found[2])
			}
			if strings.Contains(text, "\n  resource:") && !strings.Contains(columns[4], "`--allow-resource=") {
				t.Errorf("%s: the flag that allows its resource is not told", file)
			}
		}
		if strings.HasSuffix(file, "wait-for-regions.yaml") {
			hosts = nil // told in words
		}
		for i, want := range [][]string{hosts, secrets} {
			told := docstest.Quoted(columns[2+i])
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), told); diff != "" {
				t.Errorf("%s: %s (-named in the presets +told):\n%s", file, []string{"hosts", "Secrets"}[i], diff)
			}
		}
	}
}
