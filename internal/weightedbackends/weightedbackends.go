// Package weightedbackends is the one contract between the traffic router,
// which writes a split, and the interceptor, which serves it: the value of the
// annotation http.kedify.io/weighted-backends of an HTTPScaledObject. The
// format is Kedify's:
//
//   - service: rollouts-demo-stable
//     weight: 80
//   - service: rollouts-demo-canary
//     weight: 20
package weightedbackends

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const (
	// Annotation holds the split of an HTTPScaledObject: a YAML list of Backend, ending
	// with a newline. Without it, all requests go to spec.scaleTargetRef.service.
	Annotation = "http.kedify.io/weighted-backends"

	// OwnerAnnotation names the Rollout, in the HTTPScaledObject's own
	// namespace, that set the split. It is written and removed together with
	// Annotation.
	OwnerAnnotation = "http.kedify.io/weighted-backends-rollout"
)

// Backend is one side of a split.
type Backend struct {
	// Service is the name of a Service in the HTTPScaledObject's namespace.
	Service string `json:"service"`
	// Weight is this backend's share, relative to the sum of all weights of the split.
	// It is never negative; a backend with 0 gets no requests.
	Weight int32 `json:"weight"`
}

// String returns "service=weight".
func (b Backend) String() string { return fmt.Sprintf("%s=%d", b.Service, b.Weight) }

// Describe returns a split on one line, for logs and messages:
// "stable=80,canary=20", or "none" for an empty one.
func Describe(split []Backend) string {
	if len(split) == 0 {
		return "none"
	}
	parts := make([]string, len(split))
	for i, b := range split {
		parts[i] = b.String()
	}
	return strings.Join(parts, ",")
}

// Format returns the annotation value for a split, in exactly the form of the
// contract: a YAML list in the given order, ending with a newline.
func Format(split []Backend) string {
	if len(split) == 0 || slices.ContainsFunc(split, func(b Backend) bool { return !isPlain(b.Service) }) {
		out, err := yaml.Marshal(split)
		if err != nil {
			// A list of a string and a number cannot fail to marshal.
			panic(err)
		}
		return string(out)
	}
	// This is what yaml.Marshal would write, only faster: the router compares this text
	// in every reconcile of every Rollout.
	var out []byte
	for _, b := range split {
		out = append(out, "- service: "...)
		out = append(out, b.Service...)
		out = append(out, "\n  weight: "...)
		out = strconv.AppendInt(out, int64(b.Weight), 10)
		out = append(out, '\n')
	}
	return string(out)
}

// isPlain tells whether a name needs no quotes in YAML. The Service names that need
// them are YAML 1.1's words for null and booleans, all of letters, and "false" is the
// longest.
func isPlain(name string) bool {
	const longestWord = len("false")
	return len(name) > longestWord && len(validation.IsDNS1035Label(name)) == 0
}

// entry is a Backend as it is read: pointers tell a missing weight from a
// weight of 0. (Its name appears in messages of the YAML library.)
type entry struct {
	Service *string `json:"service"`
	Weight  *int32  `json:"weight"`
}

// Parse reads an annotation value. It refuses, naming the entry, whatever cannot be
// served: malformed YAML, keys other than service and weight, a missing or invalid
// service name or weight, a negative weight, the same service twice, an empty list, and
// weights that add up to 0 or to more than 2147483647.
func Parse(value string) ([]Backend, error) {
	var entries []entry
	if err := yaml.UnmarshalStrict([]byte(value), &entries); err != nil {
		return nil, fmt.Errorf("not a YAML list of {service, weight}: %w", err)
	}
	if len(entries) == 0 {
		return nil, errors.New("the list of backends is empty")
	}
	split := make([]Backend, 0, len(entries))
	seen := make(map[string]bool, len(entries))
	total := int64(0)
	for i, e := range entries {
		switch {
		case e.Service == nil || *e.Service == "":
			return nil, fmt.Errorf("[%d].service is missing", i)
		case len(validation.IsDNS1035Label(*e.Service)) > 0:
			return nil, fmt.Errorf("[%d].service %q is not a Service name", i, *e.Service)
		case seen[*e.Service]:
			return nil, fmt.Errorf("[%d].service %q is listed twice", i, *e.Service)
		case e.Weight == nil:
			return nil, fmt.Errorf("[%d].weight of service %q is missing", i, *e.Service)
		case *e.Weight < 0:
			return nil, fmt.Errorf("[%d].weight of service %q is %d, below 0", i, *e.Service, *e.Weight)
		}
		seen[*e.Service] = true
		total += int64(*e.Weight)
		split = append(split, Backend{Service: *e.Service, Weight: *e.Weight})
	}
	switch {
	case total == 0:
		return nil, errors.New("the weights add up to 0")
	case total > math.MaxInt32:
		return nil, fmt.Errorf("the weights add up to %d, above %d", total, math.MaxInt32)
	}
	return split, nil
}
