package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ParentState is what a parent says of the present generation of a route.
type ParentState int

// The states of a parent. The worst state of its conditions, which is the greater one,
// counts.
const (
	// Accepted: Accepted and ResolvedRefs are True at this generation.
	Accepted ParentState = iota
	// Unreported: Accepted or ResolvedRefs has never been reported, or never with an
	// observedGeneration, so that nothing shows whether the parent follows the route.
	Unreported
	// Behind: the parent has followed the route, or refused it, and has not reported on this
	// generation yet, or not yet with True or False.
	Behind
	// Refused: a condition is against the route at this generation: Accepted or ResolvedRefs
	// is False, or PartiallyInvalid is True.
	Refused
)

func (s ParentState) String() string {
	return []string{"accepted", "unreported", "has not reported on this state of the route yet", "refused"}[s]
}

// Parent is what one controller says of a route for one of its parentRefs.
type Parent struct {
	// Name names the parent for people: "Gateway infra/public", with section and port
	// where the route names them.
	Name string
	// Controller is the controllerName; empty if no controller has reported.
	Controller string
	State      ParentState
	// Reason and Message are those of the condition that refuses this generation, or, if the
	// parent is Behind, an earlier one. If the reason is a missing ReferenceGrant, the message names the
	// ReferenceGrants that the route needs.
	Reason, Message string
	// Generation is the last generation with a report; 0 if there is none.
	Generation int64
	// Excused are the messages of conditions that are against the route and do not count,
	// because they were there before.
	Excused []string
}

// String describes the parent's state on one line.
func (p Parent) String() string {
	text := p.Name
	if p.Controller != "" {
		text += " (" + p.Controller + ")"
	}
	if p.State == Behind && p.Reason != "" {
		text += ": has refused an earlier state of the route and not reported on this one"
	} else {
		text += ": " + p.State.String()
	}
	if p.Reason != "" {
		text += fmt.Sprintf(", %s: %s", p.Reason, p.Message)
	}
	if len(p.Excused) > 0 {
		text += ", but for what was so before the canary: " + strings.Join(p.Excused, "; ")
	}
	return text
}

// ParentsOf returns what the parents of a route say of its present generation for a
// Rollout: one for each parentRef and each controller that reports on it, in the order of
// the route. Reports on a parent that the route does not name any more are left out.
//
// A condition is about the whole route, which may have rules of other Rollouts. What a
// parent has had against a part of the route before the Rollout's first write, and still has
// in the same words, is in Excused and does not make it refuse. While the Rollout has
// written nothing, that is what parents say now.
func ParentsOf(route *unstructured.Unstructured, ro Rollout) []Parent {
	before, ok := refusedBefore(route, ro.owner())
	if !ok {
		before = refusalsOf(route)
	}
	return parentsOf(route, before)
}

// parentsOf is ParentsOf with the conditions that do not count.
func parentsOf(route *unstructured.Unstructured, before []refusal) []Parent {
	var parents []Parent
	eachReport(route, func(ref parentRef, report map[string]any) {
		parents = append(parents, judge(route, ref, report, before))
	})
	return parents
}

// eachReport calls do for each parentRef of a route and each report on it, with nil if there
// is none.
func eachReport(route *unstructured.Unstructured, do func(ref parentRef, report map[string]any)) {
	if route == nil || route.Object == nil {
		return
	}
	spec, _ := route.Object["spec"].(map[string]any)
	status, _ := route.Object["status"].(map[string]any)
	reports := objects(status["parents"])
	seen := map[parentRef]bool{}
	for _, raw := range objects(spec["parentRefs"]) {
		ref := parentRefOf(raw, route.GetNamespace())
		if seen[ref] {
			continue
		}
		seen[ref] = true
		reported := false
		for _, report := range reports {
			reportedRef, _ := report["parentRef"].(map[string]any)
			if parentRefOf(reportedRef, route.GetNamespace()) == ref {
				do(ref, report)
				reported = true
			}
		}
		if !reported {
			do(ref, nil)
		}
	}
}

// parentRef is a parentRef with the CRD's defaults.
type parentRef struct {
	group, kind, namespace, name, section string
	port                                  int64
}

func parentRefOf(raw map[string]any, namespace string) parentRef {
	p := parentRef{group: Group, kind: "Gateway", namespace: namespace}
	set := func(field string, value *string) {
		if s, ok := raw[field].(string); ok && (s != "" || field == "group") {
			*value = s
		}
	}
	set("group", &p.group)
	set("kind", &p.kind)
	set("namespace", &p.namespace)
	set("name", &p.name)
	set("sectionName", &p.section)
	p.port, _ = number(raw["port"])
	return p
}

func (p parentRef) String() string {
	text := fmt.Sprintf("%s %s/%s", p.kind, p.namespace, p.name)
	if p.section != "" {
		text += " section " + p.section
	}
	if p.port != 0 {
		text += fmt.Sprintf(" port %d", p.port)
	}
	return text
}

// judge says what a report means for the present generation.
func judge(route *unstructured.Unstructured, ref parentRef, report map[string]any, before []refusal) Parent {
	p := Parent{Name: ref.String()}
	p.Controller, _ = report["controllerName"].(string)
	for _, kind := range []string{typeAccepted, typeResolvedRefs, typePartiallyInvalid} {
		c := parentConditionOf(report, kind)
		p.Generation = max(p.Generation, c.generation)
		said := c.refusal(ref, report)
		if c.against && c.mayBeOfOthers() && slices.ContainsFunc(before, func(r refusal) bool { return r.covers(said) }) {
			p.Excused = append(p.Excused, c.reason+": "+oneLine(c.message))
			c.against = false
		}
		state := c.state(route.GetGeneration())
		if c.against && (state > p.State || state == Behind && p.State == Behind && p.Reason == "") {
			p.Reason, p.Message = c.reason, oneLine(c.message)
			if p.Reason == "RefNotPermitted" {
				p.Message = strings.TrimPrefix(p.Message+"; "+missingGrants(route), "; ")
			}
		}
		p.State = max(p.State, state)
	}
	return p
}

// oneLine is a parent's message for the middle of a sentence. Envoy Gateway writes a sentence
// a line.
func oneLine(message string) string {
	return strings.ReplaceAll(strings.TrimSuffix(message, "."), "\n", " ")
}

// missingGrants names the ReferenceGrants that a route needs for the backends of
// other namespaces; which of them are missing is not known here.
func missingGrants(route *unstructured.Unstructured) string {
	var grants []string
	for _, b := range BackendsOf(route) {
		grant := fmt.Sprintf("a ReferenceGrant in namespace %s from %s of namespace %s to %s %s", b.Namespace, route.GetKind(), route.GetNamespace(), b.Kind, b.Name)
		if b.Namespace != route.GetNamespace() && !slices.Contains(grants, grant) {
			grants = append(grants, grant)
		}
	}
	if len(grants) == 0 {
		return ""
	}
	return "the route needs " + strings.Join(grants, ", and ")
}

// GatewaysOf returns the Gateways that a route names as parents, each once, in the
// order of the route.
func GatewaysOf(route *unstructured.Unstructured) []types.NamespacedName {
	spec, _ := route.Object["spec"].(map[string]any)
	var gateways []types.NamespacedName
	for _, raw := range objects(spec["parentRefs"]) {
		ref := parentRefOf(raw, route.GetNamespace())
		gateway := types.NamespacedName{Namespace: ref.namespace, Name: ref.name}
		if ref.group == Group && ref.kind == "Gateway" && !slices.Contains(gateways, gateway) {
			gateways = append(gateways, gateway)
		}
	}
	return gateways
}
