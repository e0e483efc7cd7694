package steps

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The error about an invalid preset names the key.
func TestAPresetThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"default: {}":          `default: the key is not known: did you mean "defaults"`,
		"Defaults: {}":         `Defaults: the key is not known: did you mean "defaults"`,
		"locked: [a..b]":       "locked",
		"locked: ['']":         "locked",
		"hosts: x":             "hosts: want a list",
		"defaults: []":         "defaults: want an object",
		"namespaces: [Team]":   `namespaces: "Team"`,
		"disabled: 'yes'":      "disabled: want true or false",
		"- a":                  "want an object",
		"":                     "want an object",
		"defaults: {a: 1}\nx:": `x: the key is not known`,
		"hosts: []\nhosts: []": "already set",
	} {
		if _, err := ReadPreset([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	preset, err := ReadPreset([]byte("defaults: {job: {backoffLimit: 9007199254740993}}\nnamespaces: [team-a]\ndisabled: true"))
	if err != nil || string(preset.Section("job")) != `{"backoffLimit":9007199254740993}` || string(preset.Section("http")) != "null" || !preset.Disabled {
		t.Errorf("%+v, %v", preset, err)
	}
	if !preset.Serves("team-a") || preset.Serves("team-b") || !(&Preset{}).Serves("team-b") {
		t.Error("namespaces do not hold")
	}
}

// What is locked of a request is locked of the server that it takes the rest from, and what is
// locked of a Job is not undone by a CronJob.
func TestLocks(t *testing.T) {
	for _, tc := range []struct{ lock, given, key string }{
		{"http.request.url", `{"http": {"request": {"url": "x"}}}`, "http.request.url"},
		{"http.request.url", `{"http": {"request": {"method": "PUT"}, "server": {"headers": {}}}}`, ""},
		{"http.request.url", `{"http": {"server": {"url": "https://evil"}}}`, "http.server.url"},
		{"http.request.url", `{"http": {"server": null}}`, "http.server.url"},
		{"http.request", `{"http": {"server": {}}}`, "http.server"},
		{"http.poll.headers.Authorization", `{"http": {"server": {"headers": {"Authorization": "x"}}}}`, "http.server.headers.Authorization"},
		{"http.cancel.auth", `{"http": {"server": {"auth": {}}}}`, "http.server.auth"},
		{"http.outputs", `{"http": {"server": {}}}`, ""},
		{"http.server", `{"http": {"server": {"headers": {"a": "b"}}}}`, "http.server"},
		{"http", `{"http": {}}`, "http"},
		{"job.template.spec.hostNetwork", `{"job": {"from": "cronjob/x"}}`, "job.from"},
		{"job.template.spec.hostNetwork", `{"job": {"onAbort": {"template": {"spec": {"hostNetwork": true}}}}}`, "job.onAbort.template.spec.hostNetwork"},
		{"job.template.spec.hostNetwork", `{"job": {"onAbort": {"from": "cronjob/x"}}}`, "job.onAbort.from"},
		{"job.template.spec.hostNetwork", `{"job": {"onAbort": {"template": {"spec": {"containers": []}}}}}`, ""},
		{"job.onAbort.template", `{"job": {"onAbort": {"from": "cronjob/x"}}}`, "job.onAbort.from"},
		{"job.onAbort.template", `{"job": {"from": "cronjob/x"}}`, ""},
		{"job.onAbort", `{"job": {"from": "cronjob/x"}}`, ""},
		{"job.logLines", `{"job": {"from": "cronjob/x"}}`, ""},
		{"job", `{"job": {"from": "cronjob/x"}}`, "job"},
		{"timeout", `{"timeout": null}`, "timeout"},
		{"*", `{"use": "smoke"}`, ""},
		{"*", `{"use": "smoke", "id": "a"}`, "id"},
	} {
		var given map[string]any
		if err := json.Unmarshal([]byte(tc.given), &given); err != nil {
			t.Fatal(err)
		}
		err := (&Preset{Locked: []string{tc.lock}}).lockedIn(given)
		if (err == nil) != (tc.key == "") || err != nil && !strings.HasPrefix(err.Error(), tc.key+": ") {
			t.Errorf("%s with %s locked: %v, want %q", tc.given, tc.lock, err, tc.key)
		}
	}
}

// A reference to a Secret is taken as a whole: a part of it in a Rollout cannot name
// another Secret of the preset's namespace.
func TestAReferenceIsTakenWhole(t *testing.T) {
	ref := map[string]any{"namespace": "admin", "name": "ci", "key": "token"}
	for config, under := range map[string]map[string]any{
		`{"auth": {"valueFrom": {"secretKeyRef": {"name": "other", "key": "token"}}}}`: {"auth": map[string]any{"valueFrom": map[string]any{"secretKeyRef": ref}}},
		`{"auth": {"valueFrom": {"secretKeyRef": {"name": "other"}}}}`:                 {"auth": map[string]any{"valueFrom": map[string]any{"secretKeyRef": ref}}},
		`{"auth": {"valueFrom": {}}}`:                                                  {"auth": map[string]any{"valueFrom": map[string]any{"secretKeyRef": ref}}},
		`{"caFrom": {"configMapKeyRef": {"name": "other", "key": "ca.crt"}}}`:          {"caFrom": map[string]any{"configMapKeyRef": ref}},
		`{"clientCertificateFrom": {"secretRef": {"name": "other"}}}`:                  {"clientCertificateFrom": map[string]any{"secretRef": map[string]any{"namespace": "admin", "name": "ci"}}},
	} {
		var over map[string]any
		if err := json.Unmarshal([]byte(config), &over); err != nil {
			t.Fatal(err)
		}
		merged, _ := json.Marshal(merge(under, over))
		if strings.Contains(string(merged), "admin") {
			t.Errorf("%s makes %s", config, merged)
		}
	}
}

// A Rollout cannot name a Secret or a ConfigMap by namespace, wherever and however it writes that.
func TestSecretsOfOtherNamespaces(t *testing.T) {
	for config, refused := range map[string]bool{
		`{"a": [{"b": {"valueFrom": {"secretKeyRef": {"namespace": "admin"}}}}]}`:  true,
		`{"a": {"VALUEFROM": {"SecretKeyRef": {"NAMESPACE": "admin"}}}}`:           true,
		`{"secretKeyRef": {"namespace": ""}}`:                                      true,
		`{"secretKeyRef": {"name": "own", "key": "k"}}`:                            false,
		`{"caFrom": {"configMapKeyRef": {"namespace": "admin"}}}`:                  true,
		`{"server": {"clientCertificateFrom": {"secretRef": {"namespace": "a"}}}}`: true,
		`{"json": {"namespace": "demo"}}`:                                          false,
		``:                                                                         false,
	} {
		object, err := objectOf(json.RawMessage(config))
		if err != nil {
			t.Fatal(err)
		}
		if err := rejectOtherNamespaces(object); (err != nil) != refused {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// Whatever a Rollout's author writes, locked keys stay as the preset has them, and no
// reference to a Secret has a namespace that the preset did not give it.
func FuzzPreset(f *testing.F) {
	f.Add(`{"use": "smoke", "http": {"request": {"url": "x"}}}`)
	f.Add(`{"use": "smoke", "http": {"request": {"headers": {"Authorization": {"valueFrom": {"secretKeyRef": {"namespace": "x"}}}}}}}`)
	f.Add(`{"use": "smoke", "http": {"request": {"tags": [{"secretKeyRef": {"Namespace": "x"}}]}}}`)
	f.Add(`{"use": "smoke", "http": {"server": {"url": "x"}}, "timeout": "1m"}`)
	f.Fuzz(func(t *testing.T, config string) {
		kind := &kept{name: "http"}
		_, err := (Reader{Kinds: []Kind{kind}}).read(rolloutIn("demo"), []byte(config), false, smoke(t))
		if err != nil || kind.source.Preset == "" {
			return
		}
		var exact map[string]map[string]json.RawMessage
		_ = json.Unmarshal(kind.source.Config, &exact)
		if string(exact["request"]["url"]) != `"/runs"` || string(exact["server"]["url"]) != `"https://ci.example.com"` {
			t.Errorf("%s makes %s", config, kind.source.Config)
		}
		var headers map[string]json.RawMessage
		_ = json.Unmarshal(exact["server"]["headers"], &headers)
		if !strings.Contains(string(headers["Authorization"]), `"argo-rollouts"`) || slices.Contains([]string{"null", ""}, string(headers["Authorization"])) {
			t.Errorf("%s makes %s", config, kind.source.Config)
		}
	})
}
