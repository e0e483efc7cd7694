package demo

import (
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	httpRouteGVR = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	gatewayGVR   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
)

// routeText says where an HTTPRoute sends requests, a line for each rule: its
// backends with their weights, and the headers that it matches.
func routeText(route *unstructured.Unstructured) string {
	var lines []string
	for _, rule := range objects(route.Object, "spec", "rules") {
		var backends []string
		for _, ref := range objects(rule, "backendRefs") {
			backends = append(backends, fmt.Sprintf("%v=%v", ref["name"], ref["weight"]))
		}
		var headers []string
		for _, match := range objects(rule, "matches") {
			for _, header := range objects(match, "headers") {
				headers = append(headers, headerText(fmt.Sprint(header["name"]), fmt.Sprint(header["value"])))
			}
		}
		lines = append(lines, ruleText(backends, headers))
	}
	return strings.Join(lines, "\n")
}

func objects(from map[string]any, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(from, fields...)
	found := make([]map[string]any, 0, len(list))
	for _, element := range list {
		if object, ok := element.(map[string]any); ok {
			found = append(found, object)
		}
	}
	return found
}

func ruleText(backends, headers []string) string {
	text := strings.Join(backends, ", ")
	if len(headers) > 0 {
		text += " with " + strings.Join(headers, ", ")
	}
	return text
}

func headerText(name, value string) string { return name + ": " + value }

// routeSplit returns what routeText has to return for the canary's route at a weight
// of 0..100, with the header route header unless that is nil.
func (c Canary) routeSplit(weight int32, header *v1alpha1.SetHeaderRoute) string {
	text := ruleText([]string{fmt.Sprintf("%s=%d", c.Stable, 100-weight), fmt.Sprintf("%s=%d", c.Canary, weight)}, nil)
	if header == nil {
		return text
	}
	var headers []string
	for _, match := range header.Match {
		headers = append(headers, headerText(match.HeaderName, match.HeaderValue.Exact))
	}
	return text + "\n" + ruleText([]string{c.Canary + "=1"}, headers)
}

// header returns the name and the value of the header that the first header route of
// the steps matches, empty if there is none.
func (c Canary) header() (name, value string) {
	for _, step := range c.Steps {
		if step.SetHeaderRoute != nil && len(step.SetHeaderRoute.Match) > 0 {
			match := step.SetHeaderRoute.Match[0]
			return match.HeaderName, match.HeaderValue.Exact
		}
	}
	return "", ""
}
