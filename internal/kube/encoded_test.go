package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const whole = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute",
 "metadata":{"name":"app","namespace":"demo","uid":"u","resourceVersion":"7","generation":3,"labels":{"a":"1"},
  "annotations":{"k":"<v>&"},"creationTimestamp":"2026-01-02T03:04:05Z","new in metadata":{"x":[1,2.5]},
  "managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},
 "spec":{"rules":[{"weight":9007199254740993,"ratio":0.5,"none":null,"text":"é <>"}]},"status":{"parents":[]}}`

func TestEncodedKeepsAllButManagedFields(t *testing.T) {
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(want.Object, "metadata", "managedFields")
	var seen *metav1.ObjectMeta
	e, err := encode([]byte(whole), func(meta *metav1.ObjectMeta) []string {
		seen = meta
		return []string{meta.Annotations["k"]}
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.decode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(seen.ManagedFields) > 0 || seen.Generation != 3 {
		t.Errorf("the index is given %v", seen)
	}
	meta := metav1.ObjectMeta{Name: "app", Namespace: "demo", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "1"}}
	if diff := cmp.Diff(meta, e.ObjectMeta); diff != "" || !cmp.Equal(e.keys, []string{"<v>&"}) {
		t.Errorf("kept beside the JSON: keys %v, metadata (-want +got):\n%s", e.keys, diff)
	}
}

// FuzzEncode: whatever an API server, or something between it and the client, sends is an
// object or an error.
func FuzzEncode(f *testing.F) {
	f.Add([]byte(whole))
	for _, text := range []string{``, `null`, `[]`, `{}`, `{"metadata":null}`, `{"metadata":1}`, `{"metadata":{"labels":[]}}`, `{"metadata":{"nAme":"a"}}`, `{"metadata":{"name":"a","name":"b"},"spec":{"a":1,"a":2}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := encode(text, nil)
		if err != nil {
			return
		}
		object, err := e.decode()
		if err != nil {
			t.Fatalf("what is kept of %q cannot be decoded: %v", text, err)
		}
		if object.GetName() != e.Name || object.GetResourceVersion() != e.ResourceVersion || len(object.GetManagedFields()) > 0 {
			t.Errorf("%v is kept as %v", object, e)
		}
	})
}
