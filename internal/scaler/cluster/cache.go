// Package cluster reads from the API server what the scaler needs: HTTPScaledObjects, and
// where the proxies are that count their requests.
package cluster

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/server"
)

// kedifyProxyService is the Service of the kedify-proxies of a namespace.
const kedifyProxyService = "kedify-proxy"

// Scheme returns the types that are cached.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(httpv1alpha1.AddToScheme, discoveryv1.AddToScheme)
	return scheme, builder.AddToScheme(scheme)
}

// Mapper returns the resources of these types. Nothing has to be discovered: a scaler that
// starts before the definition of HTTPScaledObjects is there waits for it.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(httpv1alpha1.GroupVersion.WithKind("HTTPScaledObject"), meta.RESTScopeNamespace)
	mapper.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	return mapper
}

// CacheOptions are those of a cache that holds what the scaler reads, and nothing else: all
// HTTPScaledObjects, stripped, and the EndpointSlices of interceptors and kedify-proxies.
func CacheOptions(interceptorService string) (cache.Options, error) {
	ofProxies, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.In, []string{interceptorService, kedifyProxyService})
	if err != nil {
		return cache.Options{}, fmt.Errorf("the Service of interceptors: %w", err)
	}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&httpv1alpha1.HTTPScaledObject{}: {Transform: strip},
			&discoveryv1.EndpointSlice{}:     {Label: labels.NewSelector().Add(*ofProxies), Transform: cache.TransformStripManagedFields()},
		},
		ReaderFailOnMissingInformer: true,
	}, nil
}

// strip keeps of an HTTPScaledObject what the server reads.
func strip(cached any) (any, error) {
	whole, is := cached.(*httpv1alpha1.HTTPScaledObject)
	if !is {
		return cached, nil
	}
	object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
	}}
	if why, is := whole.Annotations[server.NotWired]; is {
		object.Annotations = map[string]string{server.NotWired: why}
	}
	object.Spec.ScalingMetric = whole.Spec.ScalingMetric
	return object, nil
}

// Watch makes a cache watch what the scaler reads, as soon as it is started.
func Watch(ctx context.Context, c cache.Cache) error {
	for _, object := range []client.Object{&httpv1alpha1.HTTPScaledObject{}, &discoveryv1.EndpointSlice{}} {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return nil
}
