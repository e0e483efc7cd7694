package expression

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/builtin"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// env is an environment like that of a request.
func env(t testing.TB) map[string]any {
	t.Helper()
	var body any
	if err := json.Unmarshal([]byte(`{"state": "done", "count": 3, "ratio": 0.25, "big": 12345678901, "none": null, "flag": true,
		"jobs": [{"name": "b", "conclusion": "success", "n": 2}, {"name": "a", "conclusion": "failure", "n": 1}],
		"tags": ["x", "y"], "map": {"b": 1, "a": 2}}`), &body); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"status": 200, "body": body, "text": strings.Repeat("a", 60<<10), "nothing": nil,
		"numbers": slices.Repeat([]any{1.0, 2.0}, 1000), "huge": strings.Repeat("a", 2<<20),
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`status == 200 && body.state == "done"`:                                                                                          true,
		`status in [200, 201] and not (body.count > 3)`:                                                                                  true,
		`all(body.jobs, .conclusion == "success")`:                                                                                       false,
		`any(body.jobs, .conclusion == "failure" && .n < 2)`:                                                                             true,
		`len(filter(body.jobs, .n > 0)) == 2 and count(body.jobs, .n == 2) == 1`:                                                         true,
		`body.nope == nil and body?.nope?.deeper == nil`:                                                                                 true,
		`nothing?.state == nil`:                                                                                                          true,
		`1 + len(nothing?.list ?? [1]) == 2`:                                                                                             true,
		`"x" in body.tags and "a" in body.map and not ("z" in body.map)`:                                                                 true,
		`body.state matches "^d.ne$" and not (body.none matches "x")`:                                                                    true,
		`body.state contains "on" and body.state startsWith "d" and body.state endsWith "e"`:                                             true,
		`let jobs = body.jobs; len(jobs) == 2`:                                                                                           true,
		`body.jobs[0].name == "b" and body.jobs[-1].name == "a" and body["state"] == "done"`:                                             true,
		`reduce(1..4, #acc + #, 0) == 10 and sum(map(body.jobs, .n)) == 3`:                                                               true,
		`map(sortBy(body.jobs, .n), .name) == ["a", "b"]`:                                                                                true,
		`keys(body.map) == ["a", "b"] and values(body.map) == [2, 1]`:                                                                    true,
		`replace("aXa", "X", "-") == "a-a" and join(split("a,b", ","), ";") == "a;b" and trim(" a ") == "a" and trim("/a/", "/") == "a"`: true,
		`fromJSON("{\"a\": [1]}").a[0] == 1 and toJSON([1]) contains "1"`:                                                                true,
		`int("7") == 7 and float("1.5") == 1.5 and string(1) == "1" and type("a") == "string"`:                                           true,
		`findIndex(body.jobs, .n == 1) == 1 and find(body.jobs, .n == 1).name == "a"`:                                                    true,
		`body.flag ? true : false`:                                                                                                       true,
		`groupBy(body.jobs, .name)["a"][0].n == 1`:                                                                                       true,
		`{"a": 1}.a == 1 and [1, 2][1] == 2`:                                                                                             true,
		`len(huge) > 100 and huge[0:1] == "a"`:                                                                                           true,
	} {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("Compile(%s): %v", text, err)
			continue
		}
		if got, err := e.Bool(env(t)); err != nil || got != want {
			t.Errorf("Bool(%s) = %v, %v", text, got, err)
		}
	}
}

func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		`body.state`: "done", `body.count`: "3", `body.ratio`: "0.25", `body.big`: "12345678901", `status`: "200",
		`body.flag`: "true", `"build-" + string(body.count)`: "build-3", `1e30`: "1e+30", `7 / 2`: "3.5", `status + 1`: "201",
		`body.jobs[0].name + "-" + body.state`: "b-done",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("Compile(%s): %v", text, err)
			continue
		}
		if got, err := e.Text(env(t)); err != nil || got != want {
			t.Errorf("Text(%s) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`body.jobs`: `expression "body.jobs": want a text, a number or a boolean, not a list`,
		`body.map`:  `expression "body.map": want a text, a number or a boolean, not an object`,
		`body.none`: `expression "body.none": want a text, a number or a boolean, not nothing`,
		`huge`:      `expression "huge": a text of more than 64 KiB is not allowed`,
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Text(env(t)); err == nil || err.Error() != want {
			t.Errorf("Text(%s) = %.20q, %v, want %s", text, got, err, want)
		}
	}
}

func TestCompileSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("a", 200)
	for text, want := range map[string]string{
		`status = 200`:              `expression "status = 200": column 8: unexpected token Operator("=")`,
		"status ==\n(200":           "expression \"status ==\\n(200\": line 2, column 4: unexpected token EOF",
		`contain(body, "x")`:        `expression "contain(body, \"x\")": column 1: there is no function contain: did you mean concat?`,
		`now() > 1`:                 `expression "now() > 1": column 1: function now is not offered`,
		`repeat("a", 1000000)`:      `expression "repeat(\"a\", 1000000)": column 1: function repeat is not offered`,
		`date("2026-01-01").Unix()`: `expression "date(\"2026-01-01\").Unix()": column 1: function date is not offered`,
		`body.String()`:             `expression "body.String()": column 6: there are no methods`,
		`$env.status == 200`:        `expression "$env.status == 200": column 1: $env is not offered`,
		`all(body.jobs, "x")`:       `expression "all(body.jobs, \"x\")": column 16: predicate should return boolean (got string)`,
		`1 + "a"`:                   `expression "1 + \"a\"": column 3: invalid operation: + (mismatched types int and string)`,
		`status matches "("`:        "expression \"status matches \\\"(\\\"\": column 16: regular expression \"(\": error parsing regexp: missing closing ): `(`",
		`status matches "` + strings.Repeat("x{1000}", 30) + `"`: `expression "status matches \"` + strings.Repeat("x{1000}", 12)[:81] + `…": column 16: regular expression "` + strings.Repeat("x{1000}", 30) + `": it repeats too much`,
		strings.Repeat("a", 4<<10+1):                             `an expression of more than 4 KiB is not allowed`,
		strings.Repeat("1+", 1000) + "1":                         `expression "` + strings.Repeat("1+", 48) + "1" + `…": column 1002: compilation failed: expression exceeds maximum allowed nodes`,
		long + "()":                                              `expression "` + long[:97] + `…": column 1: function ` + long[:61] + `… is not offered`,
		"":                                                       `expression "": column 1: unexpected token EOF`,
	} {
		_, err := Compile(text)
		if err == nil || err.Error() != want {
			t.Errorf("Compile(%.60s) is the error\n%v, want\n%s", text, err, want)
		}
	}
}

func TestEvaluationSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`stauts == 200`:                `expression "stauts == 200": there is no stauts: did you mean status?`,
		`false && bdy.x`:               `expression "false && bdy.x": there is no bdy: did you mean body?`,
		`status`:                       `expression "status": want true or false, not a number`,
		`body.state`:                   `expression "body.state": want true or false, not a text`,
		`nothing.state == 1`:           `expression "nothing.state == 1": column 9: cannot fetch state from <nil>`,
		`body.jobs[5].n == 1`:          `expression "body.jobs[5].n == 1": column 10: index out of range: 5 (array length is 2)`,
		`body.state > 1`:               `expression "body.state > 1": column 12: invalid operation: string > int`,
		`join(body.jobs) == ""`:        `expression "join(body.jobs) == \"\"": column 1: join: want a text, not an object`,
		`keys(body.state) == []`:       `expression "keys(body.state) == []": column 1: keys: want an object, not a text`,
		`fromJSON("{") == nil`:         `expression "fromJSON(\"{\") == nil": column 1: unexpected end of JSON input`,
		`"x" matches body.state + "("`: "expression \"\\\"x\\\" matches body.state + \\\"(\\\"\": column 5: regular expression \"done(\": error parsing regexp: missing closing ): `done(`",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("Compile(%s): %v", text, err)
			continue
		}
		if _, err := e.Bool(env(t)); err == nil || err.Error() != want {
			t.Errorf("Bool(%s) is the error\n%v, want\n%s", text, err, want)
		}
	}
}

func TestCheckNamesWhatIsNotGiven(t *testing.T) {
	e, err := Compile(`let x = body.state; any(body.jobs, .n == status) && x == "done"`)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Names(); !slices.Equal(got, []string{"body", "status"}) {
		t.Errorf("Names() = %v", got)
	}
	if err := e.Check("status", "body", "headers"); err != nil {
		t.Error(err)
	}
	if err := e.Check("body"); err == nil {
		t.Error("Check without status is no error")
	}
	if err := e.Check(); err == nil {
		t.Error("Check of nothing is no error")
	}
}

