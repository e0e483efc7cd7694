package rolloutsstep

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func newKind(t testing.TB, server *apiservertest.Server, change ...func(*Options)) *Kind {
	opts := Options{Connect: server.Config, Logger: hclog.NewNullLogger()}
	for _, change := range change {
		change(&opts)
	}
	kind := New(opts)
	t.Cleanup(kind.Close)
	return kind
}

func TestParse(t *testing.T) {
	server := apiservertest.New(t)
	kind := newKind(t, server)
	many := strings.Repeat(`"a",`, 200) + `"a"`
	tests := []struct{ config, problem string }{
		{`{"names": ["b", "payments/c"], "barrier": "half.way-1"}`, ""},
		{`{"selector": {"matchLabels": {"team": "shop"}}, "namespaces": ["demo", "payments"]}`, ""},
		{`{"selector": {}}`, ""},
		{`{}`, "names or selector is missing: which Rollouts does the step wait for?"},
		{`{"names": []}`, "names or selector is missing"},
		{`{"names": ["b"], "selector": {}}`, "want names or a selector, and not both (a preset may have set the other)"},
		{`{"names": ["b"], "namespaces": ["payments"]}`, "namespaces: these are for a selector; give a name its namespace as in payments/checkout"},
		{`{"names": ["b", "B"]}`, `names[1]: "B": want the name of a Rollout, such as checkout or payments/checkout`},
		{`{"names": ["a/b/c"]}`, `names[0]: "a/b/c": want the name of a Rollout`},
		{`{"names": ["/b"]}`, `names[0]: "/b": want the name of a Rollout`},
		{`{"names": ["../b"]}`, `names[0]: "../b": want the name of a Rollout`},
		{`{"names": [` + many + `]}`, "names: want up to 200, not 201; use a selector"},
		{`{"selector": {}, "namespaces": ["a/b"]}`, `namespaces[0]: "a/b" is no name of a namespace`},
		{`{"selector": {}, "namespaces": ["*"]}`, `namespaces[0]: "*" is no name of a namespace`},
		{`{"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}`, `selector: "Like" is not a valid label selector operator`},
		{`{"names": ["b"], "barrier": "acme/check-others#1"}`, "barrier: want up to 63 letters"},
		{`{"selector": {}, "min": 0}`, ""},
		{`{"selector": {}, "min": -1}`, "min: want 0 or more, not -1"},
		{`{"names": ["b"], "min": 1}`, "min: this is for a selector; each of names is waited for"},
		{`{"names": ["b"], "barier": "x"}`, `"barrier"`},
		{`{"names": "b"}`, "names"},
	}
	for _, test := range tests {
		t.Run(test.config[:min(len(test.config), 80)], func(t *testing.T) {
			_, err := kind.Parse(steps.Source{Config: json.RawMessage(test.config)})
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("%v, want %q", err, test.problem)
			}
		})
	}
	if requests := server.Requests(); len(requests) > 0 {
		t.Errorf("Parse made requests: %v", requests)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"names": ["b", "payments/c"], "barrier": "half"}`)
	f.Add(`{"selector": {"matchLabels": {"team": "shop"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "namespaces": ["demo"]}`)
	kind := New(Options{Logger: hclog.NewNullLogger()})
	f.Fuzz(func(t *testing.T, config string) {
		parsed, err := kind.Parse(steps.Source{Config: json.RawMessage(config)})
		if err != nil {
			return
		}
		s := parsed.(*step).selection
		for _, n := range s.names {
			if fmt.Sprint(n.in("own")) == "own/" || strings.Contains(n.name, "/") {
				t.Errorf("the name %q was taken", n)
			}
		}
		if len(s.names) == 0 && s.selector == nil {
			t.Error("a step that waits for nothing was taken")
		}
	})
}

func FuzzReadRollout(f *testing.F) {
	f.Add([]byte(`{"metadata": {"generation": 1}, "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:v2"}]}}, "strategy": {"canary": {"steps": [{"setWeight": 1}, {"plugin": {"name": "acme/check-others", "config": {"barrier": "half"}}}]}}}, "status": {"observedGeneration": "1", "phase": "Progressing", "stableRS": "a", "currentPodHash": "b", "currentStepIndex": 1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := readRegionRollout(text)
		s := Snapshot{Barrier: firstBarrier(), Since: noon, Others: []Other{{Name: "demo/b", Rollout: &r}}}
		if got := decide(s); len(got.Message) > 512 {
			t.Errorf("a message of %d bytes", len(got.Message))
		}
	})
}
