package gatewayapi

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Split is how a rule divides its requests between the Services of a Rollout.
type Split struct {
	// Rule names the rule for people.
	Rule string
	// Stable and Canary are the weights of the two Services.
	Stable, Canary int64
}

// SplitsOf returns the splits of the rules of a route that a Rollout splits, or would
// at its next weight, in the order of the route; none for what is no route of a known
// kind. Rules of header and mirror routes are not among them.
func SplitsOf(route *unstructured.Unstructured, ro Rollout) []Split {
	d, err := newDraft(route, ro)
	if err != nil {
		return nil
	}
	var splits []Split
	for _, r := range d.sources() {
		if !d.holdsBoth(r) {
			continue // the configuration is unreadable, and a recorded rule was edited since
		}
		splits = append(splits, Split{
			Rule:   d.describe(r),
			Stable: weightOf(d.refsTo(r, d.stable())[0]),
			Canary: weightOf(d.refsTo(r, d.canary())[0]),
		})
	}
	return splits
}
