package steps

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const samplePreset = `
defaults:
  timeout: 5m
  request:
    method: POST
    url: https://ci.example.com/runs
    headers:
      Authorization: {valueFrom: {secretKeyRef: {namespace: argo-rollouts, name: ci, key: token}}}
    tags: [a, b]
locked: [request.url, request.headers.Authorization]
hosts: [ci.example.com]
`

// A Rollout's configuration is merged over the preset's defaults; locked keys stay.
func TestPreset(t *testing.T) {
	for name, tc := range map[string]struct{ config, want, problem string }{
		"nothing":                    {``, `{"request":{"headers":{"Authorization":{"valueFrom":{"secretKeyRef":{"key":"token","name":"ci","namespace":"argo-rollouts"}}}},"method":"POST","tags":["a","b"],"url":"https://ci.example.com/runs"},"timeout":"5m"}`, ""},
		"a value":                    {`{"timeout": "1m"}`, `"timeout":"1m"`, ""},
		"a key beside":               {`{"request": {"headers": {"X-Team": "a"}}}`, `"X-Team":"a"`, ""},
		"a list":                     {`{"request": {"tags": ["c"]}}`, `"tags":["c"]`, ""},
		"a locked key":               {`{"request": {"url": "https://evil"}}`, "", "request.url"},
		"below a locked key":         {`{"request": {"headers": {"Authorization": {"value": "x"}}}}`, "", "request.headers.Authorization"},
		"in place of what leads":     {`{"request": null}`, "", "request.url"},
		"a list in place":            {`{"request": {"headers": []}}`, "", "request.headers.Authorization"},
		"no object":                  {`["x"]`, "", "want an object, not a list"},
		"null":                       {`null`, "", "want an object, not null"},
		"half a reference":           {`{"request": {"headers": {"X": {"valueFrom": {"secretKeyRef": {"name": "own"}}}}}}`, `"X":{"valueFrom":{"secretKeyRef":{"name":"own"}}}`, ""},
		"another case is no locked":  {`{"request": {"URL": "https://evil"}}`, `"URL":"https://evil"`, ""},
		"keys of a list are no path": {`{"tags": [{"request": {"url": "x"}}]}`, `"url":"x"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			preset, err := ReadPreset([]byte(samplePreset))
			if err != nil {
				t.Fatal(err)
			}
			source, err := preset.apply(json.RawMessage(tc.config))
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error %v, want one with %q", err, tc.problem)
				}
				return
			}
			if err != nil || !strings.Contains(string(source.Config), tc.want) {
				t.Errorf("%s, %v; want %s", source.Config, err, tc.want)
			}
			if len(source.PresetHosts) != 1 {
				t.Errorf("hosts %v", source.PresetHosts)
			}
			again, _ := preset.apply(nil)
			if !bytes.Contains(again.Config, []byte(`"timeout":"5m"`)) {
				t.Errorf("one Rollout's configuration has changed the preset: %s", again.Config)
			}
		})
	}
}

// A reference to a Secret is taken as a whole: a part of it in a Rollout cannot name
// another Secret of the preset's namespace.
func TestAReferenceIsTakenWhole(t *testing.T) {
	ref := map[string]any{"namespace": "admin", "name": "ci", "key": "token"}
	preset := &Preset{Defaults: map[string]any{"auth": map[string]any{"valueFrom": map[string]any{"secretKeyRef": ref}}}}
	for _, config := range []string{
		`{"auth": {"valueFrom": {"secretKeyRef": {"name": "other", "key": "token"}}}}`,
		`{"auth": {"valueFrom": {"secretKeyRef": {"name": "other"}}}}`,
		`{"auth": {"valueFrom": {}}}`,
	} {
		source, err := preset.apply(json.RawMessage(config))
		if err != nil || strings.Contains(string(source.Config), "admin") {
			t.Errorf("%s makes %s, %v", config, source.Config, err)
		}
	}
	preset = &Preset{Defaults: map[string]any{"caFrom": map[string]any{"configMapKeyRef": ref}}}
	source, err := preset.apply(json.RawMessage(`{"caFrom": {"configMapKeyRef": {"name": "other", "key": "ca.crt"}}}`))
	if err != nil || strings.Contains(string(source.Config), "admin") {
		t.Errorf("a ConfigMap of one's own makes %s, %v", source.Config, err)
	}
}

// A Rollout cannot name a Secret or a ConfigMap by namespace, wherever and however it writes that.
func TestSecretsOfOtherNamespaces(t *testing.T) {
	for config, refused := range map[string]bool{
		`{"a": [{"b": {"valueFrom": {"secretKeyRef": {"namespace": "admin"}}}}]}`: true,
		`{"a": {"VALUEFROM": {"SecretKeyRef": {"NAMESPACE": "admin"}}}}`:          true,
		`{"secretKeyRef": {"namespace": ""}}`:                                     true,
		`{"secretKeyRef": {"name": "own", "key": "k"}}`:                           false,
		`{"caFrom": {"configMapKeyRef": {"namespace": "admin"}}}`:                 true,
		`{"json": {"namespace": "demo"}}`:                                         false,
		``:                                                                        false,
	} {
		if _, err := (&Preset{}).apply(json.RawMessage(config)); (err != nil) != refused {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// The error about an invalid preset names the key.
func TestAPresetThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"default: {}":          `did you mean "defaults"`,
		"locked: [a..b]":       "locked",
		"locked: ['']":         "locked",
		"hosts: x":             "hosts",
		"defaults: []":         "defaults",
		"- a":                  "want an object",
		"defaults: {a: 1}\nx:": `unknown key "x"`,
	} {
		if _, err := ReadPreset([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// Whatever a Rollout's author writes, locked keys stay as the preset has them, and no
// reference to a Secret has a namespace that the preset did not give it.
func FuzzPreset(f *testing.F) {
	f.Add(`{"request": {"url": "x"}}`)
	f.Add(`{"request": {"headers": {"Authorization": {"valueFrom": {"secretKeyRef": {"namespace": "x"}}}}}}`)
	f.Add(`{"request": {"tags": [{"secretKeyRef": {"Namespace": "x"}}]}}`)
	f.Fuzz(func(t *testing.T, config string) {
		preset, err := ReadPreset([]byte(samplePreset))
		if err != nil {
			t.Fatal(err)
		}
		source, err := preset.apply(json.RawMessage(config))
		if err != nil {
			return
		}
		var merged struct {
			Request struct {
				URL     string `json:"url"`
				Headers map[string]json.RawMessage
			} `json:"request"`
		}
		var exact map[string]map[string]json.RawMessage
		_ = json.Unmarshal(source.Config, &exact)
		if string(exact["request"]["url"]) != `"https://ci.example.com/runs"` {
			t.Errorf("%s makes %s", config, source.Config)
		}
		_ = json.Unmarshal(source.Config, &merged)
		if !strings.Contains(string(merged.Request.Headers["Authorization"]), `"argo-rollouts"`) {
			t.Errorf("%s makes %s", config, source.Config)
		}
	})
}
