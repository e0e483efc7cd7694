package kinds

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// Each kind has a name of its own, does not connect before the first step, and refuses a
// key that it does not have.
func TestKinds(t *testing.T) {
	connect := func() (*rest.Config, error) {
		t.Error("a kind connects before the first step")
		return nil, errors.New("not now")
	}
	names := Names(All(Options{})) // a caller that needs only names has no options to give
	if sorted := slices.Compact(slices.Sorted(slices.Values(names))); len(sorted) != len(names) || len(names) == 0 {
		t.Errorf("names %q", names)
	}
	for _, name := range names {
		kind := Named(All(Options{Connect: connect, Logger: hclog.NewNullLogger()}), name)
		if _, err := steps.ReadConfig(kind, &steps.Preset{}, []byte(`{"noKindHasThis": 1}`)); err == nil {
			t.Errorf("the kind %s takes a key that it cannot have", name)
		}
	}
	if kind := Named(All(Options{}), "none"); kind != nil {
		t.Errorf("there is a kind %q", kind.Name())
	}
}
