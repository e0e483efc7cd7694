// Package jsontype names the type of a JSON value for messages on configuration.
package jsontype

import (
	"bytes"
	"encoding/json"
)

// Of names the JSON type of a value, with its article: "an object", "a list",
// "a string", "a boolean", "null", "a number" or "no valid JSON".
func Of(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return "no valid JSON"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
