package gatewayapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Annotation holds what the router has to remember of a route: a JSON object with
// an entry for each Rollout, under namespace/name, for which the route is not at
// rest.
const Annotation = "rollouts.kedify.io/gatewayapi-canary"

// entry is what is remembered for one Rollout.
type entry struct {
	// Rules are the user's rules that are the Rollout's.
	Rules []ruleRecord `json:"rules,omitempty"`
	// Experiments are the destinations that were added to those rules.
	Experiments []experiment `json:"experiments,omitempty"`
	// Routes are the header and mirror routes, in the order of managedRoutes.
	Routes []managedRoute `json:"routes,omitempty"`
	// Label is the label that this Rollout has put on the route.
	Label *labelRecord `json:"label,omitempty"`
	// Plugin is the name of the plugin that has written this, unless it is the default.
	Plugin string `json:"plugin,omitempty"`
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

// pluginOf is the name of the plugin that has written what a Rollout has on a route.
func pluginOf(route *unstructured.Unstructured, rollout types.NamespacedName) string {
	s, _ := stateOf(route)
	return cmp.Or(s.entry(rollout.String()).Plugin, DefaultPluginName)
}

// isIdle tells whether nothing of the Rollout differs from rest.
func (e *entry) isIdle() bool {
	return len(e.Experiments) == 0 && len(e.Routes) == 0 &&
		!slices.ContainsFunc(e.Rules, func(r ruleRecord) bool { return r.Rest != nil })
}

// state is the annotation: entries as they are written, since those of other
// Rollouts may be another version's.
type state map[string]json.RawMessage

// stateOf reads the annotation of a route. An annotation that cannot be read is lost;
// the warning says so.
func stateOf(route *unstructured.Unstructured) (state, string) {
	written, ok := annotationsOf(route)[Annotation]
	if !ok {
		return state{}, ""
	}
	var s state
	if err := json.Unmarshal([]byte(written), &s); err != nil || s == nil {
		return state{}, fmt.Sprintf("annotation %s cannot be read, and what it remembers is lost: rest means all requests to stable (%.100q)", Annotation, written)
	}
	return s, ""
}

// keys are the Rollouts of the state in order.
func (s state) keys() []string { return slices.Sorted(maps.Keys(s)) }

// entry returns the entry of a Rollout; an empty one if there is none that can be
// read.
func (s state) entry(key string) *entry {
	e := &entry{}
	if err := json.Unmarshal(s[key], e); err != nil {
		return &entry{}
	}
	return e
}

// set replaces the entry of a Rollout; an idle entry is removed. It returns whether
// anything has changed.
func (s state) set(key string, e *entry) bool {
	before, had := s[key]
	if e.isIdle() {
		delete(s, key)
		return had
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers alone
	}
	old, _ := json.Marshal(s.entry(key))
	if had && string(old) == string(text) {
		s[key] = before
		return false
	}
	s[key] = text
	return true
}

// write puts the state on a route; none when it is empty.
func (s state) write(route *unstructured.Unstructured) {
	if len(s) == 0 {
		setMetadata(route, "annotations", Annotation, nil)
		return
	}
	text, err := json.Marshal(s)
	if err != nil {
		return // an entry of another Rollout that is no JSON: it was read as such
	}
	value := string(text)
	setMetadata(route, "annotations", Annotation, &value)
}

// RolloutsOn returns the Rollouts that a route is not at rest for, in order. It
// serves as an index of routes by Rollout.
func RolloutsOn(route *unstructured.Unstructured) []types.NamespacedName {
	s, _ := stateOf(route)
	var rollouts []types.NamespacedName
	for _, key := range s.keys() {
		if namespace, name, ok := strings.Cut(key, "/"); ok && namespace != "" && name != "" {
			rollouts = append(rollouts, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return rollouts
}
