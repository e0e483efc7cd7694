package cel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// JSON is a JSON value in which each string is a Text. It is safe for concurrent use.
type JSON struct {
	References
	// value has a *Text in place of each string with an expression.
	value any
	size  int
}

// Given is a string of a JSON value that no author has written, such as a secret: the one with
// this index among those that Render is given.
type Given int

func (e *Env) json(raw json.RawMessage, replace func(any) (any, error)) (*JSON, error) {
	if len(raw) > maxText {
		return nil, fmt.Errorf("JSON of more than %d KiB is not allowed", maxText>>10)
	}
	if !json.Valid(raw) {
		return nil, errors.New("no valid JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	j := &JSON{size: len(raw)}
	var err error
	if replace != nil {
		if value, err = replace(value); err != nil {
			return nil, err
		}
	}
	j.value, err = each(value, 0, func(leaf any) (any, error) {
		source, ok := leaf.(string)
		if !ok {
			return leaf, nil
		}
		text, err := e.text(source, inJSON)
		if err != nil || text.Constant() {
			return leaf, err
		}
		j.add(text.References)
		return text, nil
	})
	return j, err
}

// each returns a value of JSON in which f has replaced all but lists and objects. The error
// names the place.
func each(value any, depth int, f func(leaf any) (any, error)) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d lists and objects in one another are not allowed", maxDepth)
	}
	var err error
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			if list[i], err = each(item, depth+1, f); err != nil {
				return nil, At(fmt.Sprintf("[%d]", i), err)
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, item := range value {
			if object[key], err = each(item, depth+1, f); err != nil {
				return nil, At(shorten(key), err)
			}
		}
		return object, nil
	}
	return f(value)
}

// placed is an error at a place in a value.
type placed struct {
	place string
	error
}

func (p placed) Error() string { return p.place + ": " + p.error.Error() }

func (p placed) Unwrap() error { return p.error }

// At puts a key or an index before an error's place.
func At(key string, err error) error {
	var inner placed
	switch {
	case !errors.As(err, &inner):
		return placed{key, err}
	case !strings.HasPrefix(inner.place, "["):
		key += "."
	}
	return placed{key + inner.place, inner.error}
}

// Render renders the value. given are the strings that are Given.
func (j *JSON) Render(ctx context.Context, budget *Budget, vars Vars, given []string) ([]byte, error) {
	if err := budget.spend(j.size); err != nil {
		return nil, err
	}
	left := maxText
	value, err := each(j.value, 0, func(leaf any) (any, error) {
		text, ok := leaf.(*Text)
		index, isGiven := leaf.(Given)
		switch {
		case isGiven:
			if left -= len(given[index]); left < 0 {
				return nil, errLong
			}
			return given[index], nil
		case !ok:
			return leaf, nil
		case text.keepsType():
			return text.parts[0].value.native(ctx, budget, vars, &left)
		}
		rendered, err := text.Render(ctx, budget, vars)
		if left -= len(rendered); err == nil && left < 0 {
			err = errLong
		}
		return rendered, err
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}
