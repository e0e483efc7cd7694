package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Objects reads and writes single objects of any resource. It needs no cluster
// to be created: the first request connects. It is safe for concurrent use.
type Objects struct {
	connect func() (*rest.Config, error)

	mu     sync.Mutex
	client rest.Interface
}

// NewObjects returns Objects that connect with the configuration connect
// returns, at the first request that can.
func NewObjects(connect func() (*rest.Config, error)) *Objects { return &Objects{connect: connect} }

// Get asks the API server for one object and decodes its JSON into the value
// that into points to. An object that does not exist is an error for which
// apierrors.IsNotFound is true.
func (o *Objects) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) error {
	client, err := o.connection()
	if err != nil {
		return err
	}
	result := at(client.Get(), resource, namespace).Name(name).Do(ctx)
	// Raw's own error does not have the API server's message.
	if err := result.Error(); err != nil {
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
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
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return at(client.Post(), resource, namespace).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

func at(request *rest.Request, resource schema.GroupVersionResource, namespace string) *rest.Request {
	if resource.Group == "" {
		request = request.AbsPath("/api", resource.Version)
	} else {
		request = request.AbsPath("/apis", resource.Group, resource.Version)
	}
	return request.Namespace(namespace).Resource(resource.Resource)
}

func (o *Objects) connection() (rest.Interface, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.client != nil {
		return o.client, nil
	}
	config, err := o.connect()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	o.client = client
	return client, nil
}
