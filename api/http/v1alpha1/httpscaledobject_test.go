package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Each object of testdata/objects comes back whole from the Go types: no field
// is unknown to them, none is lost or added. Add a file to add a case.
func TestObjectsSurviveTheGoTypes(t *testing.T) {
	files, err := filepath.Glob("testdata/objects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects to read: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var object v1alpha1.HTTPScaledObject
			if err := yaml.UnmarshalStrict(text, &object); err != nil {
				t.Fatal(err)
			}
			encoded, err := yaml.Marshal(object.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, text), generic(t, encoded)); diff != "" {
				t.Errorf("-read +written:\n%s", diff)
			}
		})
	}
}

func TestSchemeKnowsBothKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"HTTPScaledObject", "HTTPScaledObjectList"} {
		if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
	// What every client needs of a group's version.
	if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind("ListOptions")) {
		t.Error("metav1.ListOptions is not registered")
	}
}

// generic reads YAML as maps, less what Go's encoding adds to any object that
// has none of it: a null creationTimestamp and an empty status.
func generic(t *testing.T, text []byte) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatal(err)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		delete(object, "status")
	}
	return object
}
