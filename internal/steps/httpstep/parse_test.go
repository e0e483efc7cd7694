package httpstep

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const tokenRef = `{"valueFrom": {"secretKeyRef": {"name": "ci", "key": "token"}}}`

// mistakes maps configurations to what is said about the mistake in each.
var mistakes = map[string]string{
	`{}`: "request: want a request, or a poll",
	`{"find": {"url": "x"}, "poll": {"url": "x"}}`:                                                 "find: want a request",
	`{"poll": {"url": "x"}, "outputs": {"a": "1"}}`:                                                "outputs: want a request, whose answer they are of; those of a poll are poll.outputs",
	`{"request": {"url": ""}}`:                                                                     "request.url: want a URL",
	`{"server": {"url": ""}, "request": {}}`:                                                       "server.url: want a URL",
	`{"request": {"url": "x", "auth": {"basic": {"username": "", "password": ` + tokenRef + `}}}}`: "request.auth.basic.username: want a text",
	`{"request": {"url": "x"}, "outputs": {"run": "response.headers"}}`:                            "outputs.run: response.headers: want a text, a number or a boolean",
	`{"request": {}}`:                                                          "request.url: want a URL",
	`{"request": {"url": "x", "body": "x"}}`:                                   "request.body: the key is not known",
	`{"request": {"url": "x", "metod": "GET"}}`:                                `request.metod: the key is not known: did you mean "method"?`,
	`{"reqest": {"url": "x"}}`:                                                 `reqest: the key is not known: did you mean "request"?`,
	`{"request": {"url": "x", "url": "y"}}`:                                    "request.url: the key is there twice",
	`{"request": {"url": 7}}`:                                                  "request.url: want a string, or valueFrom with a secretKeyRef",
	`{"request": {"url": "x", "method": "get"}}`:                               `request.method "get": want one of GET, HEAD,`,
	`{"request": {"url": "x", "method": "CONNECT"}}`:                           `request.method "CONNECT": want one of`,
	`{"request": {"url": "x", "method": "GET / HTTP/1.1\r\n"}}`:                "request.method",
	`{"request": {"url": "x", "method": "GET", "text": "x"}}`:                  "request.method GET: want one that has a body",
	`{"request": {"url": "x", "json": {}, "text": "x"}}`:                       "request: want one of json, form and text, not 2",
	`{"request": {"url": "x", "timeout": "301s"}}`:                             "request.timeout 5m1s: want up to 5m0s",
	`{"request": {"url": "x", "timeout": "-1s"}}`:                              "request.timeout -1s",
	`{"request": {"url": "x", "timeout": 5}}`:                                  "request.timeout: want a duration such as 5m",
	`{"request": {"url": "{{ x "}}`:                                            "request.url: {{ x : there is no }} after it",
	`{"request": {"url": "x", "json": {"a": ["{{ nope }}"]}}}`:                 "request.json: ",
	`{"request": {"url": "x", "text": "{{ 1 + }}"}}`:                           "request.text: ",
	`{"request": {"url": "x", "headers": {"Host": "y"}}}`:                      "request.headers.Host: the header Host is not for a step to set",
	`{"request": {"url": "x", "headers": {"transfer-encoding": "chunked"}}}`:   "request.headers.transfer-encoding: ",
	`{"request": {"url": "x", "headers": {"X Y": "y"}}}`:                       `request.headers["X Y"]: `,
	`{"request": {"url": "x", "headers": {"X-A": "y", "x-a": "z"}}}`:           "request.headers.x-a: the header is there twice",
	`{"request": {"url": "x", "headers": {"X-A": ["y"]}}}`:                     "request.headers.X-A: want a string",
	`{"request": {"url": "x", "headers": {"authorization": "Bearer s3cret"}}}`: "request.headers.authorization: want valueFrom, or auth in its place",
	`{"request": {"url": "x", "headers": {"Authorization": ` + tokenRef + `}, "auth": {"bearer": ` + tokenRef + `}}}`:                                               "request.headers.Authorization: want auth or this header",
	`{"request": {"url": "x", "auth": {"bearer": "s3cret"}}}`:                                                                                                       "request.auth.bearer: want valueFrom with a secretKeyRef: a secret is given by reference",
	`{"request": {"url": "x", "auth": {"basic": {"username": "u", "password": "s3cret"}}}}`:                                                                         "request.auth.basic.password: want valueFrom",
	`{"request": {"url": "x", "auth": {"basic": {"username": "u"}}}}`:                                                                                               "request.auth.basic.password: want valueFrom",
	`{"request": {"url": "x", "auth": {"basic": {"password": ` + tokenRef + `}}}}`:                                                                                  "request.auth.basic.username: want a text",
	`{"request": {"url": "x", "auth": {"oauth2": {"tokenURL": "x", "clientID": "u", "clientSecret": "s3cret"}}}}`:                                                   "request.auth.oauth2.clientSecret: want valueFrom",
	`{"request": {"url": "x", "auth": {"oauth2": {"clientID": "u", "clientSecret": ` + tokenRef + `}}}}`:                                                            "request.auth.oauth2.tokenURL: want a URL",
	`{"request": {"url": "x", "auth": {"bearer": ` + tokenRef + `, "basic": {}}}}`:                                                                                  "request.auth: want one of bearer, basic and oauth2, not 2",
	`{"request": {"url": "x", "auth": {"bearer": {"valueFrom": {"secretKeyRef": {"name": "a", "key": "b", "namespace": "kube-system"}}}}}}`:                         `request.auth.bearer.valueFrom.secretKeyRef.namespace "kube-system": want the namespace`,
	`{"request": {"url": "x", "caFrom": {}}}`:                                                                                                                       "request.caFrom: want one of secretKeyRef and configMapKeyRef",
	`{"request": {"url": "x", "caFrom": {"configMapKeyRef": {"name": "a", "key": "b", "namespace": "other"}}}}`:                                                     "request.caFrom.configMapKeyRef.namespace",
	`{"request": {"url": "x"}, "outputs": {"a-b": "1"}}`:                                                                                                            "outputs.a-b: want a name of a letter",
	`{"request": {"url": "x"}, "outputs": {"a": ""}}`:                                                                                                               "outputs.a: want an expression",
	`{"request": {"url": "x"}, "outputs": {"a": "1 +"}}`:                                                                                                            "outputs.a: ",
	`{"poll": {"url": "x", "method": "DELETE"}}`:                                                                                                                    `poll.method "DELETE": want one of GET, HEAD, POST`,
	`{"poll": {"url": "x", "successCondition": "(" }}`:                                                                                                              "poll.successCondition: ",
	`{"poll": {"url": "x", "failureCondition": "true" }}`:                                                                                                           "poll.successCondition: want one beside failureCondition",
	`{"poll": {"url": "x", "accept": [503]}}`:                                                                                                                       "poll.accept[0]: want a status such as 404",
	`{"poll": {"url": "x", "accept": [404, 429]}}`:                                                                                                                  "poll.accept[1]",
	`{"poll": {"url": "x"}, "message": "{{ }"}`:                                                                                                                     "message: ",
	`{"request": {"url": "x"}, "cancel": {"method": "DELETE"}}`:                                                                                                     "cancel.url: want a URL",
	`{"request": {"url": "x"}, "onAbort": {"url": "x", "headers": {"Connection": "x"}}}`:                                                                            "onAbort.headers.Connection: ",
	`{"request": {"url": "x"}, "find": {"url": "x", "found": "("}}`:                                                                                                 "find.found: ",
	`{"request": {"url": "https://127.0.0.1"}, "outputs": {"run": "1"}, "cancel": {"url": "https://127.0.0.1/{{ outputs.rnu }}"}}`:                                  "cancel.url: outputs.rnu: there is no output rnu: did you mean run?",
	`{"request": {"url": "https://127.0.0.1"}, "cancel": {"url": "https://127.0.0.1", "json": {"a": ["{{ outputs.run }}"]}}}`:                                       "cancel.json: a[0]: outputs.run: there is no output run: the step has no outputs",
	`{"request": {"url": "https://127.0.0.1"}, "outputs": {"run": "1"}, "onAbort": {"url": "https://127.0.0.1", "headers": {"X-Run": "{{ outputs.rnu}}"} }}`:        "onAbort.headers.X-Run: outputs.rnu: there is no output rnu",
	`{"request": {"url": "https://127.0.0.1"}, "outputs": {"run": "1"}, "message": "{{ outputs.url }}"}`:                                                            "message: outputs.url: there is no output url",
	`{"request": {"url": "https://127.0.0.1"}, "outputs": {"run": "1"}, "poll": {"url": "https://127.0.0.1", "successCondition": "response.status == outputs.rn"}}`: "poll.successCondition: response.status == outputs.rn: there is no output rn: did you mean run?",
	`{"request": {"url": "x"}, "find": {"url": "x"}, "outputs": {"run": "1"}}`:                                                                                      "find.outputs.run: want this output of find too",
	`{"request": {"url": "/runs"}}`:                                                                                                                                 "request.url: want a whole URL such as https://ci.example.com/runs, or a server",
	`{"server": {}, "request": {"url": "/runs"}}`:                                                                                                                   "server.url: want a URL",
	`{"server": {"url": "https://127.0.0.1?a=b"}, "request": {}}`:                                                                                                   "server.url: want a URL without query",
	`{"server": {"url": "https://evil.example"}, "request": {}}`:                                                                                                    `server.url: host "evil.example" is not allowed`,
	`{"server": {"url": "https://127.0.0.1"}, "request": {"url": "/a/../b"}}`:                                                                                       "request.url: the URL's path has . or ..",
	`{"server": {"url": "https://127.0.0.1", "auth": {"bearer": ` + tokenRef + `}}, "request": {"headers": {"Authorization": ` + tokenRef + `}}}`:                   "request.headers.Authorization: want auth or this header",
	`{"request": {"url": "x", "form": {"a": "{{ nope }}"}}}`:                                                                                                        "request.form.a: ",
	`{"request": {"url": "x", "form": {"a": "b"}, "text": "x"}}`:                                                                                                    "request: want one of json, form and text, not 2",
	`{"request": {"url": "x", "method": "GET", "form": {}}}`:                                                                                                        "request.method GET: want one that has a body",
	`{"request": {"url": "x"}, "poll": {"url": "x", "idempotent": true}}`:                                                                                           "poll.idempotent: want none",
	`{"poll": {"url": "x", "accept": [408]}}`:                                                                                                                       "poll.accept[0]",
	`{"request": {"url": "x", "clientCertificateFrom": {}}}`:                                                                                                        "request.clientCertificateFrom: want a secretRef",
	`{"request": {"url": "x", "clientCertificateFrom": {"secretRef": {"name": "a", "namespace": "other"}}}}`:                                                        "request.clientCertificateFrom.secretRef.namespace",
	`{"request": {"url": "x", "clientCertificateFrom": {"secretRef": {"name": ""}}}}`:                                                                               "request.clientCertificateFrom.secretRef.name: want the object's name",
	`{"request": {"url": "https://127.0.0.1/{{ .step.key }}"}}`:                                                                                                     "request.url: ",
	`{"poll": {"url": "x", "successCondition": "response.json.a ?? true"}}`:                                                                                         "poll.successCondition: ",
	`[]`:                        "want an object",
	`{"request": {"url": "x"}}`: "request.url: the URL's scheme is neither https nor http",
	`{"request": {"url": "https://u:p@127.0.0.1"}}`:                                   "request.url: the URL has a user before its host",
	`{"request": {"url": "https://evil.example/{{ step.key }}"}}`:                     `request.url: host "evil.example" is not allowed`,
	`{"request": {"url": "https://127.0.0.1"}, "outputs": {"id": "respnse.json.id"}}`: `outputs.id: respnse.json.id: there is no respnse: did you mean response.json.id?`,
	`{"poll": {"url": "https://127.0.0.1", "successCondition": "output.id == 1"}}`:    "did you mean outputs.id?",
}

