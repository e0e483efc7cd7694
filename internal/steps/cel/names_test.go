package cel

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func TestWrongExpressionsShowWhatToWrite(t *testing.T) {
	for source, want := range map[string]string{
		`rollot.name`:                  `there is no rollot: did you mean rollout.name?`,
		`rollout.nme`:                  `there is no rollout.nme: did you mean rollout.name?`,
		`rollout`:                      `rollout is no value of its own: write rollout.annotations, rollout.labels, rollout.name, rollout.namespace, rollout.uid`,
		`response`:                     `response is no value of its own: write response.headers, response.json, response.status, response.text`,
		`response.jsn.state`:           `there is no response.jsn: did you mean response.json?`,
		`a.b`:                          `there is no a: there are hash, images, outputs, response, revision, rollout, services, step, steps, weight`,
		`outputs.idd`:                  `there is no output idd: did you mean id?`,
		`outputs[?"idd"].orValue("")`:  `there is no output idd: did you mean id?`,
		`has(outputs.idd)`:             `there is no output idd: did you mean id?`,
		`steps.biuld.outputs.x`:        `there is no step biuld before this one: did you mean build?`,
		`steps.build.sha`:              `a step has outputs alone: write steps.build.outputs.sha`,
		`response.headers["Location"]`: `the names of headers are in lower case: write response.headers["location"]`,
		`[1].map(x, rollout.nme)`:      `there is no rollout.nme: did you mean rollout.name?`,
		`response.json.steps.all(step, step.id > 0)`: `step is a declared name: name the item otherwise`,
		`[1].map(x, y)`:                            `there is no y: there are`,
		`weight * 0.5`:                             `* does not work with int, double: double(x), int(x) and string(x) convert`,
		`weight.all(x, true)`:                      `all, exists, exists_one, map and filter need a list or an object, not int`,
		`rollout.name.foo`:                         `a string has no keys`,
		`rollout.name.trimm()`:                     `there is no function trimm: did you mean trim?`,
		`outputs.id.matches("(")`:                  `no regular expression: missing closing )`,
		`outputs.id.matches("(?i)[A-\\x{1E920}]")`: `a regular expression has ASCII characters alone, and no \x`,
		`outputs.id.matches("\\pL")`:               `no regular expression: invalid escape sequence`,
		strings.Repeat("[]+", 60) + "[]==" + strings.Repeat("[]+", 300) + "[]": `an expression of so many parts`,
		"[" + strings.Repeat("{},", 650) + "{}]":                               `too many parts together`,
		`outputs.id.matches("(x{1000}){1000}")`:                                `no regular expression: invalid repeat count`,
		`outputs.id.matches("((x{30}){30}){30}")`:                              `no regular expression`,
		`"%d".format([1])`:                 `function format is not offered`,
		`google.protobuf.Int32Value{}`:     `there are no types of objects`,
		`raw(rollout.name)`:                `raw(…) is for URLs, where it stands alone between {{ and }}`,
		`response.json.state +`:            `column 22: unexpected end`,
		"1 +\n* 2":                         `line 2, column 1: unexpected '*'`,
		`"abc`:                             `column 1: unexpected '"abc'`,
		strings.Repeat("1 + ", 2000) + "1": `an expression of more than 2 KiB is not allowed`,
		strings.Repeat("(", 200):           `an expression of so many parts`,
		strings.Repeat("[", 61) + strings.Repeat("]", 61): `an expression of so many parts`,
	} {
		if _, err := newEnv(t).Value(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: the error is\n%v, want\n%s", source, err, want)
		}
	}
}

// TestMistakesInTexts: each is among those that authors make most.
func TestMistakesInTexts(t *testing.T) {
	for source, want := range map[string]string{
		`{{ rollout.labels["team] }} and {{ rollout.name }}`: `"team] }} and {{ rollout.name }} has no quote that ends it`,
		`{{ rollout.labels[team"] }}`:                        `"] }} has no quote that ends it`,
		`{{ {"a": 1 }}`:                                      `there is no }} after it, besides the } that ends each { in it`,
		`{{ rollout.name }`:                                  `there is no }} after it`,
		`{{ (rollout.name }}`:                                `missing ')' at end`,
		`{{ rollout.name) }}`:                                `unexpected ')'`,
		`{{ $.step.key }}`:                                   `unexpected '$'`,
		`{{ output.id }}`:                                    `did you mean outputs.id?`,
		`{{ weight == 1 & true }}`:                           `&&, ||, !`,
		`{{ response.status = 200 }}`:                        `equal is written ==`,
		`{{ response.status == "200" }}`:                     `== does not work with int, string: double(x), int(x) and string(x) convert`,
		`{{ weight ? "a" : "b" }}`:                           `?: does not work with int, string, string: it has true or false before the ?`,
		`{{ rollout.name.replace("a") }}`:                    `replace does not work with string, string`,
		`{{ rollout.labels.team-a }}`:                        `rollout.labels["app.kubernetes.io/name"]`,
		`{{ steps.my-build.outputs.id }}`:                    `steps["my-id"].outputs.url`,
	} {
		if _, err := newEnv(t).Text(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is\n%v, want\n%s", source, err, want)
		}
	}
}

