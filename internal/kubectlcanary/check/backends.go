package check

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// side is one backend that gets traffic, or is about to.
type side struct {
	role    string // "stable", "canary" or "experiment"
	service string
	// weight is what the controller has set; asked what the present step wants
	// once the side has pods.
	weight, asked int32
	hash          string
}

// selectedBy tells whether a Service takes in this side's pods. Argo Rollouts
// leaves the canary Service on the stable pods until a canary pod is available.
func (b side) selectedBy(service corev1.Service) bool {
	selected := service.Spec.Selector[v1alpha1.DefaultRolloutUniqueLabelKey]
	return b.role != "canary" || selected == "" || b.hash == "" || selected == b.hash
}

// sides returns the backends of a Rollout that need endpoints.
func sides(ro *v1alpha1.Rollout) []side {
	stable, canary := rolloutspec.Services(ro)
	weights := weightsOf(ro)
	var found []side
	if weights.Stable.Weight > 0 {
		hash := ro.Status.StableRS
		if hash == "" { // the first deployment is under way
			hash = ro.Status.CurrentPodHash
		}
		found = append(found, side{"stable", stable, weights.Stable.Weight, 0, hash})
	}
	asked, underWay := pendingWeight(ro)
	if weights.Canary.Weight > 0 || underWay && asked > 0 {
		found = append(found, side{"canary", canary, weights.Canary.Weight, asked, ro.Status.CurrentPodHash})
	}
	for _, extra := range weights.Additional {
		if extra.Weight > 0 {
			found = append(found, side{"experiment", extra.ServiceName, extra.Weight, 0, extra.PodTemplateHash})
		}
	}
	return found
}

// checkBackends: each side that gets traffic has an endpoint to send it to; if
// not, why.
func checkBackends(r subject) []Result {
	if !r.configured() || r.objects.services.Err != nil {
		return nil // the latter is reported by services-exist
	}
	if err := r.objects.endpointSlices.Err; err != nil {
		return []Result{couldNotLook("Namespace "+r.ro.Namespace, err)}
	}
	var results []Result
	for _, b := range sides(r.ro) {
		at := object("Service", r.ro.Namespace, b.service)
		share := fmt.Sprintf("%s, weight %d", b.role, b.weight)
		if b.weight == 0 {
			share = fmt.Sprintf("%s, about to get weight %d", b.role, b.asked)
		}
		service := r.objects.service(b.service)
		if service == nil {
			if b.role == "experiment" {
				results = append(results, failure(at, "does not exist ("+share+")", "kubectl -n "+r.ro.Namespace+" get experiments"))
			}
			continue // the Rollout's own are reported by services-exist
		}
		ready := 0
		if b.selectedBy(*service) {
			ready = readyEndpoints(r.objects.endpointSlices.Value, *service, r.port(service))
		}
		if ready > 0 {
			results = append(results, ok(at, fmt.Sprintf("%s (%s)", count(ready, "ready endpoint"), share)))
			continue
		}
		results = append(results, r.withoutEndpoints(at, "no ready endpoint ("+share+")", b))
	}
	return results
}

