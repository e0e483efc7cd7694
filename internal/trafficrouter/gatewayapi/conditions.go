package gatewayapi

import (
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The types of condition that say whether a parent serves a route.
const (
	typeAccepted     = "Accepted"
	typeResolvedRefs = "ResolvedRefs"
	// typePartiallyInvalid is True while some rules of a route are invalid, and not set
	// otherwise. The parent either drops these rules, or serves an earlier state of the whole
	// route: the message begins with "Dropped Rule" or "Fall Back".
	typePartiallyInvalid = "PartiallyInvalid"
)

// parentCondition is a condition that a parent has reported of a route.
type parentCondition struct {
	kind, reason, message string
	// generation is the observedGeneration; 0 if there is none.
	generation int64
	// decided is true for the status True or False, against if that is against the route.
	decided, against bool
}

// parentConditionOf returns the condition of a type in a report. One that has never been reported
// has generation 0.
func parentConditionOf(report map[string]any, kind string) parentCondition {
	c := parentCondition{kind: kind}
	for _, raw := range objects(report["conditions"]) {
		if raw["type"] != kind {
			continue
		}
		against := "False"
		if kind == typePartiallyInvalid {
			against = "True"
		}
		c.reason, _ = raw["reason"].(string)
		c.message, _ = raw["message"].(string)
		c.generation, _ = number(raw["observedGeneration"])
		c.decided = raw["status"] == "True" || raw["status"] == "False"
		c.against = raw["status"] == against
		break
	}
	return c
}

// state is what the condition says of a generation of a route.
func (c parentCondition) state(generation int64) ParentState {
	if c.kind == typePartiallyInvalid {
		if c.against && (c.generation >= generation || c.generation == 0) {
			return Refused
		}
		return Accepted // nobody has to set it, and of other generations it says nothing
	}
	switch {
	case c.against && c.generation >= generation:
		return Refused
	case c.generation <= 0 && !c.against:
		return Unreported
	case c.generation < generation || !c.decided:
		return Behind
	}
	return Accepted
}

// mayBeOfOthers tells whether the condition, if it is against the route, can be about rules
// of other Rollouts alone: the parent serves the others as they are.
func (c parentCondition) mayBeOfOthers() bool {
	return c.kind == typeResolvedRefs || c.kind == typePartiallyInvalid && !strings.Contains(c.message, "Fall Back")
}

// refusal is what a parent says against a route in status.parents that may be about a part
// of it alone: ResolvedRefs is False, or PartiallyInvalid is True.
type refusal struct {
	Parent     string `json:"parent"`
	Controller string `json:"controller,omitempty"`
	Condition  string `json:"condition"`
	Reason     string `json:"reason,omitempty"`
	// Message is cut at maxMessage.
	Message string `json:"message,omitempty"`
}

// maxMessage keeps the annotation, which has several messages, far from its limit.
const maxMessage = 1024

// refusalsOf returns what the parents of a route say against a part of its present
// generation.
func refusalsOf(route *unstructured.Unstructured) []refusal {
	var refusals []refusal
	eachReport(route, func(ref parentRef, report map[string]any) {
		for _, kind := range []string{typeResolvedRefs, typePartiallyInvalid} {
			c := parentConditionOf(report, kind)
			if c.against && c.mayBeOfOthers() && (c.generation == 0 || c.generation >= route.GetGeneration()) {
				refusals = append(refusals, c.refusal(ref, report))
			}
		}
	})
	return refusals
}

// refusal is the condition as an entry has it.
func (c parentCondition) refusal(ref parentRef, report map[string]any) refusal {
	controller, _ := report["controllerName"].(string)
	message := strings.ToValidUTF8(c.message[:min(len(c.message), maxMessage)], "")
	return refusal{ref.String(), controller, c.kind, c.reason, message}
}

// covers tells whether r says all that a later refusal of the same parent says. A rule that
// is added or repaired changes the numbers of rules in messages, their order and their
// length: so numbers and order do not count, and r may say more.
func (r refusal) covers(later refusal) bool {
	said := wordsOf(r.Message)
	unsaid := func(word string) bool { return !slices.Contains(said, word) }
	sameButMessage := later
	sameButMessage.Message = r.Message
	return sameButMessage == r && !slices.ContainsFunc(wordsOf(later.Message), unsaid)
}

// wordsOf returns the words of a message, without its numbers.
func wordsOf(message string) []string {
	words := strings.FieldsFunc(message, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-./", c)
	})
	for i, word := range words {
		words[i] = strings.Trim(word, "-./")
	}
	return slices.DeleteFunc(words, func(word string) bool { return strings.Trim(word, "0123456789") == "" })
}

// refusedBefore returns what parents said against a route before the first write for an
// owner, and whether the owner has an entry, which says so.
func refusedBefore(route *unstructured.Unstructured, owner Owner) (before []refusal, ok bool) {
	s, _ := stateOf(route)
	e, ok := s.entry(keyOf(owner))
	return e.Refused, ok
}
