package kinds

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
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
		"job.onAbort.template.spec.containers": true, "job.onAbort.from": true, "resource.manifest.spec.entrypoint": true, "resource.manifest.kind": true, "resource.successCondition": true,
		"job.onAbort.templat": false, "job.onAbort.logLines": false, "resource.manifst": false, "resource.outputs.id": true,
		"rollouts.min": true, "rollouts.selector.matchLabels.app": true,
		"http.request.ulr": false, "http.request.url.x": false, "http.polling": false, "job.template.spec.hostNetwerk": false, "rollouts.minn": false,
	} {
		if err := reader.Check(&steps.Preset{Locked: []string{lock}}); (err == nil) != known {
			t.Errorf("%s: %v", lock, err)
		}
	}
}

// What is shown in place of kinds that there are not can be taken as it is.
func TestWhatToWriteInstead(t *testing.T) {
	all := All(Options{Registration: registration.Registration{AllowHosts: []string{"chat.example.com"}}, Logger: hclog.NewNullLogger()})
	job := Named(all, "job")
	for name, tc := range map[string]struct {
		reader       steps.Reader
		config, want string
	}{
		"the talk's":             {steps.Reader{Kinds: all}, `{"command": "echo \"hello world\""}`, `command: no step runs a program in the controller's pod`},
		"with arguments":         {steps.Reader{Kinds: all}, `{"args": ["a"], "command": ["echo", "hello"], "image": "x"}`, `"command":["echo","hello"]`},
		"a kind":                 {steps.Reader{Kinds: all}, `{"exec": {"command": "echo hello > /tmp/x"}}`, `echo hello > /tmp/x`},
		"below a kind":           {steps.Reader{Kinds: all}, `{"job": {"command": "echo a"}}`, `job.command: no step runs`},
		"of a registration":      {steps.Reader{Kind: job}, `{"command": "echo a"}`, `job.command: no step runs`},
		"no command":             {steps.Reader{Kinds: all}, `{"exec": 7}`, "exec: no step runs"},
		"a command that is long": {steps.Reader{Kinds: all}, `{"exec": "` + strings.Repeat("x", 2000) + `"}`, "echo hello world"},
		"a message":              {steps.Reader{Kinds: all}, `{"notify": {"message": "begun"}}`, `"text":"begun"`},
		"a message of nothing":   {steps.Reader{Kinds: all}, `{"notify": null}`, `notify: a message is a request`},
	} {
		_, err := tc.reader.ReadConfig(&v1alpha1.Rollout{}, []byte(tc.config), noPreset)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
			continue
		}
		_, shown, _ := strings.Cut(err.Error(), ": {")
		shown, _, _ = strings.Cut("{"+shown, "; for email")
		if _, err := (steps.Reader{Kinds: all}).ReadConfig(&v1alpha1.Rollout{}, []byte(shown), noPreset); err != nil {
			t.Errorf("%s: what is shown: %v", name, err)
		}
	}
}
