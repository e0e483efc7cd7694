package httpstep

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/template"
)

var (
	// outputInTemplate finds .outputs.id, but not .steps.build.outputs.id.
	outputInTemplate   = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.)\]])\.outputs\.([A-Za-z0-9_]+)`)
	outputInExpression = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.)\]])outputs\??\.([A-Za-z0-9_]+)`)
	// action matches what a template evaluates. movesDot matches the beginning of an
	// action in which the dot means something else.
	action   = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	movesDot = regexp.MustCompile(`\{\{-?\s*(?:range|with)\b`)
	// literal matches a string in a template or an expression.
	literal = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'|`[^`]*`")
)

// outputNames are the names of all outputs of a step.
func outputNames(c Config) []string {
	all := maps.Clone(c.Outputs)
	if all == nil {
		all = map[string]string{}
	}
	if c.Find != nil {
		maps.Copy(all, c.Find.Outputs)
	}
	if c.Poll != nil {
		maps.Copy(all, c.Poll.Outputs)
	}
	return slices.Sorted(maps.Keys(all))
}

// references returns an error if a text refers to an output that the step does not have.
// Otherwise a mistake in cancel would show only when there is something to cancel.
func (p parser) references(form *regexp.Regexp, text string) error {
	for _, found := range form.FindAllStringSubmatch(literal.ReplaceAllString(text, `""`), -1) {
		name := found[1]
		switch {
		case slices.Contains(p.known, name):
		case len(p.known) == 0:
			return fmt.Errorf("there is no output %s: the step has no outputs", name)
		default:
			return fmt.Errorf("there is no output %s: did you mean %s?", name, nearest.Word(name, p.known))
		}
	}
	return nil
}

// template reads a template.
func (p parser) template(path, source string) (*template.Template, error) {
	parsed, err := template.Parse(source)
	if err == nil {
		err = p.templateReferences(source)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return parsed, nil
}

func (p parser) templateReferences(source string) error {
	if movesDot.MatchString(source) {
		return nil
	}
	return p.references(outputInTemplate, strings.Join(action.FindAllString(source, -1), " "))
}

// referencesIn checks the references in each string of a JSON value.
func (p parser) referencesIn(path string, value any) error {
	switch value := value.(type) {
	case string:
		if err := p.templateReferences(value); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case []any:
		for i, item := range value {
			if err := p.referencesIn(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := p.referencesIn(strict.Join(path, key), value[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
