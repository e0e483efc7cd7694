package gatewayapi

// The limits of the CRDs.
const (
	maxRules          = 16
	maxMatches        = 64
	maxMatchesOfRules = 128
	maxListed         = 16 // headers, query parameters, filters and backendRefs
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
		for _, field := range []string{"filters", "backendRefs"} {
			if n := len(objects(r.body[field])); n > maxListed {
				return d.errorf("a rule of route %q would have %d %s, a rule takes %d", r.route, n, field, maxListed)
			}
		}
		for _, match := range objects(r.body["matches"]) {
			if n := len(objects(match["headers"])); n > maxListed {
				return d.errorf("a match of route %q would have conditions on %d headers, a match takes %d: match fewer headers in the step", r.route, n, maxListed)
			}
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
