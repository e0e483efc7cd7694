package kube

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// lazyClient is a client for JSON of any resource. It is made at the first call that
// finds a client configuration.
type lazyClient struct {
	connect func() (*rest.Config, error)

	mu     sync.Mutex
	client rest.Interface
}

func (c *lazyClient) connection() (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config, err := c.connect()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Requests name their group and version themselves.
	own.GroupVersion = &schema.GroupVersion{}
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	c.client = client
	return client, nil
}

// at sets the resource and namespace of a request, and turns off client-go's retries.
func at(request *rest.Request, resource schema.GroupVersionResource, namespace string) *rest.Request {
	request = once(request)
	if resource.Group == "" {
		request = request.AbsPath("/api", resource.Version)
	} else {
		request = request.AbsPath("/apis", resource.Group, resource.Version)
	}
	return request.Namespace(namespace).Resource(resource.Resource)
}

// once turns off client-go's retries of a request. client-go would retry up to ten
// times, each time after as long as the API server asks for (or a second, when the
// connection was cut), and so use up the time of a call of the controller. All callers
// here are called again, or retry, on their own.
func once(request *rest.Request) *rest.Request { return request.MaxRetries(0) }

// body returns the body of a successful answer. An error carries the API server's
// message, which an error of Result.Raw does not.
func body(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}
