package httpstep

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// json reads the body of a request that is JSON, with the references in it.
func (p *parser) json(c *call, source json.RawMessage) {
	var problem error
	body, err := p.texts.JSON(source, func(value any) (any, error) {
		value, problem = p.references(c, c.path+".json", value)
		return value, problem
	})
	switch {
	case problem != nil: // which has the path
		p.failed(problem)
	case err != nil:
		p.fail("%s.json: %w", c.path, err)
	}
	c.json = body
}

// asItIs says how to send what is taken for a reference.
const asItIs = `to send the object as it is, write it as an expression: '{{ {"secretKeyRef": {"name": "ci"}} }}'`

// references returns a value of JSON with a Given in the place of each reference to a secret:
// an object that has nothing but valueFrom. An error names what could be meant as a reference,
// and would be sent as it stands.
func (p *parser) references(c *call, path string, value any) (any, error) {
	switch value := value.(type) {
	case []any:
		for i := range value {
			var err error
			if value[i], err = p.references(c, fmt.Sprintf("%s[%d]", path, i), value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			under := strict.Join(path, key)
			switch {
			case strings.EqualFold(key, "valueFrom") && len(value) == 1:
				return p.givenSecret(c, path, value)
			case strings.EqualFold(key, "secretKeyRef"), strings.EqualFold(key, "configMapKeyRef"):
				return nil, fmt.Errorf("%s: want an object that has valueFrom alone, with a secretKeyRef in it, in the place of a secret; %s", under, asItIs)
			}
			var err error
			if value[key], err = p.references(c, under, value[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// givenSecret reads a reference, and returns the Given in its place.
func (p *parser) givenSecret(c *call, path string, object map[string]any) (any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var value secret.Value
	if err := value.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	_, ref, err := value.Parse(path, p.secretsNamespace)
	switch {
	case err != nil && ref == nil:
		return nil, fmt.Errorf("%w, as an object that has valueFrom alone stands for a secret; %s", err, asItIs)
	case err != nil:
		return nil, err
	}
	c.secrets = append(c.secrets, text{path: path, ref: ref})
	return cel.Given(len(c.secrets) - 1), nil
}
