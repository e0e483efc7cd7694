package template

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// scope is like that of a step.
func scope() map[string]any {
	return map[string]any{
		"rollout": map[string]any{
			"name": "shop", "namespace": "demo",
			"labels":      map[string]any{"team": `a"b`, "app.kubernetes.io/name": "shop"},
			"annotations": map[string]any{"lines": "a\r\nb", "huge": strings.Repeat("x", 200<<10), "long": strings.Repeat("a", 60<<10)},
		},
		"images": map[string]any{"new": map[string]any{"app": "r/app:v2"}, "old": map[string]any{}},
		"step":   map[string]any{"index": 1, "id": "e2e"},
		"weight": 20,
		"list":   []any{"x", "y", 3.5},
		"none":   nil,
	}
}

func TestTemplatesRender(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"plain":                             "plain",
		"{{/* nothing */}}":                 "",
		"{{ .rollout.name }}-{{ .weight }}": "shop-20",
		`{{ $.rollout.name }}{{ $r := .rollout }}{{ $r.namespace }}`:               `shopdemo`,
		`{{ index .rollout.labels "app.kubernetes.io/name" }}`:                     "shop",
		`{{ index .list 1 }}{{ index . "images" "new" "app" }}`:                    "yr/app:v2",
		`{{ (index . "rollout").name | upper | quote }}`:                           `"SHOP"`,
		`{{ with .rollout }}{{ .name }}{{ else }}none{{ end }}`:                    "shop",
		`{{ if and (gt .weight 10) (eq .step.id "e2e") }}yes{{ else }}no{{ end }}`: "yes",
		`{{ range $i, $x := .list }}{{ $i }}={{ $x }};{{ end }}`:                   "0=x;1=y;2=3.5;",
		`{{ range .images.old }}x{{ else }}none{{ end }}`:                          "none",
		`{{ range 3 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ . }}{{ end }}`:      "02",
		`{{ range $k, $v := .images.new }}{{ $k }}{{ break }}{{ end }}`:            "app",
		`{{ range .none }}x{{ else }}none{{ end }}`:                                "none",
		`{{ eq "e2e" .step.id }}{{ .step.id | eq "x" "e2e" }}{{ 1 | lt .weight }}{{ ne (len .list) 3 }}{{ eq .weight 20 }}{{ eq (print "a") "a" "b" }}`: "truefalsefalsefalsetruetrue",
		`{{ get .rollout.labels "nope" | default "d" }}`:                                                                 "d",
		`{{ dig "labels" "team" "x" .rollout }}`:                                                                         `a"b`,
		`{{ hasKey .rollout.labels "team" }}{{ hasKey .images.old "app" }}`:                                              "truefalse",
		`{{ get .rollout.annotations "lines" | splitList "\r\n" | join "," }}`:                                           "a,b",
		`{{ (split "/" "a/b")._1 }}`:                                                                                     "b",
		`{{ with semver "v1.2.3-rc.1+b" }}{{ .Major }}{{ .Minor }}{{ .Patch }}{{ .Prerelease }}{{ .Metadata }}{{ end }}`: "123rc.1b",
		`{{ semverCompare ">= 1.2, < 2" "1.3.0" }}`:                                                                      "true",
		`{{ keys (dict "b" 1 "a" 2) | join "," }}{{ values (dict "b" 1 "a" 2) | join "," }}`:                             "a,b2,1",
		`{{ printf "%-5s|%03d|%.2f|%q|%%|%+v" "a" 7 1.5 "b" .list }}`:                                                    `a    |007|1.50|"b"|%|[x y 3.5]`,
		`{{ print 1 2 }}{{ println "a" }}{{ html "<" }}{{ js "'" }}{{ urlquery "a b" }}`:                                 "1 2a\n&lt;\\'a+b",
		`{{ regexReplaceAll "v([0-9]+)" "v2" "${1}x" }}{{ regexFind "[0-9]+" "a12" }}{{ regexMatch "^a" "b" }}`:          "2x12false",
		`{{ regexFindAll "." "abc" 2 | join "," }}{{ regexSplit "," "a,b" -1 | join ";" }}`:                              "a,ba;b",
		`{{ mustRegexReplaceAllLiteral "a" "ab" "$" }}`:                                                                  "$b",
		`{{ replace "a" "b" "aa" }}{{ trimAll "/" "/a/" }}{{ indent 2 "a\nb" }}{{ nindent 1 "c" }}`:                      "bba  a\n  b\n c",
		`{{ b64dec (b64enc "a") }}{{ b32dec (b32enc "b") }}{{ sha256sum "" | trunc 4 }}`:                                 "abe3b0",
		`{{ toJson (dict "a" (list 1 "b")) }}{{ (fromJson "{\"a\": {\"b\": 2}}").a.b }}`:                                 `{"a":[1,"b"]}2`,
		`{{ uniq (list 1 1 2) | join "," }}{{ without (list 1 2) 1 | join "," }}`:                                        "1,22",
		`{{ addf 1.5 2 }}{{ divf 1 4 }}{{ add 1 2 }}{{ max 1 3 2 }}`:                                                     "3.50.2533",
		`{{ $l := list }}{{ range .list }}{{ $l = append $l . }}{{ end }}{{ len $l }}`:                                   "3",
		`{{ slice .list 1 2 | first }}{{ (urlParse "https://h/p?q=1").host }}`:                                           "yh",
		`{{ .rollout.annotations.huge | len }}{{ get .rollout.annotations "huge" | len }}`:                               "204800204800",
		`{{ range 100 }}{{ if eq (len $.rollout.annotations.huge) 0 }}x{{ end }}{{ end }}`:                               "",
		`{{- "a" -}}   b`: "ab",
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%s): %v", text, err)
			continue
		}
		for range 2 { // rendering changes nothing
			if got, err := parsed.Render(scope()); err != nil || got != want {
				t.Errorf("Render(%s) = %q, %v, want %q", text, got, err, want)
			}
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ uper .x }}":                       "line 2: there is no function uper: did you mean upper?",
		`{{ repeat 3 "a" }}`:                     "line 1: function repeat is not offered here",
		`{{ env "PATH" }}`:                       "line 1: function env is not offered here",
		`{{ "a" | call }}`:                       "line 1: function call is not offered here",
		`{{ now.Format "2006" }}`:                "line 1: function now is not offered here",
		`{{ _field . "a" "b" }}`:                 "line 1: there is no function _field: did you mean append?",
		`{{ ` + strings.Repeat("f", 500) + ` }}`: "line 1: there is no such function",
		`{{ template "t" . }}`:                   "line 1: template and block are not offered",
		`{{ template "x" }}`:                     "line 1: template and block are not offered",
		`{{ block "x" . }}a{{ end }}`:            "define and block are not offered",
		`{{ define "x" }}a{{ end }}`:             "define and block are not offered",
		`{{ define "t" }}a{{ end }}`:             "define and block are not offered",
		`{{ define "t" }}a{{ end }}b`:            `line 1: template: multiple definition of template "t"`,
		"\n{{ if }}":                             "line 2: missing value for if",
		`{{ .rollout.name 1 }}`:                  `line 1: .rollout.name is no function, so it takes no arguments`,
		`{{ 1 | $.x }}`:                          `line 1: $.x is no function, so it takes no arguments`,
		`{{ (print 1) 2 }}`:                      `line 1: print 1 is no function, so it takes no arguments`,
		`{{ .a `:                                 "line 1: unclosed action",
		`{{ $x }}`:                               `line 1: undefined variable "$x"`,
		strings.Repeat("a", 64<<10+1):            "a template of more than 64 KiB is not allowed",
		strings.Repeat("{{1}}", 10_000):          "line 1: a template of more than 10000 actions, functions and values is not allowed",
		strings.Repeat("{{if 1}}", 200) + strings.Repeat("{{end}}", 200):          "line 1: more than 100 actions in one another are not allowed",
		`{{ ` + strings.Repeat("(", 200) + `1` + strings.Repeat(")", 200) + ` }}`: "line 1: more than 100 actions in one another are not allowed",
	} {
		_, err := Parse(text)
		if err == nil || err.Error() != want {
			t.Errorf("Parse(%.60s) is the error\n%v, want\n%s", text, err, want)
		}
	}
}

func TestRenderSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ .rollout.labls.team }}":       `line 2: .rollout.labls: there is no key "labls": did you mean "labels"? (get is for a key that may be missing)`,
		`{{ .rollot }}`:                      `line 1: .rollot: there is no key "rollot": did you mean "rollout"? (get is for a key that may be missing)`,
		`{{ .images.old.app }}`:              `line 1: .images.old.app: there is no key "app" (get is for a key that may be missing)`,
		`{{ $r := .rollout }}{{ $r.nam }}`:   `line 1: $r.nam: there is no key "nam": did you mean "name"? (get is for a key that may be missing)`,
		`{{ (index . "rollout").nam }}`:      `line 1: (…).nam: there is no key "nam": did you mean "name"? (get is for a key that may be missing)`,
		`{{ index .rollout.labels "Team" }}`: `line 1: .Team: there is no key "Team": did you mean "team"? (get is for a key that may be missing)`,
		`{{ .rollout.name.x }}`:              `line 1: .rollout.name.x: .rollout.name is a text, which has no keys`,
		`{{ .none.x }}`:                      `line 1: .none.x: .none is nothing, which has no keys`,
		`{{ index .list 3 }}`:                `line 1: index 3: the list has 3 items`,
		`{{ index .list -1 }}`:               `line 1: index -1: the list has 3 items`,
		`{{ index .list true }}`:             `line 1: index: want a key or a whole number, not a boolean`,
		`{{ .none }}`:                        `line 1: there is no value: default gives one in its place`,
		`{{ first (list) }}`:                 `line 1: there is no value: default gives one in its place`,
		`{{ range .rollout.name }}{{ end }}`: `line 1: range: want a list, an object or a whole number, not a text`,
		`{{ upper .weight }}`:                `line 1: wrong type for value; expected string; got int`,
		`{{ fail "no team" }}`:               `line 1: no team`,
		`{{ fromJson "{" }}`:                 `line 1: unexpected end of JSON input`,
		`{{ b64dec "%" }}`:                   `line 1: illegal base64 data at input byte 0`,
		`{{ atoi "x" }}`:                     `line 1: strconv.Atoi: parsing "x": invalid syntax`,
		`{{ semver "x" }}`:                   `line 1: "x": invalid semantic version`,
		`{{ regexMatch "(" "a" }}`:           "line 1: regular expression \"(\": error parsing regexp: missing closing ): `(`",
		`{{ printf "%*d" 1 2 }}`:             `line 1: "%*d": %* is not offered`,
		`{{ printf "%-100d" 1 }}`:            `line 1: "%-100d": a width of more than 99 is not allowed`,
		`{{ printf "%.100f" 1.5 }}`:          `line 1: "%.100f": a width of more than 99 is not allowed`,
		`{{ indent 1000000000 "a" }}`:        `line 1: want 0 to 100 spaces, not 1000000000`,
		`{{ div 1 0 }}`:                      `line 1: runtime error: integer divide by zero`,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%s): %v", text, err)
			continue
		}
		_, err = parsed.Render(scope())
		if err == nil || err.Error() != want {
			t.Errorf("Render(%s) is the error\n%v, want\n%s", text, err, want)
		}
	}
}

