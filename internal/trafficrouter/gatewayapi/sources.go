package gatewayapi

import "slices"

// userRules are the rules that are not the router's.
func (d *draft) userRules() []*rule {
	return filter(d.rules, func(r *rule) bool { return r.owner == "" && r.body != nil })
}

// sources are the user's rules that the owner splits.
func (d *draft) sources() []*rule {
	return filter(d.userRules(), func(r *rule) bool {
		if d.ro.Unconfigured {
			_, ok := d.records[r]
			return ok
		}
		return d.holdsBoth(r) && (len(d.ro.Rules) == 0 || slices.Contains(d.ro.Rules, r.name()))
	})
}

// toSplit returns the sources. It fails if there is none, or if one of them belongs to
// another Rollout.
func (d *draft) toSplit() ([]*rule, error) {
	if d.ro.Unconfigured {
		return nil, d.errorf("the configuration of %s cannot be read: only weight 0 can be set", describeOwner(d.owner()))
	}
	sources := d.sources()
	if len(sources) == 0 {
		return nil, d.noSource()
	}
	for _, r := range sources {
		if owner := d.claims[r]; owner != "" {
			return nil, &ForeignError{Route: d.name, Rule: d.describe(r), Refused: d.owner(), Owner: ownerOf(owner)}
		}
		for _, s := range []service{d.stable(), d.canary()} {
			if n := len(d.refsTo(r, s)); n > 1 {
				return nil, d.errorf("%s has %d backendRefs to Service %s/%s: a weight needs one; take the others out", d.describe(r), n, s.namespace, s.name)
			}
		}
	}
	return sources, nil
}

func (d *draft) noSource() error {
	if len(d.ro.Rules) > 0 {
		return d.errorf("no rule named %s has both the stable Service %s and the canary Service %s of namespace %s in its backendRefs: correct the rule, or rules in the Rollout's configuration (CRDs older than Gateway API v1.4 drop the names of rules)",
			quoted(d.ro.Rules), d.ro.Stable, d.ro.Canary, d.ro.Namespace)
	}
	return d.errorf("no rule has both the stable Service %s and the canary Service %s of namespace %s in its backendRefs: add the one that is missing, the canary with weight 0",
		d.ro.Stable, d.ro.Canary, d.ro.Namespace)
}
