package httpstep

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/expression"
)

// The parts of an answer that expressions see, besides its status.
const (
	partHeaders = "headers"
	partJSON    = "json"
	partText    = "text"
)

// overAnswer is an expression over an answer.
type overAnswer struct {
	*expression.Expression
	// parts are the parts of the answer that the expression may look at.
	parts []string
}

// names are what expressions can refer to.
var names = append(slices.Sorted(maps.Keys(steps.Scope(steps.Work{Rollout: &v1alpha1.Rollout{}}, nil))), "outputs", "response")

// expression reads an expression; nil for none.
func (p parser) expression(path, text string) (*overAnswer, error) {
	if text == "" {
		return nil, nil
	}
	e, err := expression.Compile(text)
	if err == nil {
		err = e.Check(names...)
	}
	if err == nil {
		err = p.references(outputInExpression, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &overAnswer{e, partsIn(text)}, nil
}

// ofResponse finds response, with the key that follows.
var ofResponse = regexp.MustCompile(`\bresponse\b(?:\s*\??\.\s*(\w+))?`)

// partsIn returns the parts of an answer that an expression may look at: all of them,
// unless it names each part. Other parts are not decoded for it.
func partsIn(text string) (parts []string) {
	all := []string{partHeaders, partJSON, partText}
	for _, found := range ofResponse.FindAllStringSubmatch(text, -1) {
		switch name := found[1]; {
		case name == "status":
		case !slices.Contains(all, name):
			return all
		case !slices.Contains(parts, name):
			parts = append(parts, name)
		}
	}
	return parts
}
