package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// pageSize is how many objects a list asks for at a time. A page of routes is
// half a megabyte, and twice that while it is read.
const pageSize = 100

// reader lists and watches objects of one resource in the form that a store keeps.
type reader[T stored] struct {
	client    rest.Interface
	resource  schema.GroupVersionResource
	namespace string // all of them when empty
	// keep turns an object's JSON into the form that is kept.
	keep func(object []byte) (T, error)
}

// keptList is a list of objects in the form that a store keeps.
type keptList[T stored] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []T
}

// DeepCopyObject makes keptList a runtime.Object. Objects in a store are never changed,
// so the copy shares them.
func (l *keptList[T]) DeepCopyObject() runtime.Object {
	copied := *l
	return &copied
}

// list lists the objects that the selectors of a selection match page by page, each in the
// form that is kept before the next is asked for. All pages show the state of one moment. No
// resource version is asked for: with "0" the API server sends all objects at once, whatever
// the limit.
func (r reader[T]) list(ctx context.Context, of Selection) (*keptList[T], error) {
	list := &keptList[T]{}
	for next := ""; ; next = list.Continue {
		request := at(r.client.Get(), r.resource, r.namespace).Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			request = request.Param("continue", next)
		}
		for name, selector := range map[string]string{"labelSelector": of.Labels, "fieldSelector": of.Fields} {
			if selector != "" {
				request = request.Param(name, selector)
			}
		}
		text, err := body(request.Do(ctx))
		if err != nil {
			return nil, err
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("list of %s: %w", r.resource.GroupResource(), err)
		}
		list.ListMeta = page.Metadata
		for _, item := range page.Items {
			object, err := r.keep(item)
			if err != nil {
				return nil, fmt.Errorf("list of %s: %w", r.resource.GroupResource(), err)
			}
			list.Items = append(list.Items, object)
		}
		if list.Continue == "" {
			return list, nil
		}
	}
}

// watch watches the objects.
func (r reader[T]) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	stream, err := at(r.client.Get(), r.resource, r.namespace).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.Unversioned).Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(
		&events[T]{stream: stream, decoder: json.NewDecoder(stream), keep: r.keep},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding"),
	), nil
}

// events decodes the events of a watch, with objects in the form that is kept.
type events[T stored] struct {
	stream  io.Closer
	decoder *json.Decoder
	keep    func(object []byte) (T, error)
}

// Decode returns the next event.
func (e *events[T]) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := e.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	if event.Type == watch.Error {
		status := &metav1.Status{}
		err := json.Unmarshal(event.Object, status)
		return event.Type, status, err
	}
	object, err := e.keep(event.Object)
	if err != nil {
		return "", nil, err
	}
	if event.Type == watch.Bookmark {
		// If client-go's KUBE_FEATURE_WatchListClient is on, a watch begins with events
		// for the objects that exist, and an annotation of a bookmark marks the end of
		// these.
		marks, err := annotations(event.Object)
		if err != nil {
			return "", nil, err
		}
		object.SetAnnotations(marks)
	}
	return event.Type, object, nil
}

func annotations(object []byte) (map[string]string, error) {
	var fields struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(object, &fields)
	return fields.Metadata.Annotations, err
}

// Close ends the watch.
func (e *events[T]) Close() { _ = e.stream.Close() }
