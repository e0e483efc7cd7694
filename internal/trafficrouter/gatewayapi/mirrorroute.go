package gatewayapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// mirrorMatch is one match of a mirror route; what is empty is not restricted.
type mirrorMatch struct {
	Methods []string   `json:"methods,omitempty"`
	Path    *condition `json:"path,omitempty"`
	Headers []header   `json:"headers,omitempty"`
}

// mirrorRouteOf translates a step into the terms of a route: requests that satisfy one
// match of the step are also sent to the canary, whose answers are dropped.
//
// A prefix of a path matches whole path elements, as in the Gateway API. The percentage is
// the share of the requests that is mirrored; nil is all of them. (Over RPC 0 arrives as
// nil.)
func mirrorRouteOf(step *v1alpha1.SetMirrorRoute, hasPercent bool) (managedRoute, error) {
	managed := managedRoute{Name: step.Name}
	if p := step.Percentage; p != nil && *p != 100 {
		if *p < 0 || *p > 100 {
			return managed, fmt.Errorf("percentage is %d: want 0 to 100", *p)
		}
		if !hasPercent {
			return managed, fmt.Errorf("percentage is %d, and the HTTPRoutes of this cluster mirror all requests or none: leave the percentage out, or install the CRDs of Gateway API v1.3 or later that have requestMirror.percent", *p)
		}
		percent := *p
		managed.Percent = &percent
	}
	for i, m := range step.Match {
		match, err := mirrorMatchOf(m)
		if err != nil {
			return managed, fmt.Errorf("match[%d]: %w", i, err)
		}
		managed.Mirror = append(managed.Mirror, match)
	}
	return managed, nil
}

func mirrorMatchOf(m v1alpha1.RouteMatch) (mirrorMatch, error) {
	var result mirrorMatch
	if m.Method != nil {
		c, err := conditionOf(*m.Method)
		if err != nil {
			return result, fmt.Errorf("method: %w", err)
		}
		if result.Methods, err = methodsFor(c); err != nil {
			return result, err
		}
	}
	if m.Path != nil {
		c, err := conditionOf(*m.Path)
		if err != nil {
			return result, fmt.Errorf("path: %w", err)
		}
		if c.Type != regex && !strings.HasPrefix(c.Value, "/") {
			return result, fmt.Errorf("path: %q does not begin with /", c.Value)
		}
		result.Path = &c
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		h, err := headerOf(name, m.Headers[name])
		if err != nil {
			return result, err
		}
		result.Headers = append(result.Headers, h)
	}
	return result, nil
}

// restrictions returns functions that restrict a match of the source to this one, one
// for each method.
func (m mirrorMatch) restrictions() []func(map[string]any) overlap {
	methods := m.Methods
	if len(methods) == 0 {
		methods = []string{""}
	}
	var all []func(map[string]any) overlap
	for _, method := range methods {
		all = append(all, func(match map[string]any) overlap { return m.restrict(match, method) })
	}
	return all
}

func (m mirrorMatch) restrict(match map[string]any, method string) overlap {
	if present, _ := match["method"].(string); method != "" {
		if present != "" && present != method {
			return none
		}
		match["method"] = method
	}
	if m.Path != nil {
		path, _ := match["path"].(map[string]any)
		both, o := conditionIn(path).andPath(*m.Path)
		if o != some {
			return o
		}
		match["path"] = map[string]any{"type": both.Type, "value": both.Value}
	}
	return withHeaders(match, m.Headers)
}

// mirrorFilter returns a filter that mirrors to the backend of a backendRef.
func (d *draft) mirrorFilter(canary map[string]any, percent *int32) map[string]any {
	b := backendOf(canary, d.namespace)
	ref := map[string]any{"group": b.Group, "kind": b.Kind, "name": b.Name}
	for _, field := range []string{"namespace", "port"} {
		if value, ok := canary[field]; ok {
			ref[field] = value
		}
	}
	mirror := map[string]any{"backendRef": ref}
	if percent != nil {
		mirror["percent"] = int64(*percent)
	}
	return map[string]any{"type": "RequestMirror", "requestMirror": mirror}
}
