package cel

import (
	"regexp"
	"strings"
)

// literal matches a string of an expression.
var literal = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'|`[^`]*`")

// otherSyntax is what authors write who know Go's templates or expr, and what it is in CEL.
var otherSyntax = []struct {
	form *regexp.Regexp
	help string
}{
	{regexp.MustCompile(`^-\s|\s-$`), `{{- and -}} are not offered: {{ and }} keep the space around them`},
	{regexp.MustCompile(`^\s*(if|else|end|range|with|define|block|template)\b`), `a text has values alone: a condition is {{ weight > 20 ? "a" : "b" }}, a loop {{ list.map(x, x.name).join(",") }}`},
	{regexp.MustCompile(`^\s*(get|index|dig|default)\s`), `a key is written {{ rollout.labels["team"] }}, and one that may be missing {{ rollout.labels[?"team"].orValue("none") }}`},
	{regexp.MustCompile(`^\s*\.?\w+(\.\w+)*\s+[."]`), `a function is written f(x) or x.f(y), and a name without a dot before it: {{ rollout.name.upperAscii() }}`},
	{regexp.MustCompile(`[^|]\|[^|]`), `a function is written f(x) or x.f(y), not after |: {{ rollout.name.upperAscii() }}`},
	{regexp.MustCompile(`^\s*\.|[\s(]\.\w`), `a name has no dot before it: {{ rollout.name }}`},
	{regexp.MustCompile(`\?\?`), `a value that may be missing is written response.json[?"state"].orValue("none")`},
	{regexp.MustCompile(`\?\.`), `a key that may be missing is written with ? before its name: response.json.?state.orValue("none")`},
	{regexp.MustCompile(`\b(and|or|not)\b|[^&]&[^&]`), `and, or, not are written &&, ||, !`},
	{regexp.MustCompile(`[^=!<>]=[^=]`), `equal is written ==`},
	{regexp.MustCompile(`\b(labels|annotations|headers|steps|new|old)\.[\w.]+[-/]\w`), `a key with - or / is written rollout.labels["app.kubernetes.io/name"], and so steps["my-id"].outputs.url`},
	{regexp.MustCompile(`\bmatches\s`), `matches is written response.text.matches("^done")`},
	{regexp.MustCompile(`\b(contains|startsWith|endsWith)\s`), `contains is written response.text.contains("done"), and so startsWith and endsWith`},
	{regexp.MustCompile(`\bnil\b`), `nil is written null; has(response.json.state) tells whether there is a key`},
	{regexp.MustCompile(`#|\{\s*\.`), `a function over a list names its item: response.json.jobs.all(job, job.conclusion == "success")`},
	{regexp.MustCompile(`\blet\s`), `there are no variables`},
}

// otherFunctions are functions of Go's templates, sprig and expr, and what they are in CEL.
var otherFunctions = map[string]string{
	"len": `size(x)`, "count": `list.filter(x, x.ok).size()`, "any": `list.exists(x, x.ok)`, "some": `list.exists(x, x.ok)`,
	"none": `!list.exists(x, x.ok)`, "one": `list.exists_one(x, x.ok)`, "all": `list.all(x, x.ok)`, "exists": `list.exists(x, x.ok)`,
	"filter": `list.filter(x, x.ok)`, "map": `list.map(x, x.name)`, "find": `list.filter(x, x.ok)[0]`,
	"first": `list[0]`, "last": `list[size(list) - 1]`, "keys": `object.map(key, key)`, "values": `object.map(key, object[key])`,
	"upper": `x.upperAscii()`, "lower": `x.lowerAscii()`, "hasPrefix": `x.startsWith("a")`, "hasSuffix": `x.endsWith("a")`,
	"trimPrefix": `x.substring(2)`, "trunc": `x.substring(0, 8)`, "substr": `x.substring(0, 8)`, "quote": `strings.quote(x)`,
	"default": `object[?"key"].orValue("none")`, "get": `object[?"key"].orValue("none")`, "index": `object["key"]`, "hasKey": `has(object.key)`,
	"print": `"a" + string(x)`, "printf": `"a" + string(x)`, "concat": `a + b`, "float": `double(x)`, "float64": `double(x)`, "int64": `int(x)`, "atoi": `int(x)`,
	"toString": `string(x)`, "toBase64": `base64.encode(bytes(x))`, "b64enc": `base64.encode(bytes(x))`,
	"fromBase64": `string(base64.decode(x))`, "b64dec": `string(base64.decode(x))`,
	"ternary": `condition ? a : b`, "optMap": `has(object.key) ? object.key : "none"`, "optFlatMap": `has(object.key) ? object.key : "none"`,
}

// helpFor returns what to write in place of the syntax of another language; empty for none.
func helpFor(source string) string {
	without := literal.ReplaceAllString(source, `""`)
	for _, other := range otherSyntax {
		if other.form.MatchString(without) {
			return "this is CEL: " + other.help
		}
	}
	return ""
}

// withHelp returns an error for an expression that could not be read, with help if it is in
// the syntax of another language.
func (x *Expression) withHelp(err error) error {
	if help := helpFor(strings.TrimRight(x.source, "\r\n\t")); help != "" {
		return x.errorf("%s", help)
	}
	return x.errorf("%w", err)
}
