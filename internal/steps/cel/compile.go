package cel

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// compile reads an expression. raw tells whether it can be raw(…) as a whole.
func (e *Env) compile(source string, raw bool) (*Expression, error) {
	if x := e.read[source]; x != nil && (raw || !x.raw) {
		return x, nil
	}
	x := &Expression{source: source}
	if len(source) > maxExpression {
		return nil, x.errorf("an expression of more than %d KiB is not allowed", maxExpression>>10)
	}
	if *e.left -= 16 * (64 + len(source)); *e.left < 0 {
		return nil, errParts
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, x.withHelp(explainSyntax(issues.Errors()[0]))
	}
	root := parsed.NativeRep().Expr()
	if raw && isRaw(root) {
		x.raw, root = true, root.AsCall().Args()[0]
	}
	parts := 0
	if x.References, parts, err = e.names.in(root); err != nil {
		return nil, x.withHelp(err)
	}
	if *e.left -= parts * parts; *e.left < 0 {
		return nil, x.errorf("%w", errParts)
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, x.withHelp(explainTypes(issues.Errors()[0].Message))
	}
	x.result = checked.OutputType()
	x.program, err = program(env, checked)
	if err != nil {
		return nil, x.errorf("%w", err)
	}
	e.read[source] = x
	return x, nil
}

var errParts = errors.New("the expressions of the step have too many parts together: write fewer or shorter ones")

func isRaw(expr ast.Expr) bool {
	if expr.Kind() != ast.CallKind {
		return false
	}
	call := expr.AsCall()
	return call.FunctionName() == rawFunction && !call.IsMemberFunction() && len(call.Args()) == 1
}

// mayBe tells whether the expression's value can have a type.
func (x *Expression) mayBe(t *cel.Type) bool {
	return x.result.IsExactType(t) || x.result.Kind() == cel.DynKind
}

// checkText returns an error if the expression's value cannot be a text, a number or a
// boolean, so that this shows when the configuration is read.
func (x *Expression) checkText() error {
	switch x.result.Kind() {
	case cel.StringKind, cel.BoolKind, cel.IntKind, cel.UintKind, cel.DoubleKind, cel.DynKind:
		return nil
	}
	return x.errorf("%w", noText(x.result))
}

// expecting is the rest of the parser's errors, which lists all that could stand there.
var expecting = regexp.MustCompile(`(?s) expecting .*$`)

func explainSyntax(err *cel.Error) error {
	message := strings.TrimPrefix(expecting.ReplaceAllString(err.Message, ""), "Syntax error: ")
	message = strings.Replace(message, "'<EOF>'", "end", 1)
	for _, parser := range []string{"mismatched input ", "extraneous input ", "no viable alternative at input ", "token recognition error at: "} {
		if rest, ok := strings.CutPrefix(message, parser); ok {
			message = "unexpected " + rest
		}
	}
	if strings.Contains(message, "recursion") {
		return fmt.Errorf("an expression of so many parts in one another, or so many + or . after one another, is not allowed")
	}
	place := fmt.Sprintf("column %d", err.Location.Column()+1)
	if err.Location.Line() > 1 {
		place = fmt.Sprintf("line %d, %s", err.Location.Line(), place)
	}
	return fmt.Errorf("%s: %s", place, shorten(message))
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload = regexp.MustCompile(`(?s)^found no matching overload for '([^']*)' applied to '\(?(.*)\)'$`)
	noFields   = regexp.MustCompile(`^type '([^']*)' does not support field selection`)
)

// explainTypes returns an error of the type checker in the words of this package.
func explainTypes(message string) error {
	if found := undeclared.FindStringSubmatch(message); found != nil {
		name := shorten(found[1])
		if offer := near(found[1], Functions()); offer != "" {
			return fmt.Errorf("there is no function %s: did you mean %s?", name, offer)
		}
		return fmt.Errorf("there is no function %s", name)
	}
	if found := noOverload.FindStringSubmatch(message); found != nil {
		if found[1] == itemsFunction {
			return fmt.Errorf("all, exists, exists_one, map and filter need a list or an object, not %s", found[2])
		}
		hint := ""
		if found[1] == operators.Conditional {
			hint = ": it has true or false before the ?, and two values of one type"
		} else if strings.Contains(found[2], "int") || strings.Contains(found[2], "double") {
			hint = ": double(x), int(x) and string(x) convert"
		}
		given := strings.Trim(strings.Replace(found[2], ".(", ", ", 1), ", ") // of x.f(y)
		return fmt.Errorf("%s does not work with %s%s", operatorName(found[1]), shorten(given), hint)
	}
	if found := noFields.FindStringSubmatch(message); found != nil {
		return fmt.Errorf("a %s has no keys", found[1])
	}
	return errors.New(shorten(message))
}

// near returns the known word that somebody may have meant; empty if none is like it.
func near(word string, known []string) string {
	if len(word) > maxShown {
		return ""
	}
	offer := nearest.Word(word, known)
	if offer == "" || nearest.Edits(word, offer) > (len(word)+1)/3 {
		return ""
	}
	return offer
}
