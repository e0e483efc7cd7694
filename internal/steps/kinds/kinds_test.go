package kinds

import (
	"errors"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func noPreset(string) (*steps.Preset, error) { return &steps.Preset{}, nil }

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
		if _, err := (steps.Reader{Kind: kind}).ReadConfig(&v1alpha1.Rollout{}, []byte(`{"noKindHasThis": 1}`), noPreset); err == nil {
			t.Errorf("the kind %s takes a key that it cannot have", name)
		}
	}
	if kind := Named(All(Options{}), "none"); kind != nil {
		t.Errorf("there is a kind %q", kind.Name())
	}
}

// Locks name keys that steps of a kind have: one with a typo would lock nothing.
func TestLocks(t *testing.T) {
	reader := steps.Reader{Kinds: All(Options{})}
	for lock, known := range map[string]bool{
		"http.request.url": true, "http.request.headers.Authorization": true, "http.request.headers.Authorization.valueFrom": true,
		"http.request.json.inputs.version": true, "http.server.auth": true, "http.server.clientCertificateFrom": true, "http.poll.successCondition": true,
		"http.onAbort.form.a": true, "http.outputs.id": true, "http.poll.accept": true,
		"job.template.spec.hostNetwork": true, "job.template.spec.containers": true, "job.from": true, "job.logLines": true, "job.backoffLimit": true,
		"rollouts.min": true, "rollouts.selector.matchLabels.app": true,
		"http.request.ulr": false, "http.request.url.x": false, "http.polling": false, "job.template.spec.hostNetwerk": false, "rollouts.minn": false,
	} {
		if err := reader.Check(&steps.Preset{Locked: []string{lock}}); (err == nil) != known {
			t.Errorf("%s: %v", lock, err)
		}
	}
}
