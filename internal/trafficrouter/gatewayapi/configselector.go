package gatewayapi

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parseSelector reads a metav1.LabelSelector. An empty one selects all routes of
// the kind, as everywhere in Kubernetes; one that is empty because its keys are
// unknown is an error, because it would select routes that were not meant.
func (c *Config) parseSelector(p *parser, kind Kind, raw json.RawMessage, rules []string) error {
	if isLeftOut(raw) {
		return nil
	}
	at := kind.key() + keysSelector
	before := len(p.warnings)
	fields, err := p.object(raw, at, []string{"matchLabels", "matchExpressions"})
	if err != nil {
		return err
	}
	var selector metav1.LabelSelector
	if labels := fields["matchLabels"]; !isLeftOut(labels) {
		if err := json.Unmarshal(labels, &selector.MatchLabels); err != nil {
			return fmt.Errorf("%s.matchLabels: want an object of strings: %w", at, err)
		}
	}
	expressions, err := list(fields["matchExpressions"], at+".matchExpressions", "a list of {key, operator, values}")
	failures := []error{err}
	for i, expression := range expressions {
		requirement, err := p.requirement(expression, fmt.Sprintf("%s.matchExpressions[%d]", at, i))
		selector.MatchExpressions = append(selector.MatchExpressions, requirement)
		failures = append(failures, err)
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 && len(p.warnings) > before {
		return fmt.Errorf("%s has no known key and would select every %s of the namespace: want matchLabels or matchExpressions", at, kind)
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	c.Selectors = append(c.Selectors, SelectorConfig{Kind: kind, Selector: parsed, Rules: rules})
	return nil
}

func (p *parser) requirement(raw json.RawMessage, at string) (metav1.LabelSelectorRequirement, error) {
	fields, err := p.object(raw, at, []string{"key", "operator", "values"})
	if err != nil {
		return metav1.LabelSelectorRequirement{}, err
	}
	key, keyErr := text(fields["key"], at+".key", "the key of a label")
	operator, operatorErr := text(fields["operator"], at+".operator", "In, NotIn, Exists or DoesNotExist")
	var values []string
	raws, valuesErr := list(fields["values"], at+".values", "a list of label values")
	for i, raw := range raws {
		value, err := text(raw, fmt.Sprintf("%s.values[%d]", at, i), "the value of a label")
		values, valuesErr = append(values, value), errors.Join(valuesErr, err)
	}
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values},
		errors.Join(keyErr, operatorErr, valuesErr)
}
