package cel

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// Expression is a CEL expression that has been read. It is safe for concurrent use.
type Expression struct {
	References
	source  string
	program cel.Program
	result  *cel.Type
	// raw tells whether it is raw(…) as a whole.
	raw bool
}

// Bool evaluates a condition.
func (x *Expression) Bool(ctx context.Context, budget *Budget, vars Vars) (bool, error) {
	value, err := x.evaluate(ctx, budget, vars)
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, x.errorf("want true or false, not %s", kindOf(value))
	}
	return bool(holds), nil
}

// Value evaluates an expression to a value as JSON has it: a text, a bool, an int64, a
// float64, nil, a []any or a map[string]any.
func (x *Expression) Value(ctx context.Context, budget *Budget, vars Vars) (any, error) {
	left := maxText
	return x.native(ctx, budget, vars, &left)
}

// native is Value of no more than left bytes.
func (x *Expression) native(ctx context.Context, budget *Budget, vars Vars, left *int) (any, error) {
	value, err := x.evaluate(ctx, budget, vars)
	if err != nil {
		return nil, err
	}
	before := *left
	native, err := nativeOf(value, left, 0)
	if spent := budget.spend(before - *left); spent != nil {
		return nil, spent
	}
	if err != nil {
		return nil, x.errorf("%w", err)
	}
	return native, nil
}

// Text evaluates an expression that is a text, a number or a boolean to a text.
func (x *Expression) Text(ctx context.Context, budget *Budget, vars Vars) (string, error) {
	value, err := x.evaluate(ctx, budget, vars)
	if err != nil {
		return "", err
	}
	text, err := textOf(value)
	if err == nil && len(text) > maxText {
		err = errLong
	}
	if err != nil {
		return "", x.errorf("%w", err)
	}
	return text, nil
}

var errLong = fmt.Errorf("a text of more than %d KiB is not allowed", maxText>>10)

func (x *Expression) evaluate(ctx context.Context, budget *Budget, vars Vars) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, _, err := x.program.Eval(&activation{vars, meter{Budget: budget, ctx: ctx}})
	if err != nil {
		return nil, x.errorf("%w", x.explain(ctx, err))
	}
	return value, nil
}

// errorf returns an error that shows the expression.
func (x *Expression) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", shorten(strings.Join(strings.Fields(x.source), " ")), fmt.Errorf(format, args...))
}

// maxShown bounds what a message shows of what the author wrote, in bytes.
const maxShown = 100

func shorten(text string) string { return bound.Shorten(text, maxShown) }