func newKind(t testing.TB) *Kind {
	return New(Options{Connect: apiservertest.New(t).Config, Logger: hclog.NewNullLogger(), SecretsNamespace: "secrets", AllowHosts: []string{"127.0.0.1"}, AllowAddresses: loopback})
}

func TestMistakesInTheConfiguration(t *testing.T) {
	kind := newKind(t)
	for config, want := range mistakes {
		_, err := kind.Parse(steps.Source{Config: json.RawMessage(config)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", config, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error holds the secret: %v", config, err)
		}
	}
	if _, err := kind.Parse(steps.Source{Config: json.RawMessage(`{"poll": {"url": "x"}}`), PresetHosts: []string{"https://ci"}}); err == nil || !strings.Contains(err.Error(), "hosts of the preset: ") {
		t.Errorf("hosts of the preset: got %v", err)
	}
	if _, err := New(Options{AllowHosts: []string{"*"}}).Parse(steps.Source{Config: json.RawMessage(`{"poll": {"url": "x"}}`)}); err == nil || !strings.Contains(err.Error(), `--allow-host: "*"`) {
		t.Errorf("--allow-host: got %v", err)
	}
}

func TestReferencesToOutputs(t *testing.T) {
	kind := newKind(t)
	for _, config := range []string{
		`{"poll": {"url": "http://127.0.0.1/{{ steps.build.outputs.id }}?x=outputs.y", "successCondition": "steps.build.outputs.id == 'outputs.x' || steps['build'].outputs.id == ''"}}`,
		`{"request": {"url": "http://127.0.0.1"}, "poll": {"url": "http://127.0.0.1/{{ outputs.a }}{{outputs.b}}", "outputs": {"b": "outputs.a"}}, "outputs": {"a": "1"}}`,
		`{"request": {"url": "http://127.0.0.1"}, "find": {"url": "http://127.0.0.1", "outputs": {"c": "1"}}, "cancel": {"url": "http://127.0.0.1/{{ outputs.c }}"}}`,
	} {
		if _, err := kind.Parse(steps.Source{Config: json.RawMessage(config)}); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// No configuration makes the plugin panic, and one that is accepted has what the step
// needs.
func FuzzParse(f *testing.F) {
	for config := range mistakes {
		f.Add(strings.ReplaceAll(config, `"url": "x"`, `"url": "http://127.0.0.1/x"`))
	}
	f.Add(`{"request": {"url": "http://127.0.0.1", "form": {"a": "{{ step.key }}"}}, "find": {"url": "http://127.0.0.1"}}`)
	f.Add(`{"poll": {"url": "http://127.0.0.1", "successCondition": "true", "accept": [404], "auth": {"oauth2": {"tokenURL": "http://127.0.0.1", "clientID": "a", "clientSecret": ` + tokenRef + `}}}}`)
	kind := newKind(f)
	f.Fuzz(func(t *testing.T, config string) {
		parsed, err := kind.Parse(steps.Source{Config: json.RawMessage(config)})
		if err != nil {
			return
		}
		s := parsed.(*step)
		if s.request == nil && s.poll == nil {
			t.Error("a step that does nothing")
		}
		for _, c := range s.calls() {
			if !c.own.url.isSet() && c.server == nil || c.method == "" || c.timeout <= 0 || c.timeout > maxRequestTimeout {
				t.Errorf("%s: got %+v", c.path, c)
			}
			for _, value := range c.references() {
				if namespace := value.ref.Namespace; namespace != "" && namespace != "secrets" {
					t.Errorf("%s: a reference to namespace %q", c.path, namespace)
				}
			}
		}
	})
}