func TestOldSyntaxShowsTheNew(t *testing.T) {
	for source, want := range map[string]string{
		`{{ .rollout.name }}`:                            `{{ rollout.name }}`,
		`{{ index .steps "build" }}`:                     `rollout.labels[?"team"].orValue("none")`,
		`{{ get .rollout.labels "team" | default "x" }}`: `rollout.labels[?"team"].orValue("none")`,
		`{{ .rollout.name | upper }}`:                    `rollout.name.upperAscii()`,
		`{{ upper .rollout.name }}`:                      `rollout.name.upperAscii()`,
		`{{ upper(rollout.name) }}`:                      `upper is written x.upperAscii()`,
		`{{- rollout.name -}}`:                           `{{- and -}} are not offered`,
		`{{ if .x }}a{{ end }}`:                          `weight > 20 ? "a" : "b"`,
		`{{ range .images.new }}{{ end }}`:               `list.map(x, x.name)`,
		`{{ response.json.a ?? "b" }}`:                   `response.json[?"state"].orValue("none")`,
		`{{ response.json?.a }}`:                         `response.json.?state.orValue("none")`,
		`{{ weight > 1 and weight < 3 }}`:                `&&, ||, !`,
		`{{ not true }}`:                                 `&&, ||, !`,
		`{{ response.text matches "x" }}`:                `response.text.matches("^done")`,
		`{{ response.text contains "x" }}`:               `response.text.contains("done")`,
		`{{ response.json.a == nil }}`:                   `null`,
		`{{ all(response.json.jobs, .ok) }}`:             `{{ rollout.name }}`,
		`{{ all(response.json.jobs, {.ok}) }}`:           `response.json.jobs.all(job, job.conclusion == "success")`,
		`{{ any(response.json.jobs, # > 1) }}`:           `response.json.jobs.all(job, job.conclusion == "success")`,
		`{{ len(response.json.jobs) }}`:                  `len is written size(x)`,
		`{{ any(response.json.jobs, true) }}`:            `any is written list.exists(x, x.ok)`,
		`{{ toBase64(outputs.id) }}`:                     `base64.encode(bytes(x))`,
		`{{ response.json.?a.optMap(x, x) }}`:            `optMap is written`,
		`{{ "and" + " or ?? " + not }}`:                  `&&, ||, !`,
	} {
		if _, err := newEnv(t).Text(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is\n%v, want\n%s", source, err, want)
		}
	}
}

