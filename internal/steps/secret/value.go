// Package secret reads the values of a step's configuration that are given by reference, and
// keeps secrets out of what the step reports.
package secret

import (
	"encoding/json"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Value is a text, or a reference to a key of a Secret in its place:
//
//	url: https://ci.example.com/runs
//	url:
//	  valueFrom:
//	    secretKeyRef: {name: ci, key: url}
//
// A text has CEL between {{ and }}. The value of a Secret is taken as it is, without the ends
// of lines at its end.
type Value struct{ raw json.RawMessage }

// UnmarshalJSON takes any value; Parse reads it.
func (v *Value) UnmarshalJSON(raw []byte) error {
	v.raw = append(json.RawMessage(nil), raw...)
	return nil
}

// MarshalJSON returns what was read.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.raw == nil {
		return []byte("null"), nil
	}
	return v.raw, nil
}

// IsZero tells whether the value is not given.
func (v Value) IsZero() bool {
	return len(v.raw) == 0 || string(v.raw) == "null" || string(v.raw) == `""`
}

// KeyRef is a key of a Secret or a ConfigMap.
type KeyRef struct {
	// Name is the object's.
	//
	// Required.
	Name string `json:"name"`
	// Key is one of the object's data.
	//
	// Required.
	Key string `json:"key"`
	// Namespace is for presets alone, which can name the namespace of `--secrets-namespace` and
	// no other. The value then goes to the preset's hosts alone. A Rollout that names a
	// namespace fails the step.
	//
	// Default: the Rollout's.
	Namespace string `json:"namespace,omitempty"`
}

// Reference stands in the place of a text that is secret.
type Reference struct {
	// ValueFrom says where the text is.
	//
	// Required.
	ValueFrom *ValueFrom `json:"valueFrom"`
}

// ValueFrom says where a text is that is secret.
type ValueFrom struct {
	// SecretKeyRef is the key of a Secret. The plugin takes the value as it is, without CEL, and
	// without line breaks at its end. The step waits for a Secret that does not exist. A value
	// has 8 KiB at most, and the 32 values that a step may refer to have 32 KiB.
	//
	// Required.
	SecretKeyRef *KeyRef `json:"secretKeyRef"`
}

// Parse returns the text, or the reference; an empty text if the value is not given. The error
// names the path, and does not hold the text. Only secretsNamespace can be a reference's
// namespace.
func (v Value) Parse(path, secretsNamespace string) (text string, ref *KeyRef, err error) {
	if v.IsZero() || json.Unmarshal(v.raw, &text) == nil {
		return text, nil, nil
	}
	var from Reference
	if v.raw[0] != '{' {
		return "", nil, fmt.Errorf("%s: want a string, or valueFrom with a secretKeyRef", path)
	}
	if err := strict.Decode(v.raw, &from); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	if from.ValueFrom == nil || from.ValueFrom.SecretKeyRef == nil {
		return "", nil, fmt.Errorf("%s: want a string, or valueFrom with a secretKeyRef", path)
	}
	ref = from.ValueFrom.SecretKeyRef
	return "", ref, ref.Check(path+".valueFrom.secretKeyRef", secretsNamespace)
}

// Check returns an error if a reference is not complete, or names a namespace other than
// secretsNamespace.
func (r *KeyRef) Check(path, secretsNamespace string) error {
	switch {
	case r.Name == "":
		return fmt.Errorf("%s.name: want the object's name", path)
	case r.Key == "":
		return fmt.Errorf("%s.key: want a key of the object", path)
	case r.Namespace != "" && r.Namespace != secretsNamespace:
		return fmt.Errorf("%s.namespace %q: want the namespace that the plugin is registered with (--secrets-namespace), or none for the Rollout's", path, r.Namespace)
	}
	return nil
}

// OtherNamespace tells whether a reference is to another namespace than the Rollout's, which
// only a preset can make: such a secret goes to the preset's hosts alone.
func (r *KeyRef) OtherNamespace() bool { return r != nil && r.Namespace != "" }
