// Package agent has what the parts of the Kedify agent agree on: the names by which they
// mark what they write, and the types that they read.
//
// The agent makes an HTTPScaledObject from each ScaledObject with a kedify-http trigger,
// points Ingresses at kedify-proxy, and takes all of it back. Its parts know one another
// only by these marks on objects of the cluster.
package agent

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

const (
	// Name is the field manager of what the agent writes, and the component of its Events.
	Name = marks.Agent

	// Finalizer keeps an HTTPScaledObject served until no Ingress points at kedify-proxy
	// for it any more.
	Finalizer = marks.Finalizer

	// AdoptAnnotation is set to "true" on an HTTPScaledObject that somebody else made, to
	// hand it over to the agent.
	AdoptAnnotation = marks.Adopt
	// AutowireAnnotation is on an HTTPScaledObject. It has the trigger's trafficAutowire.
	AutowireAnnotation = "http.kedify.io/traffic-autowire"
	// NotWiredAnnotation is on an HTTPScaledObject whose requests do not pass a proxy yet.
	// It says why. The scaler answers with an error then, as it sees no requests.
	NotWiredAnnotation = marks.NotWired
	// SkipScaledObjectAnnotation is on an HTTPScaledObject from which no ScaledObject is to
	// be made.
	SkipScaledObjectAnnotation = "httpscaledobject.keda.sh/skip-scaledobject-creation"
	// WiredPathsAnnotation is on an Ingress. It has the backends that its paths had before
	// they were pointed at kedify-proxy.
	WiredPathsAnnotation = "http.kedify.io/wired-paths"
	// LeftAloneAnnotation is on an Ingress that somebody else writes back again and again. It
	// has the time until which the agent leaves the Ingress alone, as in RFC 3339.
	LeftAloneAnnotation = marks.LeftAlone

	// ManagedByLabel has the value Name on the kedify-proxies that the agent has made.
	ManagedByLabel = "app.kubernetes.io/managed-by"

	// ProxyService is the Service of the kedify-proxies of a namespace.
	ProxyService = marks.ProxyService
	// ProxyPort is its port for requests.
	ProxyPort = marks.ProxyPort
)

// Scheme returns the types that the agent reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		httpv1alpha1.AddToScheme, scaledobject.AddToScheme, v1alpha1.AddToScheme,
		admissionv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme,
	)
	return scheme, builder.AddToScheme(scheme)
}

// OwnerOf returns the reference to the ScaledObject that an HTTPScaledObject was made from by
// the agent; nil if it was not.
func OwnerOf(object *httpv1alpha1.HTTPScaledObject) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.APIVersion != scaledobject.GroupVersion.String() || owner.Kind != scaledobject.Kind {
		return nil
	}
	return owner
}
