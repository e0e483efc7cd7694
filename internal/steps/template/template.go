// Package template renders the templates that authors of Rollouts write.
//
// They are Go templates over a scope of maps, lists, texts and numbers, with functions of
// sprig (https://masterminds.github.io/sprig/), and differ from what Go and Helm do where
// an author could do harm or would not see a mistake:
//
//   - A missing key is an error that names the nearest key, and so is printing nil.
//     {{ get .rollout.labels "team" | default "none" }} and dig are for a key that may be
//     missing, index is for keys such as app.kubernetes.io/name.
//   - A function that fails is an error, where sprig returns nothing or the error's text
//     (fromJson, b64dec, atoi, regexMatch …). int, float64 and the functions of numbers read
//     a text that is no number as 0, as in sprig.
//   - A template and a rendered text have 64 KiB at most, a value 128 KiB, and rendering
//     may do a fixed amount of work, the same on every machine: about a tenth of a second.
//   - define, template, block and call, and methods, are not offered, nor functions that
//     have a result of any size (repeat, until, seq, wrap …), take long (bcrypt, genCA …),
//     depend on the time, chance or the machine (now, randAlpha, env …) or change their
//     arguments (set, unset, merge …).
//
// The functions offered are
//
//	texts       abbrev abbrevboth trunc trim trimAll trimPrefix trimSuffix upper lower title
//	            untitle substr nospace initials swapcase snakecase camelcase kebabcase
//	            contains hasPrefix hasSuffix quote squote cat indent nindent replace plural
//	            toString print printf println html js urlquery
//	numbers     atoi int int64 float64 toDecimal add add1 sub mul div mod max min biggest
//	            addf add1f subf mulf divf maxf minf ceil floor round len
//	comparison  eq ne lt le gt ge and or not
//	lists       list tuple append push prepend first rest last initial reverse uniq without
//	            has slice concat chunk compact join sortAlpha split splitn splitList
//	            toStrings, and those of sprig's with must before the name
//	objects     dict get hasKey dig pluck keys values pick omit index
//	defaults    default empty coalesce all any ternary fail
//	types       kindOf kindIs typeOf typeIs typeIsLike deepEqual
//	encodings   toJson toPrettyJson toRawJson fromJson b64enc b64dec b32enc b32dec sha1sum
//	            sha256sum sha512sum adler32sum urlParse urlJoin
//	paths       base dir clean ext isAbs osBase osDir osClean osExt osIsAbs
//	patterns    regexMatch regexFind regexFindAll regexReplaceAll regexReplaceAllLiteral
//	            regexSplit regexQuoteMeta
//	versions    semver semverCompare
//	times       duration
//
// The results of keys and values are in the order of the keys, printf takes widths up to 99
// and no *, an indentation is 100 at most, and regular expressions are 256 bytes at most.
package template

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	texttemplate "text/template"
	"text/template/parse"
	"unicode"
	"unicode/utf8"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// maxText bounds a template and a rendered text, in bytes.
	maxText = 64 << 10
	// maxValue bounds each value during rendering, in bytes.
	maxValue = 128 << 10
	// maxWork bounds what a rendering does, in units of a bound.Budget.
	maxWork = 4 << 20
)

// Template is a template that has been read. It is safe for concurrent use.
type Template struct {
	tree *parse.Tree
	// functions are those that the template calls.
	functions []string
	// nodes is how many nodes the template has outside of loops.
	nodes int
	pool  *bound.Pool
}

// Within returns the template with a pool that its renderings pay from. The result is for one
// operation, and is not safe for concurrent use.
func (t *Template) Within(pool *bound.Pool) *Template {
	within := *t
	within.pool = pool
	return &within
}

// name is the name of every template, which is in the errors of text/template.
const name = "t"

// Parse reads a template. An error names the line and, for an unknown function, the nearest
// one that is offered.
func Parse(text string) (*Template, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("a template of more than %d KiB is not allowed", maxText>>10)
	}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return nil, plain(err)
	}
	if len(trees) > 1 || trees[name] != nil && trees[name] != tree {
		return nil, errors.New("define and block are not offered")
	}
	c := compiler{tree: tree, functions: map[string]bool{}}
	if tree.Root != nil {
		if err := c.list(tree.Root); err != nil {
			return nil, err
		}
	}
	return &Template{tree: tree, functions: c.names(), nodes: c.nodes}, nil
}

// Render renders the template over a scope, which may hold only maps with texts as keys,
// lists, texts, numbers and booleans. An error names the line.
func (t *Template) Render(scope map[string]any) (string, error) {
	return t.render(scope, t.pool.Budget(maxWork, maxValue), maxText)
}

// RenderLine renders the template to a text for a URL or a header: UTF-8 in one line,
// without control characters.
func (t *Template) RenderLine(scope map[string]any) (string, error) {
	text, err := t.Render(scope)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(text) {
		return "", errors.New("the rendered text is not UTF-8")
	}
	for at, r := range text {
		// Some programs take U+2028 and U+2029 for the end of a line.
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return "", fmt.Errorf("the rendered text has the control character %U at byte %d: want one line without", r, at)
		}
	}
	return text, nil
}

func (t *Template) render(scope map[string]any, budget *bound.Budget, limit int) (string, error) {
	if t.tree.Root == nil {
		return "", nil
	}
	if err := budget.Spend(t.nodes * nodeCost); err != nil {
		return "", err
	}
	runnable, err := texttemplate.New(name).Funcs(functionsFor(t.functions, budget)).AddParseTree(name, t.tree)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := runnable.Execute(&limited{to: &out, left: limit}, scope); err != nil {
		return "", plain(err)
	}
	return out.String(), nil
}

// limited is a writer that fails once too much has been written.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(text []byte) (int, error) {
	if l.left -= len(text); l.left < 0 {
		return 0, bound.Errorf("the rendered text has more than %d KiB", maxText>>10)
	}
	return l.to.Write(text)
}

var (
	parseError = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+): (.*)$`)
	execError  = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+):\d+: executing "` + name + `" at <.*?>: (?:error calling [^:]*: )?(.*)$`)
)

// maxMessage bounds the text of an error, in characters: it can quote a whole action.
const maxMessage = 300

// plain returns an error of text/template in the form "line 3: …", without its prefix.
func plain(err error) error {
	text := err.Error()
	for _, form := range []*regexp.Regexp{execError, parseError} {
		if parts := form.FindStringSubmatch(text); parts != nil {
			return fmt.Errorf("line %s: %.*s", parts[1], maxMessage, parts[2])
		}
	}
	return err
}
