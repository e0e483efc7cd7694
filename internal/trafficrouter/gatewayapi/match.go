package gatewayapi

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// The types of a match.
const (
	exact      = "Exact"
	pathPrefix = "PathPrefix"
	regex      = "RegularExpression"
)

// matchesOf returns the matches of a rule with the CRD's defaults filled in: what
// the rule of a route that the API server has read looks like. It is a copy.
func (d *draft) matchesOf(body map[string]any) []any {
	var matches []any
	for _, match := range objects(body["matches"]) {
		match = copyOf(match)
		if d.kind == HTTPRoute {
			path := fill(match["path"], "type", pathPrefix)
			match["path"] = fill(path, "value", "/")
		} else if match["method"] != nil {
			match["method"] = fill(match["method"], "type", exact)
		}
		for _, field := range []string{"headers", "queryParams"} {
			for _, condition := range objects(match[field]) {
				fill(condition, "type", exact)
			}
		}
		matches = append(matches, match)
	}
	switch {
	case len(matches) > 0:
	case d.kind == HTTPRoute:
		matches = []any{map[string]any{"path": map[string]any{"type": pathPrefix, "value": "/"}}}
	case d.kind == GRPCRoute:
		matches = []any{map[string]any{}}
	}
	return matches
}

// fill sets a field of an object that has none.
func fill(object any, field, value string) map[string]any {
	filled, ok := object.(map[string]any)
	if !ok {
		filled = map[string]any{}
	}
	if _, ok := filled[field].(string); !ok {
		filled[field] = value
	}
	return filled
}

// overlap is what two conditions on the same thing have in common.
type overlap int

const (
	some    overlap = iota
	none            // no request satisfies both
	unknown         // the kind cannot express what they have in common
)

// condition is a condition on a text: the value of a header, a path or a method.
type condition struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// conditionOf returns the one condition that a step has on a text. Routes have no
// prefixes but of paths: see asRegex.
func conditionOf(m v1alpha1.StringMatch) (condition, error) {
	var found []condition
	for _, c := range []condition{{exact, m.Exact}, {pathPrefix, m.Prefix}, {regex, m.Regex}} {
		if c.Value != "" {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return condition{}, fmt.Errorf("want one of exact, prefix and regex, got %d", len(found))
	}
	return found[0], nil
}

// asRegex turns a prefix into a regular expression that matches it literally.
func (c condition) asRegex() condition {
	if c.Type == pathPrefix {
		return condition{regex, "^" + regexp.QuoteMeta(c.Value) + ".*"}
	}
	return c
}

// and returns what two conditions have in common; neither is a prefix.
func (c condition) and(other condition) (condition, overlap) {
	switch {
	case c == other:
		return c, some
	case c.Type == exact && other.Type == exact:
		return condition{}, none
	case c.Type == regex && other.Type == regex:
		return condition{}, unknown
	case c.Type == regex:
		c, other = other, c
	}
	expression, err := regexp.Compile("^(?:" + other.Value + ")$")
	switch {
	case err != nil: // another dialect of regular expressions
		return condition{}, unknown
	case expression.MatchString(c.Value):
		return c, some
	}
	return condition{}, none
}

// andPath returns what two conditions on a path have in common. A prefix matches whole
// path elements, as in the Gateway API.
func (c condition) andPath(other condition) (condition, overlap) {
	if c.Type != pathPrefix && other.Type == pathPrefix {
		c, other = other, c
	}
	switch {
	case c.Type != pathPrefix:
		return c.and(other)
	case strings.TrimSuffix(c.Value, "/") == "":
		return other, some
	case other.Type == pathPrefix && strings.TrimSuffix(other.Value, "/") == "":
		return c, some
	case other.Type == regex:
		return condition{}, unknown
	case underPrefix(other.Value, c.Value):
		return other, some
	case other.Type == pathPrefix && underPrefix(c.Value, other.Value):
		return c, some
	}
	return condition{}, none
}

// underPrefix tells whether a path begins with the elements of a prefix.
func underPrefix(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// header is a condition on a header.
type header struct {
	Name string `json:"name"`
	condition
}

// withHeaders adds conditions on headers to a match, with one condition for each name.
func withHeaders(match map[string]any, headers []header) overlap {
	list, _ := match["headers"].([]any)
	for _, h := range headers {
		var same map[string]any
		for _, present := range objects(list) {
			if name, _ := present["name"].(string); same == nil && strings.EqualFold(name, h.Name) {
				same = present
			}
		}
		if same == nil {
			list = append(list, map[string]any{"name": h.Name, "type": h.Type, "value": h.Value})
			continue
		}
		both, o := conditionIn(same).and(h.condition)
		if o != some {
			return o
		}
		same["type"], same["value"] = both.Type, both.Value
	}
	if len(list) > 0 {
		match["headers"] = list
	}
	return some
}

// conditionIn reads a condition with type and value.
func conditionIn(object map[string]any) condition {
	c := condition{}
	c.Type, _ = object["type"].(string)
	c.Value, _ = object["value"].(string)
	return c
}

// httpMethods are the methods that an HTTPRoute can match.
var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// methodsFor returns the methods that satisfy a step's condition.
func methodsFor(c condition) ([]string, error) {
	var methods []string
	for _, method := range httpMethods {
		if c.Type == pathPrefix && strings.HasPrefix(method, c.Value) {
			methods = append(methods, method)
		} else if _, o := c.and(condition{exact, method}); c.Type != pathPrefix && o == some {
			methods = append(methods, method)
		}
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("method: no method of %s is %s", strings.Join(httpMethods, ", "), c.Value)
	}
	return methods, nil
}

// addMatch adds a match to a list unless it is there.
func addMatch(list []match, m match) []match {
	if slices.ContainsFunc(list, func(other match) bool { return reflect.DeepEqual(other.body, m.body) }) {
		return list
	}
	return append(list, m)
}

// match is a match of a managed rule (body), with the match of the user's rule that it
// was made from (source).
type match struct{ body, source map[string]any }