// hostile are templates that would take much time or memory, or end the process.
var hostile = []string{
	`{{ range 1000000000 }}{{ end }}`,
	`{{ range 9223372036854775807 }}{{ end }}`,
	`{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}{{ end }}`,
	`{{ range 100000 }}{{ break }}{{ end }}{{ range 200000 }}{{ end }}`,
	`{{ $l := splitList "" .rollout.annotations.long }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}`,
	`{{ $x := "aaaaaaaa" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}`,
	`{{ $x := "aaaaaaaa" }}{{ range 100 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`,
	`{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x $x }}{{ end }}`,
	`{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x }}{{ end }}{{ $x }}`,
	`{{ $x := dict }}{{ range 100 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}`,
	`{{ $x := list 1 }}{{ range 100 }}{{ $x = concat $x $x }}{{ end }}`,
	`{{ $x := "a" }}{{ range 100 }}{{ $x = toJson (list $x $x) }}{{ end }}`,
	`{{ $x := "a" }}{{ range 100 }}{{ $x = quote $x $x }}{{ end }}`,
	`{{ $x := .rollout.annotations.long }}{{ replace "a" $x $x }}`,
	`{{ $x := .rollout.annotations.long }}{{ replace "" $x $x }}`,
	`{{ $x := .rollout.annotations.long }}{{ join $x (splitList "" $x) }}`,
	`{{ $x := .rollout.annotations.long }}{{ cat $x $x $x $x }}`,
	`{{ $x := quote (replace "a" "\x00" .rollout.annotations.long) }}`,
	`{{ $x := uniq (splitList "" (trunc 2000 .rollout.annotations.long)) }}`,
	`{{ $x := .rollout.annotations.long }}{{ uniq (splitList "" $x) }}`,
	`{{ $x := .rollout.annotations.long }}{{ regexReplaceAll "a" $x "bbbbbbbbbb" }}`,
	`{{ $x := .rollout.annotations.long }}{{ regexMatch "(a*)*(b|c|d|e)*z" $x }}{{ regexMatch "(a|aa|aaa|aaaa|aaaaa|aaaaaa){20}z" $x }}`,
	`{{ $x := .rollout.annotations.long }}{{ range 1000 }}{{ $y := upper $x }}{{ end }}`,
	`{{ $x := .rollout.annotations.long }}{{ range 1000 }}{{ $y := sha512sum $x }}{{ end }}`,
	`{{ $x := .rollout.annotations.long }}{{ $x }}{{ $x }}`,
	`{{ $x := splitList "" (trunc 6000 .rollout.annotations.long) }}{{ range 1000 }}{{ range $x }}{{ break }}{{ end }}{{ end }}`,
	`{{ $x := .rollout.annotations.long }}{{ $y := upper $x | lower }}{{ range 1000 }}{{ if eq $x $y }}{{ end }}{{ end }}`,
	`{{ $x := .rollout.annotations.long }}{{ range 1000 }}{{ if $x | lt "a" }}{{ end }}{{ end }}`,
	`{{ $x := .rollout.annotations.huge }}{{ range 1000 }}{{ if hasKey $.rollout $x }}{{ end }}{{ end }}`,
	`{{ .rollout.annotations.huge | upper }}`,
	`{{ .rollout.annotations.huge }}`,
	`{{ . }}`,
	`{{ printf "%1000000d" 1 }}`,
	`{{ printf "%.1000000f" 1.5 }}`,
	`{{ printf "%[1]s%[1]s" .rollout.annotations.long }}`,
	`{{ nindent 100000000 "a" }}`,
	`{{ indent 100 (replace "a" "\n" .rollout.annotations.long) }}`,
	`{{ chunk 0 .list }}`,
	`{{ chunk -1 .list }}`,
	`{{ mulf 1e308 1e308 1e308 1e308 1e308 1e308 1e308 1e308 1e308 1e308 }}`,
	`{{ regexMatch "(((x{10}){10}){10}){10}" "x" }}`,
	`{{ semverCompare (trunc 300 .rollout.annotations.long) "1.0.0" }}`,
	`{{ fromJson (replace "a" "[" .rollout.annotations.long) }}`,
	`{{ trimAll (replace "a" "é" (trunc 100 .rollout.annotations.long)) "éé" }}`,
}

