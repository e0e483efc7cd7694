package demo

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"sigs.k8s.io/yaml"
)

// The steps that are judged are those of the manifest.
func TestJudgedSteps(t *testing.T) {
	text, err := os.ReadFile("../../manifests/demo-steps/checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	ro := &v1alpha1.Rollout{}
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), ro); err != nil {
		t.Fatal(err)
	}
	for index, want := range map[int32]string{chatStep: "chat", smokeStep: "smoke", togetherStep: "together", regionsStep: "regions"} {
		if got := describeStep(ro.Spec.Strategy.Canary.Steps[index]); got != want {
			t.Errorf("step %d is %s, want %s", index, got, want)
		}
	}
}

func TestOutside(t *testing.T) {
	var shown []string
	o := &outside{said: func(text string) { shown = append(shown, text) }}
	server := httptest.NewServer(o.handler())
	defer server.Close()
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/chat", `{"text": "hello"}`, 200},
		{http.MethodPost, "/chat", `{"text": ""}`, 400},
		{http.MethodPost, "/chat", `{"text": "hello", "channel": "x"}`, 400},
		{http.MethodGet, "/monitoring/checkout", "", 200},
		{http.MethodGet, "/monitoring/payments", "", 400},
	} {
		request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != tt.want {
			t.Errorf("%s %s %s: %s, want %d", tt.method, tt.path, tt.body, response.Status, tt.want)
		}
	}
	chat, refused := o.heard()
	if len(chat) != 1 || chat[0] != "hello" || len(refused) != 3 || len(shown) != 1 {
		t.Errorf("heard %q, refused %q, shown %q", chat, refused, shown)
	}
}

// The chat has to have heard each message once, in their order, and nothing else.
func TestOutsideRequire(t *testing.T) {
	for name, tt := range map[string]struct {
		o    *outside
		want string
	}{
		"as expected":        {&outside{chat: []string{"one, of two", "two"}}, ""},
		"a message twice":    {&outside{chat: []string{"one", "one", "two"}}, `message 2 of 3 is "one"`},
		"one too many":       {&outside{chat: []string{"one", "two", "two"}}, `message 3 of 3 is "two"`},
		"another":            {&outside{chat: []string{"one", "three"}}, `message 2 of 2 is "three"`},
		"an unknown request": {&outside{chat: []string{"one", "two"}, refused: []string{"GET /x"}}, "requests that nobody expects: GET /x"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlayer(t)
			ok := p.play(func(p *player) {
				p.check("the chat", func() { tt.o.require(p, "one", "two") })
			})
			if got := texts(p.table()); ok != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("as claimed: %t, want %q in\n%s", ok, tt.want, got)
			}
		})
	}
}