// hostile are expressions that would take much time or memory, or end the process.
var hostile = []string{
	`count(1..90000, all(1..90000, true)) > 0`,
	`count(1..50000, # > 0 and # > 1 and # > 2 and # > 3 and # > 4 and # > 5 and # > 6) > 0`,
	`any(numbers, any(numbers, any(numbers, any(numbers, false))))`,
	`len(1..1000000000) > 0`,
	`len(1..200000) > 0`,
	`len(map(1..90000, 1..90000)) > 0`,
	`reduce(1..100, #acc + #acc, "a") == ""`,
	`reduce(1..100, [#acc, #acc], []) == []`,
	`reduce(1..100, ({"a": #acc, "b": #acc}), {}) == reduce(1..100, ({"a": #acc, "b": #acc}), {})`,
	`toJSON(reduce(1..100, [#acc, #acc], [])) == ""`,
	`string(reduce(1..100, [#acc, #acc], [])) == ""`,
	`len(flatten(reduce(1..100, [#acc, #acc], []))) == 1`,
	`len(concat(reduce(1..100, concat(#acc, #acc), [1]))) == 1`,
	`toJSON(reduce(1..1000, [#acc], [])) == ""`,
	`reduce(1..100, toJSON([#acc, #acc]), "a") == ""`,
	`reduce(1..100, toBase64(#acc), "a") == ""`,
	`len(replace(text, "a", text)) > 0`,
	`len(replace(text, "", text)) > 0`,
	`len(join(split(text, ""), text)) > 0`,
	`text matches text`,
	`text matches "(a|aa|aaa|aaaa|aaaaa|aaaaaa){30}z" and text matches "(a*)*(b|c|d|e)*z"`,
	`count(1..10000, text matches "(a|b|c)*z") > 0`,
	`count(1..10000, text + text == text) > 0`,
	`count(1..10000, upper(text) == "") > 0`,
	`count(1..10000, text[#:] == text) > 0`,
	`all(sortBy(1..5000, text[#:]), true)`,
	`count(1..10000, len(split(text, "")) > 0) > 0`,
	`count(1..10000, len(keys(groupBy(numbers, #))) == 0) > 0`,
	`count(1..10000, numbers[text] == 1) > 0`,
	`count(1..5000, body.map[text] == nil) > 0`,
	`sum(map(numbers, sum(map(numbers, sum(numbers))))) > 0`,
	`count(1..10000, text in [text, text]) > 0`,
	`count(1..10000, sort(numbers) == numbers) > 0`,
	`count(1..1000, len(huge) == 0) > 0`,
	`count(1..1000, get(body.map, text) == nil) > 0`,
	`let a = split(text, ""); let b = split(text, ""); let c = split(text, ""); let d = split(text, ""); let e = split(text, ""); let f = split(text, ""); let g = split(text, ""); let h = split(text, ""); let i = split(text, ""); false`,
	`huge + huge == ""`,
	`upper(huge) == ""`,
	`len(trim(text, text)) > 0`,
	`let a = [1, 2]; let b = [a, a, a, a, a, a, a, a]; let c = [b, b, b, b, b, b, b, b]; let d = [c, c, c, c, c, c, c, c]; let e = [d, d, d, d, d, d, d, d]; let f = [e, e, e, e, e, e, e, e]; let g = [f, f, f, f, f, f, f, f]; g == g`,
}

func TestWhatAnAuthorWritesIsBounded(t *testing.T) {
	for _, text := range hostile {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("Compile(%s): %v", text, err)
			continue
		}
		if got, err := e.Bool(env(t)); err == nil {
			t.Errorf("Bool(%s) = %v", text, got)
		}
	}
}

// An evaluation changes nothing that it is given, and adds no names to it.
func TestEvaluationLeavesItsInputAlone(t *testing.T) {
	given := env(t)
	before := len(given)
	e, err := Compile(`len(sort(body.tags)) == 2 and len(reverse(body.tags)) == 2`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Bool(given); err != nil || len(given) != before {
		t.Errorf("%d names after, %v", len(given), err)
	}
}

func TestDocstringHasTheFunctions(t *testing.T) {
	source, err := os.ReadFile("expression.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage ")
	_, table, _ := strings.Cut(doc, "The functions offered are")
	words := regexp.MustCompile(`[a-zA-Z0-9]+`).FindAllString(table, -1)
	for _, function := range Functions() {
		if !slices.Contains(words, function) {
			t.Errorf("the docstring does not have %s", function)
		}
		if _, ok := builtin.Index[function]; !ok {
			t.Errorf("expr has no function %s", function)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	for _, function := range Functions() {
		f.Add(function + `(text)`)
		f.Add(function + `(numbers, # > 1)`)
		f.Add(function + `(body.map, "a", 2)`)
	}
	f.Add(`nothing?.list[1:2] ?? [1, 2][0] == (status matches "x" ? 1 : -2.5e3) || not (body.jobs[0]["name"] in {"a": nil})`)
	f.Add(`let x = 1..3; if x[0] > 1 { "a" } else { "b" } | upper() | len()`)
	given := env(f)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text)
		if err != nil {
			return
		}
		budget := bound.New(maxWork, maxValue)
		_, _ = e.evaluate(given, budget)
		if budget.Left() < 0 {
			t.Errorf("%d units left", budget.Left())
		}
		got, err := e.Text(given)
		if len(got) > maxTextResult || err != nil && got != "" {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		again, err2 := e.Text(given)
		if again != got || (err == nil) != (err2 == nil) {
			t.Errorf("evaluated twice: %q, %v, then %q, %v", got, err, again, err2)
		}
	})
}
