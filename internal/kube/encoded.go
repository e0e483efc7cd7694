package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// encoded is a whole object as a store keeps it: its JSON, and what finds it.
// As maps it would take nearly twenty times as much memory. It is never changed.
type encoded struct {
	metav1.TypeMeta
	// ObjectMeta has name, namespace, uid, resourceVersion and labels, and
	// nothing else.
	metav1.ObjectMeta
	// keys are those of GroupOptions.Index.
	keys []string
	// json is that of the object without metadata.managedFields, which are often
	// half of it.
	json packed
}

// DeepCopyObject makes a runtime.Object of encoded. Nothing of an encoded object
// is ever changed, so the copy shares it.
func (e *encoded) DeepCopyObject() runtime.Object {
	copied := *e
	return &copied
}

// encode takes an object's JSON, as the API server gives it out, into the form
// that is kept, without making maps of what is inside.
func encode(object []byte, index func(*metav1.ObjectMeta) []string) (*encoded, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	var metadata map[string]json.RawMessage
	if err := json.Unmarshal(fields["metadata"], &metadata); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	delete(metadata, "managedFields")
	var err error
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	var meta metav1.ObjectMeta
	// Unlike json.Unmarshal it takes "Name" for something else than "name", as
	// everything that reads the object later does.
	if err := utiljson.Unmarshal(fields["metadata"], &meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	e := &encoded{ObjectMeta: metav1.ObjectMeta{
		Name:            meta.Name,
		Namespace:       meta.Namespace,
		UID:             meta.UID,
		ResourceVersion: meta.ResourceVersion,
		Labels:          meta.Labels,
	}}
	if index != nil {
		e.keys = index(&meta)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	e.json, err = pack(text)
	return e, err
}

// decode returns the object, in memory of its own.
func (e *encoded) decode() (*unstructured.Unstructured, error) {
	text, err := e.json.unpack()
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// decode makes an object of its JSON. Whole numbers are int64, as everywhere in
// unstructured objects.
func decode(object []byte) (*unstructured.Unstructured, error) {
	var fields map[string]any
	if err := utiljson.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}