func TestKindsWithoutAResponseOrOutputs(t *testing.T) {
	e, err := New(Declarations{})
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		`response.status`: "there is no response here",
		`outputs.id`:      "there is no output id: the step has no outputs",
		`abort.reason`:    "there is no abort here: it is for requests and Jobs that cancel a step or take it back",
		`respons.status`:  "there are hash, images, outputs, revision, rollout, services, step, steps, weight",
	} {
		if _, err := e.Value(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := e.Value(`steps.any.outputs.x`); err != nil {
		t.Error(err)
	}
	left := *e.left
	if _, err := e.WithResponse().Value(`response.status`); err != nil || *e.left >= left {
		t.Errorf("%v, %d left of %d", err, *e.left, left)
	}
	left = *e.left
	if x, err := e.WithAbort().Value(`abort.reason + rollout.name`); err != nil || *e.left >= left || !x.Uses("abort.reason") {
		t.Errorf("%v, %d left of %d", err, *e.left, left)
	}
	if _, err := e.WithAbort().Value(`abortt.reason`); err == nil || !strings.Contains(err.Error(), "did you mean abort.reason?") {
		t.Errorf("got %v", err)
	}
}

func TestReferences(t *testing.T) {
	for source, want := range map[string]References{
		`1 + 2`: {},
		`rollout.labels["a"] + images.old.app + rollout.labels["b"]`: {Names: []string{"images.old", "rollout.labels"}},
		`response.json.jobs.all(job, job.ok)`:                        {Names: []string{"response.json"}},
		`outputs.id + outputs[?"url"].orValue("") + string(has(outputs.empty))`: {
			Names: []string{"outputs"}, Outputs: []string{"empty", "id", "url"}},
		`steps.build.outputs.sha + steps["build"].outputs[rollout.name]`: {
			Names: []string{"rollout.name", "steps"}, Steps: []string{"build"}},
		`steps.map(id, steps[id].outputs.sha)`: {Names: []string{"steps"}},
		`{rollout.name: [weight]}`:             {Names: []string{"rollout.name", "weight"}},
		`string(response.status)`:              {Names: []string{"response.status"}},
	} {
		x, err := newEnv(t).Value(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if !reflect.DeepEqual(x.References, want) {
			t.Errorf("%s: %+v, want %+v", source, x.References, want)
		}
	}
	text, err := newEnv(t).URL(`https://ci/{{ outputs.id }}/{{ raw(response.json.path) }}`)
	if err != nil {
		t.Fatal(err)
	}
	if !text.Uses("response") || !text.Uses("response.json") || text.Uses("response.text") || !text.Raw() || text.Constant() || text.Prefix() != "https://ci/" {
		t.Errorf("%+v", text)
	}
}

func TestReferencesInAnyText(t *testing.T) {
	for text, want := range map[string][]string{
		`{{ steps.a.outputs.x }} and {{ nope + steps["b-c"].outputs.y }}`: {"a", "b-c"},
		`steps.a.outputs.ok == "yes"`:                                     {"a"},
		`https://ci/steps/a`:                                              nil,
		`{{ steps.a. }}`:                                                  nil,
		`{{ steps.a`:                                                      nil,
		`{{ steps.a.sha }}{{ outputs.x + steps.b.outputs.y }}`:            {"a", "b"},
	} {
		if got := ReferencesIn(text).Steps; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestAnObjectOfTheCluster: a condition over an object sees nothing else that way, and what is
// not there yet can be told from a mistake.
func TestAnObjectOfTheCluster(t *testing.T) {
	with, err := New(Declarations{Object: true})
	if err != nil {
		t.Fatal(err)
	}
	given := Vars{"object": map[string]any{"status": map[string]any{"phase": "Failed", "conditions": []any{}}}}
	for source, key := range map[string]string{
		`object.status.state == "done"`:                          "state",
		`object.status.conditions[0].status == "True"`:           "",
		`object.status.?state.value() == "done"`:                 "",
		`object.status.jobs.exists(j, j.ok)`:                     "jobs",
		`object.status.phase == "Running" && object.result == 1`: "-", // not looked at
		`object.status.phase == "Failed" || object.result == 1`:  "-",
	} {
		x, err := with.Condition(source)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Bool(t.Context(), NewBudget(), given)
		var missing *MissingError
		if is := errors.As(err, &missing); is != (key != "-") || is && missing.Key != key {
			t.Errorf("%s: %v", source, err)
		}
	}
	wrong, err := with.Condition(`object.status.phase > 1`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Bool(t.Context(), NewBudget(), given); err == nil || errors.As(err, new(*MissingError)) {
		t.Errorf("a comparison of a text with a number: %v", err)
	}
	if _, err := newEnv(t).Value(`object.status`); err == nil || !strings.Contains(err.Error(), "there is no object here") {
		t.Errorf("where there is none: %v", err)
	}
	if _, err := newEnv(t).Value(`response.json.jobs.all(object, object.ok)`); err != nil {
		t.Errorf("an item of that name, where there is none: %v", err)
	}
	if _, err := with.Value(`["a"].all(object, object == "a")`); err == nil || !strings.Contains(err.Error(), "object is a declared name") {
		t.Errorf("an item of that name: %v", err)
	}
}

// TestScopeHasTheDeclaredNames: outputs, response and object come from the kind of step.
func TestScopeHasTheDeclaredNames(t *testing.T) {
	scope := Vars(steps.Scope(steps.Work{Rollout: &v1alpha1.Rollout{}}, nil))
	for name := range variables {
		if _, ok := scope.find(name); !ok && name != "outputs" && name != objectName && !strings.HasPrefix(name, "response.") {
			t.Errorf("%s has no value", name)
		}
	}
	for root, value := range scope {
		parts, isObject := value.(map[string]any)
		if variables[root] != nil {
			continue
		}
		if !isObject {
			t.Errorf("%s is not declared", root)
		}
		for part := range parts {
			if variables[root+"."+part] == nil {
				t.Errorf("%s.%s is not declared", root, part)
			}
		}
	}
}
