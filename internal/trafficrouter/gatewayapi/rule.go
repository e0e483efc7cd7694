package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// rule is a rule of a route. It is the user's unless owner names the Rollout that
// the router has made it for.
type rule struct {
	// raw is the rule as it is in the list; body is the same where it is an object.
	raw  any
	body map[string]any
	// owner is the Rollout of a managed rule, under namespace/name, and route the
	// name of the header or mirror route that it was made for.
	owner, route string
	// given is the name that the router gives a managed rule; an old CRD drops it.
	given string
	// before is true for a managed rule that stands before the user's rule that it
	// was made from; all others stand at the end.
	before bool
}

func (r *rule) name() string {
	name, _ := r.body["name"].(string)
	return name
}

// refs are the backendRefs of a rule; changes to them are changes to the rule.
func (r *rule) refs() []map[string]any { return objects(r.body["backendRefs"]) }

// refsTo are the backendRefs of a rule that refer to a Service.
func (d *draft) refsTo(r *rule, s service) []map[string]any {
	var refs []map[string]any
	for _, ref := range r.refs() {
		if backendOf(ref, d.namespace).isService(s) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// holdsBoth tells whether a rule holds the stable and the canary Service.
func (d *draft) holdsBoth(r *rule) bool {
	return d.ro.Stable != d.ro.Canary && len(d.refsTo(r, d.stable())) > 0 && len(d.refsTo(r, d.canary())) > 0
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

// recordOf returns what identifies a rule at a later call.
func (d *draft) recordOf(r *rule) ruleRecord {
	return ruleRecord{Name: r.name(), Hash: d.fingerprint(r.body)}
}

// known identifies a rule: by name, else by fingerprint.
type known struct{ name, hash string }

// find returns the rule for each of wanted, by name, then by fingerprint, each rule
// once. A rule that is not found is nil.
func (d *draft) find(wanted []known, rules []*rule) []*rule {
	found := make([]*rule, len(wanted))
	taken := map[*rule]bool{}
	pass := func(is func(known, *rule) bool) {
		for i, k := range wanted {
			for _, r := range rules {
				if found[i] == nil && !taken[r] && r.body != nil && is(k, r) {
					found[i], taken[r] = r, true
				}
			}
		}
	}
	pass(func(k known, r *rule) bool { return k.name != "" && k.name == r.name() })
	hashes := map[*rule]string{}
	pass(func(k known, r *rule) bool {
		if _, ok := hashes[r]; !ok {
			hashes[r] = d.fingerprint(r.body)
		}
		return k.hash == hashes[r]
	})
	return found
}

// copyOf is a deep copy of decoded JSON.
func copyOf[T any](value T) T {
	result, _ := runtime.DeepCopyJSONValue(value).(T)
	return result
}
