package cel

import (
	"context"
	"reflect"
	"strings"
	"testing"
)

// declared are the names that tests use.
var declared = Declarations{Outputs: []string{"id", "url", "empty"}, Response: true, Steps: []string{"build"}}

func newEnv(t testing.TB) *Env {
	t.Helper()
	e, err := New(declared)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// vars are values as those of a request.
func vars(t testing.TB) Vars {
	t.Helper()
	body, err := FromJSON([]byte(`{"state": "done", "count": 3, "ratio": 0.25, "id": 9007199254740993, "none": null, "flag": true,
		"jobs": [{"name": "b", "n": 2, "ok": true}, {"name": "a", "n": 1, "ok": false}], "tags": ["x", "y"], "map": {"b": 1, "a": 2}}`))
	if err != nil {
		t.Fatal(err)
	}
	return Vars{
		"rollout": map[string]any{"name": "shop", "namespace": "demo", "uid": "u", "labels": map[string]any{"app.kubernetes.io/name": "shop", "team": `a"b`},
			"annotations": map[string]any{"long": strings.Repeat("a", 200<<10), "evil": "a?admin=true#", "dots": "..", "dot": ".", "lines": "a\r\nb", "path": "../admin", "host": "evil.com/"}},
		"images": map[string]any{"new": map[string]any{"app": "yr/app:v2"}, "old": map[string]any{}},
		"hash":   map[string]any{"new": "n", "old": "o"}, "services": map[string]any{"stable": "shop", "canary": "shop-canary"},
		"step":   map[string]any{"index": 2, "id": "e2e", "key": "k", "plugin": "kedify/step", "preset": ""},
		"weight": 20, "revision": 7,
		"steps":    map[string]any{"build": map[string]any{"outputs": map[string]any{"sha": "abc"}}},
		"outputs":  map[string]any{"id": "17", "url": "https://ci.example.com/runs/17", "empty": ""},
		"response": map[string]any{"status": 200, "headers": map[string]any{"location": "/r"}, "text": "done", "json": body},
	}
}

func TestConditions(t *testing.T) {
	for source, want := range map[string]bool{
		`response.status == 200 && response.json.state == "done"`:                true,
		`response.json.jobs.all(j, j.ok)`:                                        false,
		`response.json.jobs.exists(j, j.name == "a" && j.n < 2)`:                 true,
		`response.json.ratio < 1 && response.json.count >= 3.0 && weight < 20.5`: true,
		`has(response.json.state) && !has(response.json.nope)`:                   true,
		`response.json.?nope.deeper.orValue("x") == "x"`:                         true,
		`"x" in response.json.tags && "a" in response.json.map`:                  true,
		`response.headers[?"etag"].orValue("") == ""`:                            true,
		`response.json.flag`:                                  true,
		`response.text.matches("^d.ne$")`:                     true,
		`"shop" == rollout.name.lowerAscii()`:                 true,
		`response.json.none == null`:                          true,
		`has(outputs.id) && steps.build.outputs.sha == "abc"`: true,
	} {
		x, err := newEnv(t).Condition(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := x.Bool(context.Background(), NewBudget(), vars(t)); err != nil || got != want {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
}

func TestValues(t *testing.T) {
	for source, want := range map[string]any{
		`response.json.ratio * 2`:                                                 0.5,
		`response.json.count + response.json.ratio`:                               3.25,
		`response.json.count / 2`:                                                 int64(1),
		`response.json.tags + [1] + response.json.tags`:                           []any{"x", "y", int64(1), "x", "y"},
		`response.json.jobs.filter(j, j.ok).map(j, j.name)`:                       []any{"b"},
		`response.json.jobs.map(j, j.ok, j.n)`:                                    []any{int64(2)},
		`response.json.map.map(k, k)`:                                             []any{"a", "b"},
		`{"b": 1, "a": [null, 1.5]}`:                                              map[string]any{"b": int64(1), "a": []any{nil, 1.5}},
		`[response.json.tags] == [["x","y"]]`:                                     true,
		`response.json.count in [1, 3.0]`:                                         true,
		`"z" in response.json.map`:                                                false,
		`optional.of(rollout.name).orValue("")`:                                   "shop",
		`rollout.labels[?"x"].or(rollout.labels[?"team"]).orValue("")`:            `a"b`,
		`base64.encode(bytes("abc")) + string(base64.decode("YQ=="))`:             "YWJja",
		`strings.quote("a\"b")`:                                                   `"a\"b"`,
		`"a-b".replace("-", "+") + "abc".substring(1) + " x ".trim()`:             "a+bbcx",
		`"a,b".split(",").join("-") + "ab".charAt(1) + string("ab".indexOf("b"))`: "a-bb1",
		`type(weight) == int`:                                                     true,
		`timestamp("2024-01-01T00:00:00Z").getHours("Europe/Berlin")`:             int64(1),
		`timestamp("2024-01-02T03:04:05Z") - duration("1h")`:                      "2024-01-02T02:04:05Z",
		`weight > 10 ? "a" : "b"`:                                                 "a",
		`(weight > 10 ? response.json : response.headers).state`:                  "done",
		`response.json.jobs[response.json.ratio < 1 ? 1 : 0].name`:                "a",
	} {
		x, err := newEnv(t).Value(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := x.Value(context.Background(), NewBudget(), vars(t)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", source, got, err)
		}
	}
}

func TestConditionsAndOutputsHaveTheirTypes(t *testing.T) {
	e := newEnv(t)
	if _, err := e.Condition(`weight`); err == nil || err.Error() != "weight: want true or false, not a number" {
		t.Error(err)
	}
	if _, err := e.Output(`rollout.labels`); err == nil || err.Error() != "rollout.labels: want a text, a number or a boolean, not an object" {
		t.Error(err)
	}
	x, err := e.Condition(`response.json.count`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Bool(context.Background(), NewBudget(), vars(t)); err == nil || err.Error() != "response.json.count: want true or false, not a number" {
		t.Error(err)
	}
}
