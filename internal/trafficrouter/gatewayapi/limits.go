package gatewayapi

// The limits of the CRDs.
const (
	maxRules          = 16
	maxMatches        = 64
	maxMatchesOfRules = 128
)

// checkLimits refuses rules that the API server would refuse, with the numbers.
func (d *draft) checkLimits(rules []*rule) error {
	made, all := 0, 0
	for _, r := range rules {
		if r.owner != "" {
			made++
		}
		matches := d.matchesOf(r.body)
		all += len(matches)
		if r.owner != d.key() {
			continue
		}
		if len(matches) > maxMatches {
			return d.errorf("a rule of route %q would have %d matches, a rule takes %d: match less in the step, or in the rule that it is made from", r.route, len(matches), maxMatches)
		}
	}
	if len(rules) > maxRules {
		return d.errorf("the route would have %d rules, %d of them for header and mirror routes; a route takes %d: use fewer of those, or single out rules with the key rules", len(rules), made, maxRules)
	}
	if all > maxMatchesOfRules {
		return d.errorf("the route would have %d matches in all its rules; a route takes %d: use fewer header and mirror routes, or single out rules with the key rules", all, maxMatchesOfRules)
	}
	return nil
}
