package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Objects reads and writes single objects of any resource. It needs no cluster
// to be created: the first request connects. It is safe for concurrent use.
type Objects struct{ lazyClient }

// NewObjects returns Objects that connect with the configuration connect
// returns, at the first request that can.
func NewObjects(connect func() (*rest.Config, error)) *Objects {
	return &Objects{lazyClient{connect: connect}}
}

// objectLimit bounds what is read of one object, in bytes. Kubernetes stores 1.5 MiB at most;
// an API server beside it (APIService) may answer more.
const objectLimit = 4 << 20

// Get asks the API server for one object and decodes its JSON into the value
// that into points to. An object that does not exist is an error for which
// apierrors.IsNotFound is true.
func (o *Objects) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	stream, err := at(client.Get(), resource, namespace).Name(name).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(io.LimitReader(stream, objectLimit+1))
	if err == nil && len(text) > objectLimit {
		err = fmt.Errorf("it has more than %d MiB", objectLimit>>20)
	}
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	return nil
}

// Create makes an object.
func (o *Objects) Create(ctx context.Context, resource schema.GroupVersionResource, namespace string, object any) error {
	return o.create(ctx, resource, namespace, object, "")
}

// CreateStrict makes an object, which the API server refuses if it has fields that its kind does
// not have, rather than drop them.
func (o *Objects) CreateStrict(ctx context.Context, resource schema.GroupVersionResource, namespace string, object any) error {
	return o.create(ctx, resource, namespace, object, metav1.FieldValidationStrict)
}

func (o *Objects) create(ctx context.Context, resource schema.GroupVersionResource, namespace string, object any, validation string) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	request := at(client.Post(), resource, namespace).SetHeader("Content-Type", runtime.ContentTypeJSON)
	if validation != "" {
		request = request.Param("fieldValidation", validation)
	}
	return request.Body(text).Do(ctx).Error()
}

// Selection says which objects List returns. A field that is empty selects all.
type Selection struct {
	// Labels and Fields are selectors, such as "app=demo" and "involvedObject.uid=1".
	Labels, Fields string
	// Limit bounds the number of objects; 0 means no limit.
	Limit int
	// Metadata asks for the objects' metadata alone, as a metav1.PartialObjectMetadataList.
	Metadata bool
}

// List asks the API server for the objects of one namespace that a selection matches,
// and decodes the JSON of the list into the value that into points to.
func (o *Objects) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, of Selection, into any) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	request := at(client.Get(), resource, namespace)
	for name, value := range map[string]string{"labelSelector": of.Labels, "fieldSelector": of.Fields} {
		if value != "" {
			request = request.Param(name, value)
		}
	}
	if of.Limit > 0 {
		request = request.Param("limit", strconv.Itoa(of.Limit))
	}
	if of.Metadata {
		request = request.SetHeader("Accept", runtime.ContentTypeJSON+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	}
	text, err := body(request.Do(ctx))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("list of %s in %s: %w", resource.Resource, namespace, err)
	}
	return nil
}

// Delete deletes an object; the garbage collector then deletes the objects that it
// owns. If the object has another UID, the error is one for which apierrors.IsConflict
// is true; if it does not exist, one for which apierrors.IsNotFound is true.
func (o *Objects) Delete(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, uid types.UID) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	text, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
	if err != nil {
		return err
	}
	return at(client.Delete(), resource, namespace).Name(name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(text).Do(ctx).Error()
}

// Log returns the last lines of the log of a pod's container: as many as lines says,
// and of those at most the first limit bytes.
func (o *Objects) Log(ctx context.Context, namespace, pod, container string, lines, limit int) ([]byte, error) {
	client, err := o.connection()
	if err != nil {
		return nil, err
	}
	stream, err := at(client.Get(), schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace).
		Name(pod).SubResource("log").
		Param("container", container).Param("tailLines", strconv.Itoa(lines)).Param("limitBytes", strconv.Itoa(limit)).
		Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	return io.ReadAll(io.LimitReader(stream, int64(limit)))
}
