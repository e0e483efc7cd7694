package httpstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// A reference in json is replaced by the secret, wherever it stands, as it is.
func TestASecretInJSON(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": {
		"routing_key": `+ref("pagerduty", "key")+`, "list": [1, [`+ref("pagerduty", "other")+`]], "again": {"key": `+ref("pagerduty", "key")+`},
		"text": "{{ rollout.name }}", "env": {"valueFrom": "x", "a": {}}, "n": 12345678901234567890
	}}}`)
	_, _ = a.start("", "request.json.again.key: Secret demo/pagerduty does not exist")
	if len(o.all()) > 0 {
		t.Errorf("got a request without the secret: %+v", o.all())
	}
	a.api.PutObject("secrets", secretOf("demo", "pagerduty", map[string]string{"key": "r0uting\"k&y\n", "other": "{{ rollout.name }}"}))
	_, _ = a.start(steps.Successful)
	const want = `{"again":{"key":"r0uting\"k&y"},"env":{"a":{},"valueFrom":"x"},"list":[1,["{{ rollout.name }}"]],"n":12345678901234567890,"routing_key":"r0uting\"k&y","text":"app"}`
	if got := o.all()[0]; got.body != want || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, want %s", got.body, want)
	}
}

// Secrets under long keys, which messages cut off, are not mixed up.
func TestSecretsInJSONUnderLongKeys(t *testing.T) {
	long := strings.Repeat("k", 100)
	o := newOutside(t, answer200(``))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": {"`+long+`1": `+ref("a", "one")+`, "`+long+`2": `+ref("a", "two")+`}}}`)
	a.api.PutObject("secrets", secretOf("demo", "a", map[string]string{"one": "value-1", "two": "value-2"}))
	_, _ = a.start(steps.Successful)
	if got := o.all()[0].body; got != `{"`+long+`1":"value-1","`+long+`2":"value-2"}` {
		t.Errorf("got %s", got)
	}
}

