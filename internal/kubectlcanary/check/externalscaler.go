package check

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/trigger"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// The scaler of deploy/scaler, as triggers name it, and the types that such a trigger has.
const (
	scalerService = "keda-add-ons-http-external-scaler"
	pushTrigger   = scaledobject.ExternalPush
	pollTrigger   = "external"
)

// scalerTrigger is a trigger of a ScaledObject that asks this project's scaler.
type scalerTrigger struct {
	kind string
	// namespace and port are those of scalerAddress; port is empty where it has none.
	namespace, port string
	metadata        map[string]string
	// object is the name of the HTTPScaledObject.
	object string
}

// scalerTriggers returns the triggers whose scalerAddress is the scaler's Service, with
// or without a port. A name without a namespace is one of KEDA's own namespace.
func (o scaledObject) scalerTriggers() []scalerTrigger {
	var triggers []scalerTrigger
	for _, t := range o.Spec.Triggers {
		address := strings.TrimPrefix(t.Metadata[scaledobject.ScalerAddressKey], "dns:///")
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		labels := strings.Split(host, ".")
		if labels[0] != scalerService || t.Type != pushTrigger && t.Type != pollTrigger {
			continue
		}
		found := scalerTrigger{kind: t.Type, namespace: defaultInterceptorNamespace, port: port, metadata: t.Metadata,
			object: trigger.Object(o.Namespace, o.Name, t.Metadata).Name}
		if len(labels) > 1 {
			found.namespace = labels[1]
		}
		triggers = append(triggers, found)
	}
	return triggers
}

// scalerAddress is a scaler that triggers of the checked Rollouts name.
type scalerAddress struct {
	namespace, port string
	service         read[corev1.Service]
	endpointSlices  read[[]endpointSlice]
}

// gatherScalers returns each scaler once.
func gatherScalers(ctx context.Context, c *cluster, s snapshot) []scalerAddress {
	var found []scalerAddress
	for _, ro := range rolloutsToCheck(s) {
		for _, o := range s.objects.scaledObjectsOf(ro.Name) {
			for _, t := range o.scalerTriggers() {
				if !slices.ContainsFunc(found, func(a scalerAddress) bool { return a.namespace == t.namespace && a.port == t.port }) {
					found = append(found, scalerAddress{namespace: t.namespace, port: t.port})
				}
			}
		}
	}
	for i := range found {
		a := &found[i]
		a.service = get[corev1.Service](ctx, c, target{version: "v1", resource: "services", namespace: a.namespace, name: scalerService})
		t := target{group: "discovery.k8s.io", version: "v1", resource: "endpointslices", namespace: a.namespace}
		t.query = map[string]string{"labelSelector": serviceNameLabel + "=" + scalerService}
		a.endpointSlices = list[endpointSlice](ctx, c, t)
	}
	return found
}

// checkScalers: the scaler that triggers name can answer.
func checkScalers(s snapshot) []Result {
	var results []Result
	for _, a := range s.scalers {
		results = append(results, a.check())
	}
	return results
}

func (a scalerAddress) check() Result {
	at := object("Service", a.namespace, scalerService)
	pods := fmt.Sprintf("kubectl -n %s describe pods -l app.kubernetes.io/name=%s", a.namespace, scalerService)
	correct := fmt.Sprintf("set scalerAddress in the trigger to %s.%s:9090", scalerService, a.namespace)
	port := slices.IndexFunc(a.service.Value.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == a.port })
	switch {
	case a.service.Err.notFound():
		return failure(at, "does not exist, and a trigger names it: KEDA gets no figures", "install deploy/scaler, or correct scalerAddress in the trigger")
	case a.service.Err != nil:
		return couldNotLook(at, a.service.Err)
	case a.port == "":
		return failure(at, "a trigger names it without its port 9090: KEDA gets no figures", correct)
	case port < 0:
		return failure(at, fmt.Sprintf("has no port %s, which a trigger names", a.port), correct)
	case a.endpointSlices.Err != nil:
		return couldNotLook(at, a.endpointSlices.Err)
	}
	ready := readyEndpoints(a.endpointSlices.Value, a.service.Value, &a.service.Value.Spec.Ports[port])
	if ready == 0 {
		return failure(at, "has no ready endpoint: KEDA gets no figures, and nothing starts from zero", pods)
	}
	return ok(at, count(ready, "ready endpoint"))
}

// checkScalerTriggers: each trigger of the scaler can be answered.
func checkScalerTriggers(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	var results []Result
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		for _, t := range o.scalerTriggers() {
			results = append(results, checkScalerTrigger(s.objects, o, t, config))
		}
	}
	return results
}

func checkScalerTrigger(n namespaceSnapshot, o scaledObject, t scalerTrigger, config kedify.Config) Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	edit := fmt.Sprintf("kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)
	if n.httpScaledObjects.Err != nil {
		return couldNotLook(at, n.httpScaledObjects.Err)
	}
	scaled := n.httpScaledObject(t.object)
	if scaled == nil {
		return failure(at, fmt.Sprintf("its %s trigger is for HTTPScaledObject %s, which does not exist", t.kind, t.object),
			"create it, or correct httpScaledObject in the trigger: "+edit)
	}
	editObject := fmt.Sprintf("kubectl -n %s edit httpscaledobject %s", o.Namespace, t.object)
	if why, notWired := scaled.Annotations[marks.NotWired]; notWired {
		return warning(at, fmt.Sprintf("HTTPScaledObject %s has the annotation %s%s: its requests pass no proxy yet, and its figures are errors", t.object, marks.NotWired, because(why)),
			"see to it that the requests go to the interceptor or to kedify-proxy (see ingress-wired, where the agent does it); whoever set the annotation takes it off then")
	}
	whole := &httpv1alpha1.HTTPScaledObject{ObjectMeta: scaled.ObjectMeta}
	whole.Spec.ScalingMetric = scaled.Spec.ScalingMetric
	if _, err := trigger.Parse(t.metadata, whole); err != nil {
		return failure(at, fmt.Sprintf("its %s trigger has no figure: %v", t.kind, err), edit+"; "+editObject)
	}
	switch {
	case t.kind == pollTrigger:
		return warning(at, "its trigger is of type external: KEDA notices the first request only when it polls", "set its type to external-push: "+edit)
	case !slices.Contains(config.Names(), t.object):
		return warning(at, fmt.Sprintf("scales the Rollout by the requests of HTTPScaledObject %s, which the Rollout does not name (it names %s)", t.object, strings.Join(config.Names(), ", ")),
			"correct httpScaledObject in the trigger: "+edit)
	}
	return ok(at, "scales by the requests of HTTPScaledObject "+t.object)
}
