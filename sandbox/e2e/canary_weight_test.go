package e2e

import (
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// equal returns an error unless a value is as wanted.
func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// canaryWeight returns the canary's weight in a split of an App; 0 without a split.
func canaryWeight(t *testing.T, app e2etest.App, split e2etest.Split) int {
	t.Helper()
	if split == e2etest.NoSplit {
		return 0
	}
	var backends []e2etest.Weight
	if err := yaml.UnmarshalStrict([]byte(split.Text), &backends); err != nil || len(backends) != 2 {
		t.Fatalf("split %s: %v", split, err)
	}
	weight := backends[1].Weight
	if want := app.Split(weight); split != want {
		t.Fatalf("split is %s, want %s", split, want)
	}
	return weight
}
