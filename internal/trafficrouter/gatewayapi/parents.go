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

// The states of a parent.
const (
	// Accepted: Accepted and ResolvedRefs are True at this generation.
	Accepted ParentState = iota
	// Refused: one of the two is False at this generation.
	Refused
	// Behind: the parent has reported both conditions, but not yet at this generation,
	// or not yet as True or False.
	Behind
	// Unreported: the parent has never reported one of the two conditions.
	Unreported
	// RefusedBefore: one of the two was reported as False last, at an earlier
	// generation.
	RefusedBefore
)

func (s ParentState) String() string {
	return []string{"accepted", "refused", "behind", "unreported", "has refused an earlier state of the route and not reported on this one"}[s]
}

// Parent is what one controller says of a route for one of its parentRefs.
type Parent struct {
	// Name names the parent for people: "Gateway infra/public", with section and port
	// where the route names them.
	Name string
	// Controller is the controllerName; empty if no controller has reported.
	Controller string
	State      ParentState
	// Reason and Message are those of the condition that refuses, or has refused
	// before. If the reason is a missing ReferenceGrant, the message names the
	// ReferenceGrants that the route needs.
	Reason, Message string
	// Generation is the last generation with a report; 0 if there is none.
	Generation int64
}

// String describes the parent's state on one line.
func (p Parent) String() string {
	text := fmt.Sprintf("%s: %s", p.Name, p.State)
	if p.Controller != "" {
		text = fmt.Sprintf("%s (%s): %s", p.Name, p.Controller, p.State)
	}
	if p.Reason != "" {
		text += fmt.Sprintf(", %s: %s", p.Reason, p.Message)
	}
	return text
}

// ParentsOf returns what the parents of a route say of its present generation: one
// for each parentRef and each controller that reports on it, in the order of the
// route. Reports on a parent that the route does not name any more are left out.
func ParentsOf(route *unstructured.Unstructured) []Parent {
	if route == nil || route.Object == nil {
		return nil
	}
	spec, _ := route.Object["spec"].(map[string]any)
	status, _ := route.Object["status"].(map[string]any)
	reports := objects(status["parents"])
	var parents []Parent
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
				parents = append(parents, judge(route, ref, report))
				reported = true
			}
		}
		if !reported {
			parents = append(parents, Parent{Name: ref.String(), State: Unreported})
		}
	}
	return parents
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
func judge(route *unstructured.Unstructured, ref parentRef, report map[string]any) Parent {
	p := Parent{Name: ref.String()}
	p.Controller, _ = report["controllerName"].(string)
	conditions := objects(report["conditions"])
	for _, kind := range []string{"Accepted", "ResolvedRefs"} {
		i := slices.IndexFunc(conditions, func(c map[string]any) bool { return c["type"] == kind })
		state := Unreported
		if i >= 0 {
			generation, _ := number(conditions[i]["observedGeneration"])
			p.Generation = max(p.Generation, generation)
			state = stateOfCondition(conditions[i], generation, route.GetGeneration())
		}
		worst := worse(p.State, state)
		if worst != p.State && (worst == Refused || worst == RefusedBefore) {
			p.Reason, _ = conditions[i]["reason"].(string)
			p.Message, _ = conditions[i]["message"].(string)
			if p.Reason == "RefNotPermitted" {
				p.Message = strings.TrimPrefix(p.Message+"; "+missingGrants(route), "; ")
			}
		}
		p.State = worst
	}
	return p
}

func stateOfCondition(condition map[string]any, observed, generation int64) ParentState {
	switch status, _ := condition["status"].(string); {
	case observed < generation && status == "False":
		return RefusedBefore
	case observed < generation:
		return Behind
	case status == "True":
		return Accepted
	case status == "False":
		return Refused
	}
	return Behind
}

// worse is the state of a parent with one condition in state a and the other in b: a
// refusal counts first, and a condition that was never reported is not waited for.
func worse(a, b ParentState) ParentState {
	for _, state := range []ParentState{Refused, RefusedBefore, Unreported, Behind} {
		if a == state || b == state {
			return state
		}
	}
	return Accepted
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
