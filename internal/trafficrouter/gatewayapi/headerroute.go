package gatewayapi

import (
	"fmt"
	"regexp"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// headerName is what the CRD accepts as the name of a header.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]{1,256}$")

// headerRouteOf translates a step into the terms of a route: requests that have all
// headers of the step go to the canary, whatever the weights are.
func headerRouteOf(step *v1alpha1.SetHeaderRoute) (managedRoute, error) {
	managed := managedRoute{Name: step.Name}
	for i, m := range step.Match {
		at := fmt.Sprintf("match[%d]", i)
		if m.HeaderValue == nil {
			return managed, fmt.Errorf("%s.headerValue is missing", at)
		}
		h, err := headerOf(m.HeaderName, *m.HeaderValue)
		if err != nil {
			return managed, fmt.Errorf("%s: %w", at, err)
		}
		managed.Headers = append(managed.Headers, h)
	}
	return managed, nil
}

func headerOf(name string, value v1alpha1.StringMatch) (header, error) {
	if !headerName.MatchString(name) {
		return header{}, fmt.Errorf("%q is no valid name of a header", name)
	}
	c, err := conditionOf(value)
	if err != nil {
		return header{}, fmt.Errorf("value of header %s: %w", name, err)
	}
	return header{name, c.asRegex()}, nil
}
