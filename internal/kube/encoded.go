package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// encoded is a whole object as a store keeps it: its JSON, and the fields by which it
// is found. As Go maps it would take nearly twenty times as much memory. It is never
// changed.
type encoded struct {
	metav1.TypeMeta
	// ObjectMeta has name, namespace, uid, resourceVersion and labels, and
	// nothing else.
	metav1.ObjectMeta
	// keys are the result of GroupOptions.Index.
	keys []string
	// json is the object's JSON without metadata.managedFields, which are often half of
	// it.
	json packed
}

// DeepCopyObject makes encoded a runtime.Object. An encoded object is never changed, so
// the copy shares its content.
func (e *encoded) DeepCopyObject() runtime.Object {
	copied := *e
	return &copied
}

// encode turns an object's JSON, as the API server sends it, into the form that is
// kept, without decoding its content into maps.
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
	// Unlike json.Unmarshal, it distinguishes "Name" from "name", as everything that
	// reads the object later does.
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

// decode returns the object as a copy that the caller may change.
func (e *encoded) decode() (*unstructured.Unstructured, error) {
	text, err := e.json.unpack()
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// decode decodes an object's JSON. Whole numbers are int64, as everywhere in
// unstructured objects.
func decode(object []byte) (*unstructured.Unstructured, error) {
	var fields map[string]any
	if err := utiljson.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}