// withoutEndpoints says of a side what troubleshooting looks at: is its ReplicaSet at 0 replicas, and
// why? Otherwise the pods themselves say it.
func (r subject) withoutEndpoints(at, message string, b side) Result {
	ro := r.ro
	look := fmt.Sprintf("kubectl -n %s get rs,pods -l %s; kubectl -n %s get endpointslices -l %s=%s", ro.Namespace, v1alpha1.DefaultRolloutUniqueLabelKey, ro.Namespace, serviceNameLabel, b.service)
	rs := r.objects.replicaSet(b.hash)
	atZero := rs == nil || rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0
	switch err := r.objects.replicaSets.Err; {
	case atZero && ro.Spec.Replicas != nil && *ro.Spec.Replicas == 0:
		return r.scaledToZero(at, message+": the Rollout is scaled to 0", b)
	case err != nil:
		message += "; could not look at its ReplicaSet: " + err.Error()
	case b.hash == "":
		message += ": the Rollout's status names no ReplicaSet"
	case rs == nil:
		message += ": there is no ReplicaSet of hash " + b.hash
	case !atZero:
		message += fmt.Sprintf(": ReplicaSet %s has %d of %s ready", rs.Name, rs.Status.AvailableReplicas, count(int(rs.Status.Replicas), "pod")) + because(rs.Status.podsRefused())
	case b.role == "canary" && canaryScaleZero(ro):
		return failure(at, message+fmt.Sprintf(": ReplicaSet %s is at 0 replicas, because a setCanaryScale step asks for none", rs.Name), "give that step replicas or a weight above 0, or follow it with {matchTrafficWeight: true}: "+editRollout(ro))
	case b.role == "canary" && noSurge(ro):
		return failure(at, message+fmt.Sprintf(": ReplicaSet %s is at 0 replicas; maxSurge is 0 on a Rollout of 1 replica, which leaves no room for a canary pod", rs.Name), "raise spec.replicas, or maxSurge: "+editRollout(ro))
	default:
		message += fmt.Sprintf(": ReplicaSet %s is at 0 replicas", rs.Name)
		look = fmt.Sprintf("the Rollout says why (see rollout-health), or its steps and strategy: kubectl argo rollouts -n %s get rollout %s; %s", ro.Namespace, ro.Name, look)
	}
	if b.weight > 0 && ro.Status.StableRS != "" {
		return failure(at, message, look)
	}
	return warning(at, message, look)
}

// scaledToZero judges a Rollout that has no replicas at all: with all traffic on stable the
// interceptor holds requests until a pod is up, which somebody has to start.
func (r subject) scaledToZero(at, message string, b side) Result {
	for _, o := range r.objects.scaledObjectsOf(r.ro.Name) {
		if o.minReplicas() == 0 && len(o.scalerTriggers()) > 0 {
			return ok(at, message+fmt.Sprintf(": ScaledObject %s starts it with the next request", o.Name))
		}
	}
	remedy := fmt.Sprintf("kubectl -n %s scale rollout %s --replicas=1; if KEDA scales it, set minReplicaCount above 0", r.ro.Namespace, r.ro.Name)
	if _, underWay := pendingWeight(r.ro); b.role == "stable" && !underWay {
		return warning(at, message, remedy)
	}
	return failure(at, message, remedy)
}

// canaryScaleZero tells whether the setCanaryScale step in effect keeps the
// canary at no replicas.
func canaryScaleZero(ro *v1alpha1.Rollout) bool {
	for _, step := range stepsDone(ro) {
		if scale := step.SetCanaryScale; scale != nil {
			return !scale.MatchTrafficWeight && (scale.Replicas != nil && *scale.Replicas == 0 || scale.Replicas == nil && scale.Weight != nil && *scale.Weight == 0)
		}
	}
	return false
}

// noSurge tells whether the Rollout has one replica, the default, and may not have a second.
func noSurge(ro *v1alpha1.Rollout) bool {
	surge := ro.Spec.Strategy.Canary.MaxSurge
	if surge == nil || ro.Spec.Replicas != nil && *ro.Spec.Replicas != 1 {
		return false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(surge, 1, true)
	return err == nil && n == 0
}

// port returns the port of a Service that traffic is sent to, or nil when that is not
// known: then any will do.
func (r subject) port(service *corev1.Service) *corev1.ServicePort {
	for _, o := range r.httpScaledObjects() {
		if port := backendPort(service, o); port != nil {
			return port
		}
	}
	return r.routePort(service)
}

// readyEndpoints counts the ready endpoints of a Service that have a port.
func readyEndpoints(slices []endpointSlice, service corev1.Service, port *corev1.ServicePort) int {
	addresses := map[string]bool{}
	for _, slice := range slices {
		if slice.Labels[serviceNameLabel] != service.Name || !hasPort(slice, port) {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				for _, address := range endpoint.Addresses {
					addresses[address] = true
				}
			}
		}
	}
	return len(addresses)
}

// hasPort tells whether the endpoints of a slice listen on a Service's port. A
// port whose targetPort is a name that no container has is left out of the
// slice.
func hasPort(slice endpointSlice, port *corev1.ServicePort) bool {
	for _, p := range slice.Ports {
		if p.Port != nil && (port == nil || p.Name == nil && port.Name == "" || p.Name != nil && *p.Name == port.Name) {
			return true
		}
	}
	return false
}
