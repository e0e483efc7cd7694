package traffictest

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Header is a header that selects requests; an empty value matches any.
type Header struct{ Name, Value string }

// Object is an HTTPScaledObject of a test that needs no Rollout.
type Object struct {
	Name     string
	Labels   map[string]string
	Hosts    []string
	Prefixes []string
	Headers  []Header
	// Service is scaleTargetRef.service; its port is 80.
	Service string
	// Split is the annotation's text, none when empty.
	Split string
	// ConditionWait is timeouts.conditionWait, such as 30s.
	ConditionWait string
}

// Manifest returns the object's manifest, in JSON, which is YAML.
func (o Object) Manifest() string {
	annotations := map[string]string{"httpscaledobject.keda.sh/skip-scaledobject-creation": "true"}
	if o.Split != "" {
		annotations[e2etest.SplitAnnotation] = o.Split
	}
	spec := map[string]any{"scaleTargetRef": map[string]any{"service": o.Service, "port": 80}}
	if len(o.Hosts) > 0 {
		spec["hosts"] = o.Hosts
	}
	if len(o.Prefixes) > 0 {
		spec["pathPrefixes"] = o.Prefixes
	}
	var headers []map[string]string
	for _, h := range o.Headers {
		headers = append(headers, map[string]string{"name": h.Name, "value": h.Value})
	}
	if len(headers) > 0 {
		spec["headers"] = headers
	}
	if o.ConditionWait != "" {
		spec["timeouts"] = map[string]string{"conditionWait": o.ConditionWait}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "http.keda.sh/v1alpha1",
		"kind":       "HTTPScaledObject",
		"metadata":   map[string]any{"name": o.Name, "labels": o.Labels, "annotations": annotations},
		"spec":       spec,
	})
	if err != nil {
		panic(err) // it is made of text and numbers
	}
	return "---\n" + string(text) + "\n"
}

// Split sets the weights of an HTTPScaledObject; without any it takes the split
// off.
func Split(t testing.TB, n *e2etest.Namespace, object string, backends ...e2etest.Weight) {
	t.Helper()
	if len(backends) == 0 {
		n.Annotate(object, map[string]*string{e2etest.SplitAnnotation: nil})
		return
	}
	text := e2etest.SplitText(backends...)
	n.Annotate(object, map[string]*string{e2etest.SplitAnnotation: &text})
}

// Sorted returns the keys of a map in order.
func Sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
