package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Get asks the API server for one object and decodes its JSON into the value
// that into points to. An object that does not exist is an error for which
// apierrors.IsNotFound is true.
func (o *Objects) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	text, err := body(at(client.Get(), resource, namespace).Name(name).Do(ctx))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	return nil
}

// Create makes an object.
func (o *Objects) Create(ctx context.Context, resource schema.GroupVersionResource, namespace string, object any) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return at(client.Post(), resource, namespace).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(text).Do(ctx).Error()
}