func TestWhatAnAuthorWritesIsBounded(t *testing.T) {
	for _, text := range hostile {
		parsed, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%s): %v", text, err)
			continue
		}
		if got, err := parsed.Render(scope()); err == nil {
			t.Errorf("Render(%s) is no error, but %d bytes", text, len(got))
		}
	}
}

// Repetition without a loop is bounded as loops are.
func TestWorkWithoutLoopsIsBounded(t *testing.T) {
	text := `{{ $x := .rollout.annotations.long }}` + strings.Repeat(`{{ $y := sha512sum $x }}`, 1000)
	parsed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var bounds *bound.Error
	if _, err := parsed.render(scope(), bound.New(maxWork, maxValue), maxText); err == nil {
		t.Error("1,000 hashes of 60 KiB are no error")
	} else if errors.As(err, &bounds) {
		t.Error("the error has no line:", err)
	}
}

func TestEachCallAndEachRoundCosts(t *testing.T) {
	cost := func(text string) int {
		t.Helper()
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		budget := bound.New(maxWork, maxValue)
		if _, err := parsed.render(scope(), budget, maxText); err != nil {
			t.Fatal(err)
		}
		return maxWork - budget.Left()
	}
	if one, two := cost(`{{ $x := upper "a" }}`), cost(`{{ $x := upper "a" | upper }}`); two-one < callCost {
		t.Errorf("a call costs %d", two-one)
	}
	if one, more := cost(`{{ range 1 }}{{ $x := 1 }}{{ end }}`), cost(`{{ range 1001 }}{{ $x := 1 }}{{ end }}`); more-one < 1000*nodeCost {
		t.Errorf("1,000 rounds cost %d", more-one)
	}
}

type withMethod map[string]any

func (withMethod) Secret() string { return "secret" }

func TestMethodsAreOutOfReach(t *testing.T) {
	for _, text := range []string{`{{ .value.Secret }}`, `{{ $x := .value }}{{ $x.Secret }}`, `{{ (index . "value").Secret }}`, `{{ with .value }}{{ .Secret }}{{ end }}`, `{{ (semver "1.2.3").IncMajor }}`} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.Render(map[string]any{"value": withMethod{"a": 1}}); err == nil {
			t.Errorf("Render(%s) = %q", text, got)
		}
	}
}

func TestRenderLineRefusesControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		`{{ .rollout.annotations.lines }}`: "the rendered text has the control character U+000D at byte 1: want one line without",
		"a\n":                              "the rendered text has the control character U+000A at byte 1: want one line without",
		`{{ "\x00" }}`:                     "the rendered text has the control character U+0000 at byte 0: want one line without",
		`a{{ "\u0085" }}`:                  "the rendered text has the control character U+0085 at byte 1: want one line without",
		`a{{ "\u2028" }}`:                  "the rendered text has the control character U+2028 at byte 1: want one line without",
		`a{{ "\t\x7f" }}`:                  "the rendered text has the control character U+0009 at byte 1: want one line without",
		`{{ b64dec "/w==" }}`:              "the rendered text is not UTF-8",
		`{{ .nope }}`:                      `line 1: .nope: there is no key "nope": did you mean "none"? (get is for a key that may be missing)`,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.RenderLine(scope()); err == nil || err.Error() != want {
			t.Errorf("RenderLine(%q) = %q, %v, want %s", text, got, err, want)
		}
	}
	parsed, err := Parse(`https://é/{{ .rollout.name }}?q={{ urlquery "a b\n" }}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parsed.RenderLine(scope()); err != nil || got != "https://é/shop?q=a+b%0A" {
		t.Errorf("RenderLine = %q, %v", got, err)
	}
}

func TestDocstringHasTheFunctions(t *testing.T) {
	source, err := os.ReadFile("template.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(source), "\npackage ")
	_, table, _ := strings.Cut(doc, "The functions offered are")
	words := regexp.MustCompile(`[a-zA-Z0-9]+`).FindAllString(table, -1)
	for _, function := range Functions() {
		base := function
		if rest, ok := strings.CutPrefix(function, "must"); ok {
			base = strings.ToLower(rest[:1]) + rest[1:]
		}
		if !slices.Contains(words, base) {
			t.Errorf("the docstring does not have %s", function)
		}
	}
}

// A function that a new version of sprig adds is not offered until it has been reviewed.
func TestEachFunctionIsOneThatExists(t *testing.T) {
	offeredNow := Functions()
	if len(offeredNow) < 150 {
		t.Errorf("%d functions are offered", len(offeredNow))
	}
	for _, name := range slices.Concat(ofSprig, ofFloats, ofPairs) {
		if _, ok := sprigs[name]; !ok {
			t.Errorf("sprig has no hermetic function %s", name)
		}
	}
	for name := range sprig.TxtFuncMap() {
		if _, hermetic := sprigs[name]; !hermetic && isOffered(name) {
			t.Errorf("%s is offered and not hermetic", name)
		}
	}
	for _, name := range strings.Fields("env expandenv getHostByName now date ago randAlpha randInt shuffle uuidv4 genPrivateKey genCA bcrypt htpasswd derivePassword encryptAES repeat until untilStep seq wrap wrapWith set unset merge mergeOverwrite mustMerge deepCopy call") {
		if isOffered(name) {
			t.Errorf("%s is offered", name)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Add(`{{ range $i, $x := .list }}{{ $i }}={{ $x }};{{ else }}{{ end }}{{ with .rollout }}{{ .name | upper | quote }}{{ end }}`)
	f.Add(`{{ $x := dict "a" (list 1 2.5 nil) }}{{ (toJson $x | fromJson).a | join "," }}{{ if not (eq 1 2) }}{{ end }}`)
	f.Add(`{{ printf "%-5s|%03d|%.2f|%q|%%" "a" 7 1.5 "b" }}{{ define "x" }}{{ end }}{{ block "y" . }}{{ end }}{{ template "t" . }}`)
	for _, function := range Functions() {
		f.Add(`{{ ` + function + ` .rollout.annotations.long 2 .list }}{{ ` + function + ` 2 "a" }}{{ ` + function + ` .rollout }}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		budget := bound.New(maxWork, maxValue)
		got, err := parsed.render(scope(), budget, maxText)
		if len(got) > maxText || budget.Left() < 0 {
			t.Errorf("%d bytes, %d units left", len(got), budget.Left())
		}
		if err != nil && got != "" {
			t.Errorf("an error beside the text %q: %v", got, err)
		}
		again, err2 := parsed.Render(scope())
		if again != got || (err == nil) != (err2 == nil) {
			t.Errorf("rendered twice: %q, %v, then %q, %v", got, err, again, err2)
		}
	})
}