// What looks like a reference is one, or an error: it is not sent as it stands.
func TestWhatLooksLikeAReferenceInJSON(t *testing.T) {
	const of = `{"name": "ci", "key": "token"}`
	const way = `to send the object as it is, write it as an expression`
	for body, want := range map[string]string{
		`{"a": {"valueFrom": {"secretKeyRef": ` + of + `}}}`:                                                  "",
		`{"valueFrom": {"secretKeyRef": ` + of + `}}`:                                                         "",
		`{"a": {"valueFrom": {"secretKeyRef": ` + of + `}, "b": 1}}`:                                          "request.json.a.valueFrom.secretKeyRef: want an object that has valueFrom alone, with a secretKeyRef in it, in the place of a secret; " + way,
		`{"a": [{"name": "X", "valueFrom": {"secretKeyRef": ` + of + `}}]}`:                                   "request.json.a[0].valueFrom.secretKeyRef: want an object that has valueFrom alone",
		`{"a": {"secretKeyRef": ` + of + `}}`:                                                                 "request.json.a.secretKeyRef: want an object that has valueFrom alone",
		`{"a": {"secretkeyref": ` + of + `}}`:                                                                 "request.json.a.secretkeyref: want an object that has valueFrom alone",
		`{"a": {"configMapKeyRef": ` + of + `}}`:                                                              "request.json.a.configMapKeyRef: want an object that has valueFrom alone",
		`{"a": {"b c": {"secretKeyRef": ` + of + `}}}`:                                                        `request.json.a["b c"].secretKeyRef: want an object that has valueFrom alone`,
		`{"a": {"valuefrom": {"secretKeyRef": ` + of + `}}}`:                                                  `request.json.a: valuefrom: the key is not known: did you mean "valueFrom"?`,
		`{"a": {"valueFrom": {"configMapKeyRef": ` + of + `}}}`:                                               "request.json.a: valueFrom.configMapKeyRef: the key is not known",
		`{"a": {"valueFrom": {"secretRef": {"name": "ci"}}}}`:                                                 "request.json.a: valueFrom.secretRef: the key is not known",
		`{"a": {"valueFrom": {"fieldRef": {"fieldPath": "x"}}}}`:                                              "request.json.a: valueFrom.fieldRef: the key is not known",
		`{"a": {"valueFrom": {}}}`:                                                                            "request.json.a: want a string, or valueFrom with a secretKeyRef, as an object that has valueFrom alone stands for a secret; " + way,
		`{"a": {"valueFrom": "x"}}`:                                                                           "request.json.a: ",
		`{"a": {"valueFrom": {"secretKeyRef": {"name": "ci"}}}}`:                                              "request.json.a.valueFrom.secretKeyRef.key: want a key of the object",
		`{"a": {"valueFrom": {"secretKeyRef": {"name": "ci", "kye": "x"}}}}`:                                  `request.json.a: valueFrom.secretKeyRef.kye: the key is not known: did you mean "key"?`,
		`{"a": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "x", "namespace": "kube-system"}}}}`:      `request.json.a.valueFrom.secretKeyRef.namespace "kube-system": want the namespace that the plugin is registered with`,
		`{"a": "{{ {\"valueFrom\": {\"secretKeyRef\": {\"name\": \"ci\"}}} }}"}`:                              "",
		`{"a": [{"name": "X", "valueFrom": "{{ {\"secretKeyRef\": {\"name\": \"ci\", \"key\": \"k\"}} }}"}]}`: "",
		`{"a": {"valueFrom": {"fieldRef": {}}, "b": 1}, "secretRef": {"name": "x"}}`:                          "",
	} {
		_, err := newKind(t).Parse(steps.Source{Config: json.RawMessage(`{"request": {"url": "http://127.0.0.1", "json": ` + body + `}}`)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	// What is written as an expression is sent as it is.
	o := newOutside(t, answer200(``))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": {"env": [{"name": "X", "valueFrom": "{{ {\"secretKeyRef\": {\"name\": \"ci\"}} }}"}]}}}`)
	_, _ = a.start(steps.Successful)
	if got := o.all()[0].body; got != `{"env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"ci"}}}]}` {
		t.Errorf("got %s", got)
	}
}

// The secret is in nothing that people read, also where the answer repeats it and in what
// form it ever does.
func TestASecretInJSONIsSaidNowhere(t *testing.T) {
	const key = `s3cr3t-r0uting/key+"of" <pagerduty>`
	for _, status := range []int{200, 400, 429, 503} {
		for _, condition := range []string{"true", "false", "response.json.nothing"} {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				var body map[string]any
				_ = json.NewDecoder(r.Body).Decode(&body)
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"message": %q, "plain": "`+key+`"}`, body["routing_key"])
			})
			config := `{
				"request": {"url": "OUTSIDE", "json": {"routing_key": ` + ref("pagerduty", "key") + `}, "successCondition": "` + condition + `"}, OUTPUTS
				"cancel": {"url": "OUTSIDE/cancel", "json": {"routing_key": ` + ref("pagerduty", "key") + `}, "successCondition": "false"}
			}`
			for _, outputs := range []string{"", `"outputs": {"said": "response.text"},`} {
				h := newHost(t, o, strings.Replace(config, "OUTPUTS", outputs, 1))
				h.putSecret("demo", "pagerduty", map[string]string{"key": key})
				said := ""
				for range 4 {
					h.run()
					if said += h.last.Message + string(h.last.Status); h.last.Phase != types.PhaseRunning {
						break
					}
				}
				result, _ := h.plugin.Terminate(h.ro, h.call())
				h.plugin.Close()
				said += result.Message + h.events.text() + h.logged()
				if o.count("POST", "/") == 0 || strings.Contains(said, "s3cr3t") || strings.Contains(said, "r0uting") {
					t.Errorf("%d, %s: said %s", status, condition, said)
				}
			}
		}
	}
}

// A Secret of --secrets-namespace is a preset's: in json, too, a Rollout names none, changes
// nothing of the request, and sends it nowhere else.
func TestASecretOfAPresetInJSON(t *testing.T) {
	const key = `{"valueFrom": {"secretKeyRef": {"namespace": "secrets", "name": "pagerduty", "key": "key"}}}`
	const defaults = `{"request": {"url": "URL", "json": {"routing_key": ` + key + `, "summary": "{{ rollout.name }}"}, "successCondition": "true"}}`
	o := newOutside(t, answer200(`{}`))
	for name, test := range map[string]struct{ defaults, config, refused string }{
		"as the preset has it":       {defaults, `{}`, ""},
		"its timeout":                {defaults, `{"request": {"timeout": "5s"}}`, ""},
		"another body":               {defaults, `{"request": {"json": {"summary": "x"}}}`, "request.json: request has a Secret of another namespace"},
		"another key beside":         {defaults, `{"request": {"json": {"routing_key": {"b": 1}}}}`, "request.json.routing_key.valueFrom.secretKeyRef: "},
		"another condition":          {defaults, `{"request": {"successCondition": "response.text.startsWith(\"a\")"}}`, "request.successCondition: request has a Secret"},
		"another URL":                {defaults, `{"request": {"url": "OUTSIDE/other"}}`, "request.url: request has a Secret of another namespace"},
		"a URL that a label says":    {strings.Replace(defaults, "URL", "{{ rollout.labels.url }}", 1), `{}`, "request.url: want a URL that begins with the scheme and the host"},
		"a host that is not its own": {strings.Replace(defaults, "URL", "http://localhost:1/", 1), `{}`, "request.url: "},
		"a Rollout's own":            {`{}`, `{"request": {"url": "OUTSIDE", "json": {"a": [` + key + `]}}}`, "request.json.a[0].valueFrom.secretKeyRef.namespace: a Rollout refers to Secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(o.all())
			h := newHost(t, o, test.config)
			p := preset{Hosts: []string{strings.TrimPrefix(o.URL, "http://")}}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(test.defaults, "URL", o.URL)), &p.Defaults); err != nil {
				t.Fatal(err)
			}
			h.preset = p
			h.opts.AllowHosts = []string{"localhost", strings.TrimPrefix(o.URL, "http://")}
			h.restart()
			h.putSecret("secrets", "pagerduty", map[string]string{"key": "r0uting"})
			h.run()
			if test.refused == "" {
				h.require(types.PhaseSuccessful)
				if got := o.all()[before].body; got != `{"routing_key":"r0uting","summary":"app"}` {
					t.Errorf("got %s", got)
				}
				return
			}
			if h.last.Phase == types.PhaseSuccessful || !strings.Contains(h.last.Message, test.refused) || len(o.all()) != before {
				t.Errorf("%s %q, %d requests; want it refused: %s", h.last.Phase, h.last.Message, len(o.all())-before, test.refused)
			}
		})
	}
}

// Half a reference over a preset's is the Rollout's mistake, not the preset's.
func TestHalfAReferenceOverAPresets(t *testing.T) {
	h := newHost(t, newOutside(t, answer200(``)), `{"request": {"json": {"routing_key": {"valueFrom": {"secretKeyRef": {"key": "other"}}}}}}`)
	p := preset{}
	if err := json.Unmarshal([]byte(`{"request": {"url": "http://127.0.0.1", "json": {"routing_key": `+ref("pagerduty", "key")+`}}}`), &p.Defaults); err != nil {
		t.Fatal(err)
	}
	h.preset = p
	h.restart()
	h.run()
	h.require(types.PhaseFailed, "step 3: http.request.json.routing_key.valueFrom.secretKeyRef.name: want the object's name")
}

// Secrets in a body count as its texts do, and as the step's secrets do.
func TestBoundsOfSecretsInJSON(t *testing.T) {
	const large = 8 << 10
	o := newOutside(t, answer200(``))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": [`+strings.Repeat(ref("a", "k")+",", 8)+ref("a", "k")+`]}}`)
	a.api.PutObject("secrets", secretOf("demo", "a", map[string]string{"k": strings.Repeat("k", large)}))
	_, _ = a.start(steps.Failed, "request.json: ")
	var many []string
	for i := range 33 {
		many = append(many, ref("a", fmt.Sprint("k", i)))
	}
	_, err := newKind(t).Parse(steps.Source{Config: json.RawMessage(`{"request": {"url": "http://127.0.0.1", "json": [` + strings.Join(many, ",") + `]}}`)})
	if err == nil || !strings.Contains(err.Error(), "references to 33 values of Secrets: want 32 at most") {
		t.Errorf("got %v", err)
	}
	if len(o.all()) > 0 {
		t.Errorf("got %d requests", len(o.all()))
	}
}

// What JSON cannot have is not sent as something else.
func TestASecretInJSONThatIsNoText(t *testing.T) {
	o := newOutside(t, answer200(``))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": {"k": `+ref("a", "k")+`}}}`)
	a.api.PutObject("secrets", secretOf("demo", "a", map[string]string{"k": "abc\xff\xfedef"}))
	_, _ = a.start("", "request.json.k: the value of the Secret is no text in UTF-8")
	if len(o.all()) > 0 {
		t.Errorf("got %q", o.all()[0].body)
	}
}

// A clean-up waits for its own secret: it may come back.
func TestACleanupWhoseSecretInJSONIsGone(t *testing.T) {
	o := newOutside(t, answer200(``))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE"}, "onAbort": {"url": "OUTSIDE/undo", "json": {"routing_key": `+ref("pagerduty", "key")+`}}}`)
	err := a.step.Undo(t.Context(), a.work)
	if err == nil || !strings.Contains(err.Error(), "onAbort.json.routing_key: Secret demo/pagerduty does not exist") || steps.OutcomeOf(err) != steps.NotDone || len(o.all()) > 0 {
		t.Errorf("got %v, %d requests", err, len(o.all()))
	}
	a.api.PutObject("secrets", secretOf("demo", "pagerduty", map[string]string{"key": "r0uting"}))
	if err := a.step.Undo(t.Context(), a.work); err != nil || o.all()[0].body != `{"routing_key":"r0uting"}` {
		t.Errorf("got %v, %+v", err, o.all())
	}
}
