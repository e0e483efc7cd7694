package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	generatedDefinition = "../../../deploy/crds/http.keda.sh_httpscaledobjects.yaml"
	shippedDefinition   = "testdata/httpscaledobjects-shipped.yaml"
)

// The definition made from the Go types asks of an object exactly what the
// shipped one asks: names, columns, types, formats, required fields, defaults,
// enums and rules. Only what people read, the descriptions, is ours.
func TestGeneratedDefinitionAcceptsWhatTheShippedOneAccepts(t *testing.T) {
	shipped := readDefinition(t, shippedDefinition)
	generated := readDefinition(t, generatedDefinition)
	if diff := cmp.Diff(shipped, generated); diff != "" {
		t.Errorf("%s is not the shipped definition (-shipped +generated):\n%s", generatedDefinition, diff)
	}
}

// A change of the shipped definition in any of these ways has to be seen by the
// comparison above.
func TestDefinitionComparisonSeesEveryKindOfChange(t *testing.T) {
	tests := map[string]struct {
		path  []string
		key   string
		value any
	}{
		"a field more":           {[]string{"spec", "properties"}, "extra", map[string]any{"type": "string"}},
		"a type":                 {[]string{"spec", "properties", "hosts"}, "type", "string"},
		"a format":               {[]string{"spec", "properties", "scaledownPeriod"}, "format", "int64"},
		"a required field":       {[]string{"spec", "properties", "scaleTargetRef"}, "required", []any{"name", "service"}},
		"a rule":                 {[]string{"spec", "properties", "scaleTargetRef"}, "x-kubernetes-validations", []any{}},
		"a default":              {[]string{"spec", "properties", "coldStartTimeoutFailoverRef", "properties", "timeoutSeconds"}, "default", 31.0},
		"an enum":                {[]string{"status", "properties", "conditions", "items", "properties", "type"}, "enum", []any{"Ready", "Split"}},
		"a field named for text": {[]string{"spec", "properties"}, "description", map[string]any{"type": "string"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			shipped, changed := readDefinition(t, shippedDefinition), readDefinition(t, shippedDefinition)
			node := schemaProperties(t, changed)
			for _, step := range tt.path {
				next, ok := node[step].(map[string]any)
				if !ok {
					t.Fatalf("the shipped definition has no %q on the path %q", step, tt.path)
				}
				node = next
			}
			node[tt.key] = tt.value
			if cmp.Diff(shipped, changed) == "" {
				t.Error("the change was not seen")
			}
		})
	}
}

func schemaProperties(t *testing.T, definition map[string]any) map[string]any {
	t.Helper()
	versions := definition["spec"].(map[string]any)["versions"].([]any)
	if len(versions) != 1 {
		t.Fatalf("%d versions, want 1", len(versions))
	}
	schema := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	return schema["properties"].(map[string]any)
}

// readDefinition reads a CustomResourceDefinition without its descriptions and
// without the version of the generator.
func readDefinition(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	definition := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	metadata := definition["metadata"].(map[string]any)
	delete(metadata["annotations"].(map[string]any), "controller-gen.kubebuilder.io/version")
	dropDescriptions(definition)
	return definition
}

// dropDescriptions takes the descriptions, which are strings, out of a schema;
// a property that happens to be named description is a map and stays.
func dropDescriptions(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, text := node["description"].(string); text {
			delete(node, "description")
		}
		for _, child := range node {
			dropDescriptions(child)
		}
	case []any:
		for _, child := range node {
			dropDescriptions(child)
		}
	}
}
