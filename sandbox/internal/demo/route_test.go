package demo

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// routeText returns a split in the form in which Canary.Split expects it.
func TestRouteText(t *testing.T) {
	const route = `
spec:
  rules:
    - backendRefs: [{name: s, weight: 95}, {name: c, weight: 5}]
      matches: [{path: {type: PathPrefix, value: /app}}]
    - name: beta
      backendRefs: [{name: c, weight: 1}]
      matches: [{path: {type: PathPrefix, value: /app}, headers: [{type: Exact, name: X-Beta, value: "yes"}]}]
`
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(route), &object.Object); err != nil {
		t.Fatal(err)
	}
	got := routeText(object)
	if want := "s=95, c=5\nc=1 with X-Beta: yes"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if want := behindGateway.Split(5, behindGateway.Steps[2].SetHeaderRoute); got != want {
		t.Errorf("the text is %q, and the canary expects %q", got, want)
	}
	if want := "s=95, c=5, c=1 with X-Beta: yes"; oneLine(got) != want {
		t.Errorf("on one line it is %q, want %q", oneLine(got), want)
	}
	if got := routeText(&unstructured.Unstructured{Object: map[string]any{}}); got != "" {
		t.Errorf("a route without rules has the text %q", got)
	}
}
