package cel

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// callError is an error of a call, without the data.
type callError struct{ message string }

// Error is the text, for the author.
func (e callError) Error() string { return e.message }

// withoutData are errors of cel-go that hold no data.
var withoutData = []string{"division by zero", "modulus by zero", "integer overflow", "unsigned integer overflow", "duration overflow", "timestamp overflow"}

// explain returns an error of a call: cel-go's may quote the data.
func (c *call) explain(err *types.Err, args []ref.Val) error {
	var own callError
	if errors.As(err.Unwrap(), &own) {
		return own
	}
	if slices.Contains(withoutData, err.Error()) {
		return callError{err.Error()}
	}
	if said := missing[noneValue]; strings.HasPrefix(err.Error(), noneValue) {
		return &MissingError{said: said}
	}
	var given []string
	for _, arg := range args {
		given = append(given, kindOf(arg))
	}
	name := operatorName(c.Function())
	if c.Function() == itemsFunction {
		return callError{fmt.Sprintf("all, exists, exists_one, map and filter need a list or an object, not %s", given[0])}
	}
	if strings.HasPrefix(err.Error(), "index out of range") {
		return callError{name + ": the text is shorter: x.size() is its length"}
	}
	if strings.HasPrefix(err.Error(), "no such overload") {
		return callError{fmt.Sprintf("%s does not work with %s", name, strings.Join(given, " and "))}
	}
	return callError{fmt.Sprintf("%s does not work with this value (%s)", name, strings.Join(given, ", "))}
}

// operatorName is a function's name as authors write it.
func operatorName(name string) string {
	switch operator, ok := operators.FindReverse(name); {
	case name == operators.Conditional:
		return "?:"
	case name == operators.Index || name == operators.OptIndex:
		return "[]"
	case ok && operator != "":
		return operator
	}
	return name
}

// unknownKey finds the key in an error of cel-go.
var unknownKey = regexp.MustCompile(`(?s)^no such key: (.*)$`)

// MissingError says that a value does not have what an expression refers to.
type MissingError struct {
	// Key is the key that is not there; empty where it is data, or no key.
	Key  string
	said string
}

// Error is for the author.
func (e *MissingError) Error() string { return e.said }

// noneValue is how cel-go's error about the value of an empty optional begins.
const noneValue = "optional.none() deref"

// missing are the beginnings of cel-go's other errors about what is not there.
var missing = map[string]string{
	"index":   "the list has no such item",
	noneValue: "there is no value: .orValue(…) says what then",
}

// explain returns an error of an evaluation, without the data.
func (x *Expression) explain(ctx context.Context, err error) error {
	var cancelled interpreter.EvalCancelledError
	var call callError
	var absent *MissingError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.ContextCancelled:
		return ctx.Err()
	case cancelled.Cause == interpreter.CostLimitExceeded:
		return errWork
	case errors.As(err, &call):
		return call
	case errors.As(err, &absent):
		return absent
	}
	message := err.Error()
	for prefix, said := range missing {
		if strings.HasPrefix(message, prefix) {
			return &MissingError{said: said}
		}
	}
	if key := unknownKey.FindStringSubmatch(message); key != nil {
		if len(key[1]) > 0 && len(key[1]) <= maxShown && strings.Contains(x.source, key[1]) {
			return &MissingError{key[1], fmt.Sprintf(`there is no %q: [?%[1]q].orValue(…) is for what may be missing`, key[1])}
		}
		return &MissingError{said: `there is no such key: [?key].orValue(…) is for what may be missing`}
	}
	for prefix, said := range map[string]string{
		"unsupported index": "the items of a list have numbers, not names: list[0], or list.map(x, x.name)",
		"no such attribute": "there is no value for one of its names",
		"no such overload":  "&&, ||, ! and ?: work with true and false",
	} {
		if strings.HasPrefix(message, prefix) {
			return errors.New(said)
		}
	}
	return errors.New("it cannot be evaluated over these values")
}
