// Package strict reads configuration from JSON and refuses what is probably a mistake:
// unknown keys, duplicate keys and values of the wrong type.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	strictjson "sigs.k8s.io/json"
)

// maxProblems bounds how many problems an error names.
const maxProblems = 5

// Decode reads a JSON value into a pointer to a Go value that is zero. Keys are the JSON
// names of struct fields, case and all; those of an embedded struct belong to the struct
// around it. null is a key that is not set.
//
// The error names each key that is unknown (with the nearest known one), each that is there
// twice, and each value of the wrong type, by its path, such as "request.headers[0].value".
// A string of the wrong type is not shown, as it may be secret, except where a duration, a
// time, a quantity or a port is expected.
func Decode(text []byte, into any) error {
	if err := syntaxOf(text); err != nil {
		return err
	}
	if problems := check(text, into); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	// The decoder also refuses what check does not look for.
	inStrict, err := strictjson.UnmarshalStrict(text, into)
	if err != nil {
		return err
	}
	return errors.Join(inStrict...)
}

// syntaxOf returns an error if a text is no JSON value.
func syntaxOf(text []byte) error {
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		before := text[:min(int(syntax.Offset), len(text))]
		return fmt.Errorf("no valid JSON: line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
	case err != nil:
		return fmt.Errorf("no valid JSON: %w", err)
	}
	return nil
}
