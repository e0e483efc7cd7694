package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// findManaged finds the rules that were made for the header and mirror routes of all
// owners. One that is known by its name alone has to ask for what its route asks: a user
// may have given that name to a rule of their own.
func (d *draft) findManaged() {
	type made struct {
		owner string
		route managedRoute
		madeRecord
	}
	var all []made
	for _, key := range d.state.keys() {
		for _, route := range d.state.entries[key].Routes {
			for _, record := range route.Rules {
				all = append(all, made{key, route, record})
			}
		}
	}
	hash := d.hashes()
	sameName := func(i int, r *rule) bool { return all[i].Name != "" && all[i].Name == r.name() }
	sameHash := func(i int, r *rule) bool { return all[i].Hash == hash(r) }
	found := find(len(all), d.rules,
		func(i int, r *rule) bool { return sameName(i, r) && sameHash(i, r) },
		sameHash,
		func(i int, r *rule) bool { return sameName(i, r) && d.asksFor(r, all[i].route, all[i].owner) })
	for i, r := range found {
		if r != nil {
			r.owner, r.route, r.given, r.before = all[i].owner, all[i].route.Name, all[i].Name, all[i].Before
		}
	}
	d.present = filter(d.rules, func(r *rule) bool { return r.owner == d.key() })
}

// findRecorded finds the user's rules that records are about.
func (d *draft) findRecorded(records []ruleRecord) []*rule {
	hash := d.hashes()
	return find(len(records), d.userRules(),
		func(i int, r *rule) bool { return records[i].Name != "" && records[i].Name == r.name() },
		func(i int, r *rule) bool { return records[i].Hash == hash(r) })
}

// findRecords finds the user's rules that the owner's entry is about. If one record
// and one rule with both Services are left, they belong together, unless the rule is
// at rest: the rule has been edited beyond recognition.
func (d *draft) findRecords() {
	d.records = map[*rule]ruleRecord{}
	for i, r := range d.findRecorded(d.own.Rules) {
		if r != nil {
			d.records[r] = d.own.Rules[i]
		} else {
			d.lost = append(d.lost, d.own.Rules[i])
		}
	}
	unknown := filter(d.sources(), func(r *rule) bool { _, ok := d.records[r]; return !ok })
	if len(d.lost) == 1 && len(unknown) == 1 && !d.isAtRest(unknown[0]) {
		d.records[unknown[0]], d.lost = d.lost[0], nil
	}
}

// findClaims finds the rules that other owners split.
func (d *draft) findClaims() {
	d.claims = map[*rule]string{}
	for _, key := range d.state.keys() {
		if key == d.key() {
			continue
		}
		for _, r := range d.findRecorded(d.state.entries[key].Rules) {
			if r != nil && d.claims[r] == "" {
				d.claims[r] = key
			}
		}
	}
}

// fingerprint identifies a rule by what it matches, what it mirrors to and what it
// refers to. Weights, experiments and names are not part of it, and neither is
// what a user may edit in the middle of a canary without making another rule of
// it: filters, timeouts, retries.
func (d *draft) fingerprint(body map[string]any) string {
	type print struct {
		Matches  any
		Mirrors  []Backend
		Backends []Backend
	}
	p := print{Matches: d.matchesOf(body)}
	for _, ref := range objects(body["backendRefs"]) {
		if b := backendOf(ref, d.namespace); !d.isExperiment(b) {
			p.Backends = append(p.Backends, b)
		}
	}
	for _, filter := range objects(body["filters"]) {
		if mirror, ok := filter["requestMirror"].(map[string]any); ok {
			ref, _ := mirror["backendRef"].(map[string]any)
			p.Mirrors = append(p.Mirrors, backendOf(ref, d.namespace))
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// isExperiment tells whether a backend was added for an experiment of any Rollout.
func (d *draft) isExperiment(b Backend) bool {
	return slices.ContainsFunc(d.experiments, b.isService)
}

// hashes returns a function that returns the fingerprint of a rule, computed once.
func (d *draft) hashes() func(*rule) string {
	known := map[*rule]string{}
	return func(r *rule) string {
		if _, ok := known[r]; !ok {
			known[r] = d.fingerprint(r.body)
		}
		return known[r]
	}
}

// find returns the rule for each of n records, each rule once, and nil for a record that
// fits none. A way tells whether a record fits a rule; the ways are tried one after the
// other.
func find(n int, rules []*rule, ways ...func(record int, r *rule) bool) []*rule {
	found := make([]*rule, n)
	taken := map[*rule]bool{}
	for _, fits := range ways {
		for i := range found {
			for _, r := range rules {
				if found[i] == nil && !taken[r] && r.body != nil && fits(i, r) {
					found[i], taken[r] = r, true
				}
			}
		}
	}
	return found
}
