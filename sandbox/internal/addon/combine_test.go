package addon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

// Of what two add-ons bring, the objects that are applied, by the namespace that they go
// into; of a Namespace, with its labels.
func TestCombine(t *testing.T) {
	const (
		config     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"
		inA        = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: a}}"
		secret     = "{apiVersion: v1, kind: Secret, metadata: {name: x}}"
		service    = "{apiVersion: v1, kind: Service, metadata: {name: x}}"
		knative    = "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: x}}"
		labelled   = "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {l: m}}}"
		unlabelled = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"
		enforced   = "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {enforce: restricted}}}"
		role       = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x}}"
		route      = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: routes.gateway}, spec: {group: gateway}}"
		proxy      = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: proxies.contour}, spec: {group: contour}}"
	)
	for name, tc := range map[string]struct {
		first, second string
		namespace     string // of second; that of first is a
		defined       []string
		want          string
		err           string
	}{
		"another kind":               {first: config, second: secret, namespace: "a", want: "a/ConfigMap a/Secret"},
		"another namespace":          {first: config, second: config, namespace: "b", want: "a/ConfigMap b/ConfigMap"},
		"the same, in its namespace": {first: config, second: inA, namespace: "b", err: "another add-on brings ConfigMap x"},
		"of another API group":       {first: service, second: knative, namespace: "a", want: "a/Service a/Service"},
		"in no namespace":            {first: role, second: role, namespace: "b", err: "another add-on brings ClusterRole x"},
		"a Namespace":                {first: labelled, second: enforced, namespace: "b", want: "/Namespace[enforce:restricted l:m]"},
		"a Namespace, labelled late": {first: unlabelled, second: enforced, namespace: "b", want: "/Namespace[enforce:restricted]"},
		"a definition":               {first: route, second: route, namespace: "b", err: "name their group in Addon.Defines"},
		"a definition of another's":  {first: proxy, second: route, namespace: "b", defined: []string{"gateway"}, want: "/CustomResourceDefinition"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []Manifests
			var err error
			for i, text := range []string{tc.first, tc.second} {
				objects, decodeErr := manifest.Decode(name, []byte(text))
				if decodeErr != nil {
					t.Fatal(decodeErr)
				}
				namespace := []string{"a", tc.namespace}[i]
				if all, err = Combine(all, []Manifests{{Namespace: namespace, Objects: objects}}, tc.defined); err != nil {
					break
				}
			}
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want an error with %q", err, tc.err)
				}
				return
			}
			var got []string
			for _, m := range all {
				for _, o := range m.Objects {
					got = append(got, m.namespaceOf(o)+"/"+o.GetKind()+labels(o))
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

func labels(o *unstructured.Unstructured) string {
	if len(o.GetLabels()) == 0 {
		return ""
	}
	return strings.TrimPrefix(fmt.Sprint(o.GetLabels()), "map")
}
