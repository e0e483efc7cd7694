package gatewayapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotation holds what the router has to know of a route at later calls: a JSON object
// with an entry for each Owner, under its key, for which the route is not at rest.
const Annotation = "rollouts.kedify.io/gatewayapi-canary"

// entry is what a route's annotation says of one owner.
type entry struct {
	// Route is the route that the entry was written for, as namespace/name. A manifest that
	// is copied from the cluster has the entries of the route that it was copied from; they
	// say nothing of the copy. An entry without it is from an older version, and counts.
	Route string `json:"route,omitempty"`
	// Rules are the user's rules that are the owner's.
	Rules []ruleRecord `json:"rules,omitempty"`
	// Experiments are the destinations that were added to those rules.
	Experiments []experiment `json:"experiments,omitempty"`
	// Routes are the header and mirror routes, in the order of managedRoutes.
	Routes []managedRoute `json:"routes,omitempty"`
	// Label is the label that the owner has put on the route.
	Label *labelRecord `json:"label,omitempty"`
	// Refused is what parents said against the route before the entry's first write.
	Refused []refusal `json:"refused,omitempty"`
	// Stable is the Service that was stable at the last call, of a Rollout with pingPong.
	Stable string `json:"stable,omitempty"`
}

// ruleRecord identifies a rule by name, else by fingerprint, and has its weights at rest.
type ruleRecord struct {
	Name string `json:"name,omitempty"`
	Hash string `json:"hash"`
	// Rest has the weight of each Service at rest, null for one without the field.
	// It is empty while the rule has the weights that it has at rest.
	Rest map[string]*int64 `json:"rest,omitempty"`
}

// experiment is an added destination. Ports maps a port of the stable Service in the
// same rule to the port of the experiment's Service.
type experiment struct {
	Service string           `json:"service"`
	Ports   map[string]int32 `json:"ports,omitempty"`
}

type labelRecord struct {
	Label
	// Before is the value that the label had before.
	Before *string `json:"before,omitempty"`
}

// isIdle tells whether nothing of the owner differs from rest.
func (e *entry) isIdle() bool {
	return len(e.Experiments) == 0 && len(e.Routes) == 0 &&
		!slices.ContainsFunc(e.Rules, func(r ruleRecord) bool { return r.Rest != nil })
}

// add takes over what another entry has. Of what both have, the entry's own stays.
func (e *entry) add(other *entry) {
	e.Rules = append(e.Rules, other.Rules...)
	for _, added := range other.Experiments {
		if !slices.ContainsFunc(e.Experiments, func(own experiment) bool { return own.Service == added.Service }) {
			e.Experiments = append(e.Experiments, added)
		}
	}
	for _, added := range other.Routes {
		if !slices.ContainsFunc(e.Routes, func(own managedRoute) bool { return own.Name == added.Name }) {
			e.Routes = append(e.Routes, added)
		}
	}
	if e.Label == nil {
		e.Label = other.Label
	}
	if e.Refused == nil {
		e.Refused = other.Refused
	}
	e.Stable = cmp.Or(e.Stable, other.Stable)
}

// state is the annotation of a route.
type state struct {
	route string // namespace/name
	// written are all entries as they are written: others may be another version's, or
	// another route's.
	written map[string]json.RawMessage
	// entries are those of this route.
	entries map[string]*entry
}

// stateOf reads the annotation of a route. An annotation that cannot be read is lost;
// the warning says so.
func stateOf(route *unstructured.Unstructured) (s state, warning string) {
	s = state{
		route:   route.GetNamespace() + "/" + route.GetName(),
		written: map[string]json.RawMessage{}, entries: map[string]*entry{},
	}
	written, ok := annotationsOf(route)[Annotation]
	if !ok {
		return s, ""
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(written), &all); err != nil || all == nil {
		return s, fmt.Sprintf("annotation %s cannot be read, and what it says is lost: rest means all requests to stable (%.100q)", Annotation, written)
	}
	s.written = all
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if e := entryOf(all[key]); s.isHere(e) {
			s.entries[key] = e
		}
	}
	return s, ""
}

// entryOf reads an entry; one that cannot be read is empty.
func entryOf(raw json.RawMessage) *entry {
	e := &entry{}
	if err := json.Unmarshal(raw, e); err != nil {
		return &entry{}
	}
	return e
}

// keys are the owners of the entries in order.
func (s state) keys() []string { return slices.Sorted(maps.Keys(s.entries)) }

// entry returns the entry of an owner; an empty one, and false, if there is none.
func (s state) entry(key string) (*entry, bool) {
	if e, ok := s.entries[key]; ok {
		return e, true
	}
	return &entry{}, false
}

// isHere tells whether an entry is about this route.
func (s state) isHere(e *entry) bool { return e.Route == "" || e.Route == s.route }

// set writes the entry of an owner; an idle entry is removed. It returns whether anything
// has changed.
func (s state) set(key string, e *entry) bool {
	written, had := s.written[key]
	was := entryOf(written)
	had = had && s.isHere(was)
	if e.isIdle() {
		if had {
			s.remove(key)
		}
		return had
	}
	e.Route = s.route
	text := marshal(e)
	if had && string(marshal(was)) == string(text) {
		return false
	}
	s.written[key] = text
	return true
}

func (s state) remove(key string) {
	delete(s.written, key)
	delete(s.entries, key)
}

func marshal(e *entry) json.RawMessage {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers alone
	}
	return text
}

// write puts the state on a route; none when it is empty.
func (s state) write(route *unstructured.Unstructured) {
	if len(s.written) == 0 {
		setMetadata(route, "annotations", Annotation, nil)
		return
	}
	text, err := json.Marshal(s.written)
	if err != nil {
		return // an entry of another owner that is no JSON: it was read as such
	}
	value := string(text)
	setMetadata(route, "annotations", Annotation, &value)
}

// RolloutsOn returns the owners that a route is not at rest for, in the order of their
// keys. It serves as an index of routes by Rollout; it reads nothing of the route but its
// namespace, name and annotations. Entries that were copied from another route are not
// among them.
func RolloutsOn(route *unstructured.Unstructured) []Owner {
	s, _ := stateOf(route)
	var owners []Owner
	for _, key := range s.keys() {
		if o := ownerOf(key); strings.Contains(key, "/") && o.Rollout.Namespace != "" && o.Rollout.Name != "" {
			owners = append(owners, o)
		}
	}
	return owners
}
