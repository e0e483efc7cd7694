package cel

import (
	"fmt"
	"strings"
	"testing"
)

// large are values as large as they can be: an answer of a megabyte, and annotations.
func large(t testing.TB) Vars {
	t.Helper()
	v := vars(t)
	var body strings.Builder
	body.WriteString(`{"big": "` + strings.Repeat("a", 250_000) + `", "one": [`)
	for i := range 20_000 {
		fmt.Fprintf(&body, "%d,", i)
	}
	body.WriteString(`0], "objects": [`)
	for i := range 5_000 {
		fmt.Fprintf(&body, `{"id": %d, "name": "job %[1]d", "ok": true, "tags": ["x", "y"]},`, i)
	}
	body.WriteString(`{}], "many": {`)
	for i := range 5_000 {
		fmt.Fprintf(&body, `"key%d": "value",`, i)
	}
	body.WriteString(`"last": ""}, "deep": ` + strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500) + `}`)
	parsed, err := FromJSON([]byte(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	v["response"] = map[string]any{"status": 200, "headers": map[string]any{}, "text": strings.Repeat("a", 1<<20), "json": parsed}
	return v
}

// hostile are expressions that would take much time or memory.
var hostile = []string{
	`response.json.one.all(x, optional.of(response.json) == optional.of(response.json))`,
	`response.json.one.all(x, response.json[?"objects"] == response.json[?"objects"])`,
	`response.json.one.all(x, optional.of(response.json) in [optional.of(response.json)])`,
	`response.json.one.all(x, "a".matches("` + strings.Repeat(`\\pL`, 80) + `" + string(x)) || true)`,
	`response.json.one.all(x, "a".matches("(?i)` + strings.Repeat(`[\\x{42}-\\x{1E920}]`, 12) + `" + string(x)) || true)`,
	`response.json.one.all(x, "a".matches("(?i)` + strings.Repeat(`[ -~]`, 45) + `" + string(x)) || true)`,
	`response.json.one.all(x, timestamp("2024-01-01T00:00:00Z").getHours(response.text) == 1 || true)`,
	`response.json.one.map(x, [` + strings.Repeat(`{"a": 1}, `, 20) + `1]).size() > 0`,
	`response.json.one.map(x, [` + strings.Repeat(`[], `, 40) + `1]).size() > 0`,
	`response.json.one.all(x, response.json.one.all(y, x + y >= 0))`,
	`response.json.one.exists(x, x == -1 || x == -2 || x == -3 || x == -4 || x == -5 || x == -6 || x == -7 || x == -8 || x == -9)`,
	`response.json.one.all(x, ` + strings.Repeat("true && ", 100) + `true)`,
	`response.json.one.all(x, ` + strings.Repeat("(true ? ", 20) + `true` + strings.Repeat(" : false)", 20) + `)`,
	`response.json.one.all(x, x in response.json.one)`,
	`response.json.one.all(x, !(response.json in response.json.one))`,
	`response.json.one.map(x, response.json.one)  == []`,
	`response.json.one.map(x, response.text + response.text).size() > 0`,
	`response.json.one.map(x, [x, x, x, x, x, x, x, x]).size() > 0`,
	`response.json.one.map(x, {"a": x, "b": x, "c": x}).size() > 0`,
	`response.json.one.map(x, {response.text: x}).size() > 0`,
	`response.json.one.all(x, response.json.many[?response.text].orValue("") == "")`,
	`response.json.one.all(x, response.json.many[response.text] == "")`,
	`response.json.one.all(x, response.json.nope == 1)`,
	`response.json.one.all(x, dyn(response.json.big) + 1 == dyn(1))`,
	`response.json.one.all(x, x + "a" == "")`,
	`response.json.one.all(x, int(response.json.big) == 1)`,
	`response.json.one.all(x, int("no number") == 1)`,
	`response.json.one.all(x, timestamp("2024-01-01T00:00:00Z").getHours("Europe/Berlin") == 1)`,
	`response.json.one.all(x, timestamp("2024-01-01T00:00:00Z") < timestamp("2025-01-01T00:00:00Z"))`,
	`response.json.one.all(x, timestamp("2024-01-01T00:00:00Z").getHours("Nowhere") == 1)`,
	`response.json.one.all(x, response.json == response.json)`,
	`response.json.objects.all(x, x == x)`,
	`response.json.one.all(x, response.json.deep == response.json.deep)`,
	`response.text == response.text + ""`,
	`response.json.one.all(x, response.text == response.text)`,
	`response.json.one.all(x, response.text < response.text)`,
	`response.text.replace("a", response.text) == ""`,
	`response.text.replace("a", "bb").size() > 0`,
	`response.text.replace("", "b").size() > 0`,
	`response.text.split("").size() > 0`,
	`response.text.split("a").size() > 0`,
	`response.json.one.map(x, response.json.big).join(response.json.big) == ""`,
	`response.json.objects.map(x, x.name).join(",").size() > 0`,
	`response.text.indexOf(response.json.big + "b") == 1`,
	`response.text.lastIndexOf("b") == 1`,
	`response.text.upperAscii().lowerAscii().size() > 0`,
	`strings.quote(response.text).size() > 0`,
	`base64.encode(bytes(response.text)).size() > 0`,
	`base64.decode(base64.encode(bytes(response.text))).size() > 0`,
	`response.text.matches("(a|b|c|aa|bb|cc)*d")`,
	`response.text.matches("(a?){50}b")`,
	`response.text.matches("a*b")`,
	`response.json.one.all(x, "abc".matches("(a|b)*c"))`,
	`response.json.one.all(x, !"abc".matches("((a{1,20}){1,20})" + string(x)))`,
	`response.json.one.map(x, [x]).map(x, [x]).map(x, x + x).size() > 0`,
	`[1].map(a, [a, a])` + doubled() + ` == [1].map(a, [a, a])` + doubled(),
	`response.json.one.map(x, response.json.one + [x]).size() > 0`,
	`response.json.objects.filter(x, x.ok && x.name != "").map(x, x.tags.join("")).size() > 0`,
	`response.json.many.map(k, response.json.many[k]).size() > 0`,
	`response.json.many.all(k, response.json.many.all(j, k == j || true))`,
	`response.json.one.all(x, string(x) + string(x) + string(x) != "")`,
	`response.json.one.all(x, response.json.deep` + strings.Repeat(".a", 40) + ` != null)`,
	`response.json.one.all(x, true ? response.json.deep` + strings.Repeat(".a", 40) + ` != null : true)`,
	`response.json.one.all(x, (true ? response.json.deep : response.json.deep)` + strings.Repeat(".a", 40) + ` != null)`,
	`response.json.one.all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20].size() > 0)`,
	`response.json.one.all(x, response.json.?a.?b.?c.orValue(optional.of(1).orValue(2)) == 2)`,
	`response.json.one.all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, [1].all(f, a >= 0))))))`,
	`response.json.one.all(x, response.text.charAt(0) == "a")`,
	`response.json.one.all(x, "abcdefghijklmnopqrstuvwxyz".substring(3, 9).size() == 6)`,
	`response.json.one.all(x, double(x) / 3.0 >= 0.0 && x % 2 < 2 && -x <= 0)`,
	`response.json.one.exists_one(x, x == 1)`,
	`bytes(response.text) + bytes(response.text) == b""`,
	`response.json.one.all(x, [[x]] == [[x]])`,
	`response.json.one.all(x, {"a": {"b": x}} == {"a": {"b": x}})`,
	`response.json.one.all(x, duration("1h") + duration("1h") > duration("1s"))`,
	`response.json.one.all(x, "a.b.c.d".split(".").join("-") != "")`,
	`response.json.one.all(x, "a.b.c.d".replace(".", "-") != "")`,
	`response.json.one.all(x, type(x) == int)`,
	`response.json.one.all(x, x == 1.5 || x > 0.5 || x <= 1u)`,
	`response.json.one.all(x, has(response.json.many.nope) || !has(response.json.many.last) || true)`,
}

// doubled is a chain of macros that doubles a list 19 times.
func doubled() string {
	return strings.Repeat(`.map(a, [a, a])`, 19)
}
