// Package cluster reads from the API server what the scaler needs: HTTPScaledObjects, and
// where the proxies are that count their requests.
package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
// HTTPScaledObjects, and the EndpointSlices of interceptors and kedify-proxies, stripped.
func CacheOptions(interceptorService string) (cache.Options, error) {
	ofProxies, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.In, []string{interceptorService, kedifyProxyService})
	if err != nil {
		return cache.Options{}, fmt.Errorf("the Service of interceptors: %w", err)
	}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&httpv1alpha1.HTTPScaledObject{}: {Transform: strip},
			&discoveryv1.EndpointSlice{}:     {Label: labels.NewSelector().Add(*ofProxies), Transform: strip},
		},
		ReaderFailOnMissingInformer: true,
	}, nil
}

// strip keeps of an object what the scaler reads. What tenants may make as long as they like
// is cut: the cache has the objects of all of them.
func strip(cached any) (any, error) {
	switch whole := cached.(type) {
	case *httpv1alpha1.HTTPScaledObject:
		return strippedObject(whole), nil
	case *discoveryv1.EndpointSlice:
		return strippedSlice(whole), nil
	}
	return cached, nil
}

func strippedObject(whole *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, ResourceVersion: whole.ResourceVersion,
	}}
	if why, is := whole.Annotations[server.NotWired]; is {
		object.Annotations = map[string]string{server.NotWired: cut(why, longestReason)}
	}
	metric := whole.Spec.ScalingMetric.DeepCopy()
	if metric != nil && metric.RequestRate != nil {
		for _, text := range []*string{metric.RequestRate.Window, metric.RequestRate.Granularity} {
			if text != nil {
				*text = cut(*text, longestDuration)
			}
		}
	}
	object.Spec.ScalingMetric = metric
	return object
}

func strippedSlice(whole *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.Namespace, Name: whole.Name, ResourceVersion: whole.ResourceVersion,
			Labels: map[string]string{discoveryv1.LabelServiceName: whole.Labels[discoveryv1.LabelServiceName]},
		},
		AddressType: whole.AddressType,
	}
	for _, e := range whole.Endpoints {
		endpoint := discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready}}
		if pod := e.TargetRef; pod != nil {
			endpoint.TargetRef = &corev1.ObjectReference{Kind: pod.Kind, Name: pod.Name}
		}
		s.Endpoints = append(s.Endpoints, endpoint)
	}
	return s
}

// The longest texts that are kept, in bytes.
const (
	longestReason   = 200
	longestDuration = 32
)

// cut returns a text, or its beginning and a sign that it is not whole, which no duration has.
func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
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
