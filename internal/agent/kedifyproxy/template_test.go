package kedifyproxy

import (
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// released returns the data of the ConfigMap in deploy/agent.
func released(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/agent/configmap-kedify-proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, read); err != nil {
		t.Fatal(err)
	}
	return read.Data
}

// replaced returns data in which an old text of a file, which has to be there, is a new one.
func replaced(t testing.TB, data map[string]string, file, old, text string) map[string]string {
	t.Helper()
	if !strings.Contains(data[file], old) {
		t.Fatalf("%s has no %q", file, old)
	}
	data = maps.Clone(data)
	data[file] = strings.ReplaceAll(data[file], old, text)
	return data
}

// The ConfigMap of deploy/agent has all parts; each gets its namespace, and the marks that
// say whose it is.
func TestReleasedTemplate(t *testing.T) {
	parsed, err := parse(released(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		object := parsed.wanted(p, "shop", false)
		if object == nil {
			t.Errorf("there is no %s", p)
			continue
		}
		if !ours(object) || object.GetNamespace() != "shop" || object.GetAnnotations()[appliedAnnotation] == "" {
			t.Errorf("%s has no mark or no namespace: %v", p, object.Object["metadata"])
		}
	}
}

// What people may change of the ConfigMap changes the objects that it is about.
func TestWanted(t *testing.T) {
	data := released(t)
	before, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file, old, text string
		changes         []part
	}{
		"replicas":      {"deployment.yaml", "replicas: 2", "replicas: 3", []part{deployment}},
		"the bootstrap": {"configmap.yaml", "envoy.yaml: |", "other.yaml: |", []part{configMap, deployment}},
		"a comment":     {"services.yaml", "# A look at Envoy", "# Another look", nil},
		"a namespace":   {"services.yaml", "  name: kedify-proxy\n", "  name: kedify-proxy\n  namespace: mine\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := parse(replaced(t, data, test.file, test.old, test.text))
			if err != nil {
				t.Fatal(err)
			}
			changes := map[part]bool{}
			for _, p := range test.changes {
				changes[p] = true
			}
			for _, p := range parts {
				if hash(before.wanted(p, "shop", false).Object) != hash(after.wanted(p, "shop", false).Object) != changes[p] {
					t.Errorf("%s changes: %t, expected: %t", p, !changes[p], changes[p])
				}
			}
		})
	}
	scaled := before.wanted(deployment, "shop", true)
	if n, has, _ := unstructured.NestedFieldNoCopy(scaled.Object, "spec", "replicas"); has {
		t.Errorf("what somebody has scaled gets %v replicas, expected no word of them", n)
	}
}

func TestTemplateRefused(t *testing.T) {
	data := released(t)
	add := func(text string) map[string]string {
		data := maps.Clone(data)
		data["x.yaml"] = text
		return data
	}
	without := func(key string) map[string]string {
		data := maps.Clone(data)
		delete(data, key)
		return data
	}
	for name, test := range map[string]struct {
		data map[string]string
		want string
	}{
		"not YAML":            {add("a: [\n"), `data["x.yaml"], document 1: expected a manifest in YAML`},
		"no kind":             {add("# fine\n---\na: b\n"), `data["x.yaml"], document 2: expected a manifest with apiVersion and kind`},
		"another kind":        {add("apiVersion: v1\nkind: Secret\nmetadata: {name: kedify-proxy}\n"), "Secret kedify-proxy of v1 is not a part of kedify-proxy: expected ServiceAccount kedify-proxy of v1, "},
		"another name":        {add("apiVersion: v1\nkind: Service\nmetadata: {name: other}\n"), "Service other of v1 is not a part of kedify-proxy"},
		"another version":     {add("apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: kedify-proxy}\n"), "Deployment kedify-proxy of apps/v1beta1 is not a part"},
		"twice":               {add(data["services.yaml"]), `Service kedify-proxy is there twice`},
		"no Deployment":       {without("deployment.yaml"), "data has no Deployment kedify-proxy"},
		"no Service":          {without("services.yaml"), "data has no Service kedify-proxy"},
		"nothing":             {nil, "data has no Service kedify-proxy"},
		"labels of no labels": {replaced(t, data, "serviceaccount.yaml", "  labels:\n", "  labels: no\n  x:\n"), "ServiceAccount kedify-proxy: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(test.data); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, expected %q", err, test.want)
			}
		})
	}
}

// Whatever the ConfigMap has is refused in words or can be applied.
func FuzzParse(f *testing.F) {
	data := released(f)
	for _, text := range data {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		data := maps.Clone(data)
		delete(data, "deployment.yaml")
		data["fuzz.yaml"] = text
		parsed, err := parse(data)
		if err != nil {
			return
		}
		for _, p := range parts {
			parsed.wanted(p, "shop", true)
		}
	})
}
