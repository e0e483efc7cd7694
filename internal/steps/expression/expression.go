// Package expression evaluates the expressions that authors of Rollouts write.
//
// They are in the language of https://expr-lang.org/docs/language-definition over maps,
// lists, texts, numbers and booleans, and differ from what expr does where an author could
// do harm or would not see a mistake:
//
//   - An unknown name is an error that names the nearest one. A key that an object does not
//     have is nil, as in expr: body.state == nil, or body?.state where body itself may be
//     nil.
//   - There are no methods, no $env, and no functions that depend on the time.
//   - An expression has 4 KiB at most, and evaluating it may do a fixed amount of work, the
//     same on every machine: about a tenth of a second. Values that are compared, searched
//     or given to a function have 1 MiB at most; values of which only a part is read may
//     have any size.
//
// The functions offered are
//
//	lists   all any none one filter map count find findIndex findLast findLastIndex groupBy
//	        sortBy reduce sum len first last take concat flatten reverse sort min max mean
//	        median
//	texts   trim trimPrefix trimSuffix upper lower split replace join indexOf lastIndexOf
//	        hasPrefix hasSuffix
//	others  get keys values type int float string abs ceil floor round toJSON fromJSON
//	        toBase64 fromBase64
//
// The results of keys and values are in the order of the keys, and regular expressions after
// matches are 256 bytes at most.
package expression

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// maxText bounds an expression, maxTextResult a text that is its result, in bytes.
	maxText       = 4 << 10
	maxTextResult = 64 << 10
	// maxNodes bounds the operators, functions and values of an expression.
	maxNodes = 1000
	// maxValue bounds each value that an operation reads whole, in bytes.
	maxValue = 1 << 20
	// maxWork bounds what an evaluation does, in units of a bound.Budget.
	maxWork = 8 << 20
	// maxElements bounds the items of the lists that an evaluation makes.
	maxElements = 100_000
)

// Expression is an expression that has been read. It is safe for concurrent use.
type Expression struct {
	text    string
	program *vm.Program
	// names are the names that the expression refers to, in alphabetical order.
	names []string
	nodes int
	pool  *bound.Pool
}

// Within returns the expression with a pool that its evaluations pay from. The result is for
// one operation, and is not safe for concurrent use.
func (e *Expression) Within(pool *bound.Pool) *Expression {
	within := *e
	within.pool = pool
	return &within
}

// Compile reads an expression. An error shows the expression and the place in it.
func Compile(text string) (*Expression, error) {
	e := &Expression{text: text}
	if len(text) > maxText {
		return nil, fmt.Errorf("an expression of more than %d KiB is not allowed", maxText>>10)
	}
	tree, err := parse(text)
	if err != nil {
		return nil, e.explain(err)
	}
	if e.names, e.nodes, err = inspect(tree); err != nil {
		return nil, e.explain(err)
	}
	e.program, err = expr.Compile(text, options()...)
	if err != nil {
		return nil, e.explain(err)
	}
	return e, nil
}

// Names returns the names that env must have for the expression, in alphabetical order.
func (e *Expression) Names() []string { return e.names }

// Check returns an error, with the nearest name, if the expression refers to something that
// is not among names.
func (e *Expression) Check(names ...string) error {
	for _, name := range e.names {
		if slices.Contains(names, name) {
			continue
		}
		if suggestion := nearest.Word(name, names); suggestion != "" && len(name) <= maxSuggested {
			return fmt.Errorf("expression %q: there is no %s: did you mean %s?", e.shown(), name, suggestion)
		}
		return fmt.Errorf("expression %q: there is no %s", e.shown(), bound.Shorten(name, maxSuggested))
	}
	return nil
}

// Bool evaluates an expression that is a condition. Numbers in env must have one of Go's
// numeric types, not json.Number.
func (e *Expression) Bool(env map[string]any) (bool, error) {
	result, err := e.evaluate(env, e.pool.Budget(maxWork, maxValue))
	if err != nil {
		return false, err
	}
	value, ok := result.(bool)
	if !ok {
		return false, fmt.Errorf("expression %q: want true or false, not %s", e.shown(), bound.Kind(result))
	}
	return value, nil
}

// Text evaluates an expression that is a text, a number or a boolean, and returns it as a
// text of 64 KiB at most. Numbers below 1e21 have no exponent.
func (e *Expression) Text(env map[string]any) (string, error) {
	result, err := e.evaluate(env, e.pool.Budget(maxWork, maxValue))
	if err != nil {
		return "", err
	}
	text := ""
	switch v := reflect.ValueOf(result); {
	case v.Kind() == reflect.String:
		text = v.String()
	case v.Kind() == reflect.Bool, v.CanInt(), v.CanUint():
		text = fmt.Sprint(result)
	case v.CanFloat():
		text = number(v.Float())
	default:
		return "", fmt.Errorf("expression %q: want a text, a number or a boolean, not %s", e.shown(), bound.Kind(result))
	}
	if len(text) > maxTextResult {
		return "", fmt.Errorf("expression %q: a text of more than %d KiB is not allowed", e.shown(), maxTextResult>>10)
	}
	return text, nil
}

// number formats a number; those of JSON are all floats.
func number(f float64) string {
	format := byte('f')
	if math.Abs(f) >= 1e21 {
		format = 'g'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}

func (e *Expression) evaluate(env map[string]any, budget *bound.Budget) (any, error) {
	if err := e.Check(slices.Collect(maps.Keys(env))...); err != nil {
		return nil, err
	}
	if err := budget.Spend(e.nodes * nodeCost); err != nil {
		return nil, e.explain(err)
	}
	given := make(map[string]any, len(env)+1)
	maps.Copy(given, env)
	given[budgetName] = budget
	machine := vm.VM{MemoryBudget: maxElements}
	result, err := machine.Run(e.program, given)
	if err != nil {
		return nil, e.explain(err)
	}
	return result, nil
}

const (
	// maxShown bounds what an error shows of an expression, in bytes.
	maxShown = 100
	// maxMessage bounds what an error says after that, in bytes.
	maxMessage = 300
	// maxSuggested bounds a wrong name that is compared with others, in bytes.
	maxSuggested = 64
)

// shown is the expression for a message.
func (e *Expression) shown() string { return bound.Shorten(e.text, maxShown) }

// explain returns an error with the expression and, where it is known, the place.
func (e *Expression) explain(err error) error {
	var limit *bound.Error
	var at *file.Error
	switch isLimit := errors.As(err, &limit); {
	case errors.As(err, &at) && isLimit:
		return fmt.Errorf("expression %q: %w", e.shown(), limit)
	case at != nil:
		place := fmt.Sprintf("column %d", at.Column+1)
		if strings.Contains(e.text, "\n") {
			place = fmt.Sprintf("line %d, %s", at.Line, place)
		}
		return fmt.Errorf("expression %q: %s: %s", e.shown(), place, bound.Shorten(at.Message, maxMessage))
	default:
		return fmt.Errorf("expression %q: %w", e.shown(), err)
	}
}
