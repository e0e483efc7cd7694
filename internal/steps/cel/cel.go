// Package cel evaluates what authors of steps write: conditions and values in CEL
// (https://cel.dev), and texts with CEL between {{ and }}.
//
// It is CEL as Kubernetes' own policies have it, and differs where an author could do harm or
// would not see a mistake:
//
//   - Names are declared. An unknown one is an error when the configuration is read, and the
//     error offers the nearest. What may be missing is asked for by an optional:
//     rollout.labels[?"team"].orValue("none").
//   - A Budget, one for all texts of an operation, bounds their time and memory. The same
//     text over the same data costs the same on every machine.
//   - Macros over a map go through its keys in order.
//   - Numbers of JSON that have no fraction are ints; + - * / between an int and a double that
//     come from JSON give a double.
//   - Errors show what the author wrote, and never the data.
package cel

import (
	"encoding/json"
	"fmt"
)

// Declarations are the names that the texts of a step can refer to, besides those of every
// step.
type Declarations struct {
	// Outputs are the names of the step's own outputs.
	Outputs []string
	// Response tells whether there is a response.
	Response bool
	// Abort tells whether texts can say why the canary was aborted.
	Abort bool
	// Object tells whether there is an object of the cluster.
	Object bool
	// Steps are the ids of the steps to whose outputs texts can refer; any if nil.
	Steps []string
}

// Vars are the values of the names: what steps.Scope returns, and "outputs", "response" and
// "object" if they are declared.
type Vars map[string]any

// Env reads the texts of one step. It is not safe for concurrent use; what it returns is.
type Env struct {
	names names
	// left is what is left of maxReading.
	left *int
	// read are the expressions that have been read: one that is repeated counts once.
	read map[string]*Expression
}

const (
	// maxExpression bounds an expression, in bytes.
	maxExpression = 2 << 10
	// maxReading bounds all expressions of a step together, as reading them takes longer than
	// evaluating most: 1024 for each, 16 for each byte, and the square of the number of an
	// expression's parts, with which the time to check their types grows. It is 300 ms at most.
	maxReading = 400_000
	// maxText bounds a text and what it renders to, in bytes.
	maxText = 64 << 10
)

// New returns an Env with the names of every step and those declared.
func New(d Declarations) (*Env, error) {
	if _, err := environment(); err != nil {
		return nil, fmt.Errorf("setting CEL up: %w", err)
	}
	left := maxReading
	return &Env{names{Declarations: d}, &left, map[string]*Expression{}}, nil
}

// WithResponse returns an Env for other texts of the same step, which are over a response.
func (e *Env) WithResponse() *Env {
	with := *e
	with.names.Response = true
	with.read = map[string]*Expression{}
	return &with
}

// WithAbort returns an Env for the texts of the same step that cancel its work or take it back.
func (e *Env) WithAbort() *Env {
	with := *e
	with.names.Abort = true
	with.read = map[string]*Expression{}
	return &with
}

// Condition reads an expression that is true or false.
func (e *Env) Condition(source string) (*Expression, error) {
	x, err := e.compile(source, false)
	if err != nil {
		return nil, err
	}
	if !x.mayBe(boolType) {
		return nil, x.errorf("want true or false, not %s", x.kind())
	}
	return x, nil
}

// Value reads an expression of any type.
func (e *Env) Value(source string) (*Expression, error) { return e.compile(source, false) }

// Output reads an expression whose value is a text, a number or a boolean.
func (e *Env) Output(source string) (*Expression, error) {
	x, err := e.compile(source, false)
	if err == nil {
		err = x.checkText()
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Text reads a text with CEL between {{ and }}.
func (e *Env) Text(source string) (*Text, error) { return e.text(source, inText) }

// URL reads a text that is a URL, whose values are escaped for their place: one at the very
// beginning is a whole URL, raw(x) is as it is, and any other is percent-encoded.
func (e *Env) URL(source string) (*Text, error) { return e.text(source, inURL) }

// Container reads a text of a container, in which Kubernetes replaces $(NAME) by a variable. In
// its values $ stays as it is: one that others have written could name a variable with a secret.
func (e *Env) Container(source string) (*Text, error) { return e.text(source, inContainer) }

// JSON reads a JSON value in which each string is a Text, but for keys. A string that is
// nothing but one {{ }} keeps the type of its value. replace, unless it is nil, returns the
// decoded value with each Given in its place.
func (e *Env) JSON(raw json.RawMessage, replace func(value any) (any, error)) (*JSON, error) {
	return e.json(raw, replace)
}
