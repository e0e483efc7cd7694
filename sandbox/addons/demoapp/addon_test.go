package demoapp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// The image has the tags that are published, and what each of them says; it has no other.
func TestTags(t *testing.T) {
	entries, err := Addon().ImagesFrom(addon.Paths{program: "/programs/rollouts-demo"})
	if err != nil {
		t.Fatal(err)
	}
	var table image.Table
	for _, e := range entries {
		if err := table.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string][]string{
		"argoproj/rollouts-demo:blue":                     {"COLOR=blue"},
		"docker.io/argoproj/rollouts-demo:yellow":         {"COLOR=yellow"},
		"argoproj/rollouts-demo:slow-red":                 {"COLOR=red", "LATENCY=2"},
		"argoproj/rollouts-demo:bad-red":                  {"COLOR=red", "ERROR_RATE=15"},
		"argoproj/rollouts-demo:slow-green@sha256:abcdef": {"COLOR=green", "LATENCY=2"},
	} {
		got, err := table.Resolve(ref)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, got.Env); diff != "" {
			t.Errorf("%s: variables (-want +got):\n%s", ref, diff)
		}
	}
	for _, ref := range []string{
		"argoproj/rollouts-demo:bleu", "argoproj/rollouts-demo", "quay.io/argoproj/rollouts-demo:blue",
		"argoproj/rollouts-demo:slow-bad-red", "registry.example/argoproj/rollouts-demo:latest",
	} {
		_, err := table.Resolve(ref)
		if !image.IsUnknown(err) || !strings.Contains(err.Error(), ref) || !strings.Contains(err.Error(), "argoproj/rollouts-demo:slow-{blue|green") {
			t.Errorf("%s: %v, want an unknown image, and the tags that there are", ref, err)
		}
	}
}
