package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// client reads the watched kinds from the API server. A clientset would bring in every
// kind of the Kubernetes API.
type client struct {
	core, discovery, http *rest.RESTClient
	// raw is like http, but decodes objects of any form, as unstructured ones.
	raw        *rest.RESTClient
	parameters runtime.ParameterCodec
}

func newClient(config *rest.Config) (*client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, httpv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &client{parameters: runtime.NewParameterCodec(scheme)}
	const compact = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	anything, err := anyForm(codecs)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		client  **rest.RESTClient
		version schema.GroupVersion
		path    string
		codecs  runtime.NegotiatedSerializer
		accept  string
	}{
		{&c.core, corev1.SchemeGroupVersion, "/api", codecs, compact},
		{&c.discovery, discoveryv1.SchemeGroupVersion, "/apis", codecs, compact},
		{&c.http, httpv1alpha1.GroupVersion, "/apis", codecs, runtime.ContentTypeJSON},
		{&c.raw, httpv1alpha1.GroupVersion, "/apis", anything, runtime.ContentTypeJSON},
	} {
		own := rest.CopyConfig(config)
		own.GroupVersion, own.APIPath = &of.version, of.path
		own.NegotiatedSerializer, own.AcceptContentTypes = of.codecs, of.accept
		made, err := rest.RESTClientFor(own)
		if err != nil {
			return nil, fmt.Errorf("client configuration: %w", err)
		}
		*of.client = made
	}
	return c, nil
}

// anyForm returns codecs that decode objects of any form, and all else as codecs does.
func anyForm(codecs runtime.NegotiatedSerializer) (runtime.NegotiatedSerializer, error) {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("no JSON among the codecs")
	}
	info.Serializer = unstructured.UnstructuredJSONScheme
	return runtime.NewSimpleNegotiatedSerializer(info), nil
}

// httpScaledObjects returns the source of HTTPScaledObjects. It decodes them one by
// one, in a list as in a watch: one object that the cluster's CRD accepts and our types
// do not must not keep all the others from being served.
func (c *client) httpScaledObjects(namespace string) *source {
	resource := httpv1alpha1.HTTPScaledObjects
	return &source{
		kind: httpScaledObjects, resource: resource, namespace: namespace,
		list: func(ctx context.Context, options metav1.ListOptions, each func(runtime.Object)) (metav1.ListMeta, error) {
			var page struct {
				Metadata metav1.ListMeta   `json:"metadata"`
				Items    []json.RawMessage `json:"items"`
			}
			body, err := c.get(c.http, resource, namespace, options).Do(ctx).Raw()
			if err != nil {
				return page.Metadata, err
			}
			if err := json.Unmarshal(body, &page); err != nil {
				return page.Metadata, fmt.Errorf("list of %s: %w", resource.GroupResource(), err)
			}
			for _, item := range page.Items {
				each(decode(item))
			}
			return page.Metadata, nil
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return c.get(c.raw, resource, namespace, options).Watch(ctx)
		},
		read: func(o runtime.Object) runtime.Object {
			if u, ok := o.(*unstructured.Unstructured); ok {
				text, err := u.MarshalJSON()
				if err != nil {
					return &unreadable{uid: u.GetUID(), err: err}
				}
				o = decode(text)
			}
			return o
		},
	}
}

func (c *client) services(namespace string) *source {
	return typed[corev1.ServiceList](c, c.core, services, serviceResource, namespace, metav1.ListOptions{},
		func(l *corev1.ServiceList) (metav1.ListMeta, []corev1.Service) { return l.ListMeta, l.Items })
}

func (c *client) addresses(service types.NamespacedName) *source {
	return typed[corev1.ServiceList](c, c.core, addressService, serviceResource, service.Namespace, metav1.ListOptions{FieldSelector: one(service.Name)},
		func(l *corev1.ServiceList) (metav1.ListMeta, []corev1.Service) { return l.ListMeta, l.Items })
}

func (c *client) endpointSlices(namespace string) *source {
	return c.slices(endpointSlices, namespace, metav1.ListOptions{})
}

func (c *client) addressSlices(service types.NamespacedName) *source {
	return c.slices(addressSlices, service.Namespace, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
}

func (c *client) slices(k kind, namespace string, selector metav1.ListOptions) *source {
	return typed[discoveryv1.EndpointSliceList](c, c.discovery, k, endpointSliceResource, namespace, selector,
		func(l *discoveryv1.EndpointSliceList) (metav1.ListMeta, []discoveryv1.EndpointSlice) {
			return l.ListMeta, l.Items
		})
}

// typed returns the source of a built-in resource of the API server.
func typed[L, O any, List interface {
	*L
	runtime.Object
}, Object interface {
	*O
	runtime.Object
}](c *client, r *rest.RESTClient, k kind, resource schema.GroupVersionResource, namespace string, selector metav1.ListOptions, items func(List) (metav1.ListMeta, []O)) *source {
	return &source{
		kind: k, resource: resource, namespace: namespace,
		list: func(ctx context.Context, options metav1.ListOptions, each func(runtime.Object)) (metav1.ListMeta, error) {
			options.FieldSelector, options.LabelSelector = selector.FieldSelector, selector.LabelSelector
			var page L
			if err := c.get(r, resource, namespace, options).Do(ctx).Into(List(&page)); err != nil {
				return metav1.ListMeta{}, err
			}
			head, objects := items(&page)
			for i := range objects {
				each(Object(&objects[i]))
			}
			return head, nil
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector, options.LabelSelector, options.Watch = selector.FieldSelector, selector.LabelSelector, true
			return c.get(r, resource, namespace, options).Watch(ctx)
		},
		read: func(o runtime.Object) runtime.Object { return o },
	}
}

// get returns a request that client-go does not retry: the source retries it, and
// reports why.
func (c *client) get(r *rest.RESTClient, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) *rest.Request {
	return r.Get().MaxRetries(0).NamespaceIfScoped(namespace, namespace != "").Resource(resource.Resource).VersionedParams(&options, c.parameters)
}

// unreadable is an HTTPScaledObject of which nothing but the metadata could be
// decoded.
type unreadable struct {
	metav1.PartialObjectMetadata
	uid types.UID
	err error
}

// decode returns an HTTPScaledObject, or an *unreadable with its metadata if it cannot
// be decoded.
func decode(text []byte) runtime.Object {
	o := &httpv1alpha1.HTTPScaledObject{}
	err := json.Unmarshal(text, o)
	if err == nil {
		return o
	}
	u := &unreadable{err: err}
	// The metadata that names the object decodes even so: the API server has validated
	// it.
	_ = json.Unmarshal(text, &u.PartialObjectMetadata)
	u.uid = u.UID
	return u
}
