package check

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

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
	s, ro := r.snapshot, r.ro
	if !r.configured() {
		return nil
	}
	var results []Result
	for _, b := range sides(ro) {
		at := object("Service", ro.Namespace, b.service)
		service := s.objects.service(b.service)
		if service == nil {
			if b.role == "experiment" && s.objects.services.Err == nil {
				results = append(results, failure(at, fmt.Sprintf("the experiment's Service does not exist, but gets weight %d", b.weight), "kubectl -n "+ro.Namespace+" get experiments"))
			}
			continue // the Rollout's own are reported by services-exist
		}
		if err := s.objects.endpointSlices.Err; err != nil {
			results = append(results, couldNotLook(at, err))
			continue
		}
		ready := 0
		if b.selectedBy(*service) {
			ready = readyEndpoints(s.objects.endpointSlices.Value, *service, r.port(service))
		}
		share := fmt.Sprintf("%s, weight %d", b.role, b.weight)
		if b.weight == 0 {
			share = fmt.Sprintf("%s, about to get weight %d", b.role, b.asked)
		}
		if ready > 0 {
			results = append(results, ok(at, fmt.Sprintf("%s (%s)", count(ready, "ready endpoint"), share)))
			continue
		}
		why := diagnose(s, ro, b, *service)
		message := fmt.Sprintf("no ready endpoint (%s)%s", share, because(why.message))
		if why.wakes {
			results = append(results, ok(at, message))
			continue
		}
		if why.stuck || b.weight > 0 && !why.asleep && ro.Status.StableRS != "" {
			results = append(results, failure(at, message, why.remedy))
		} else {
			results = append(results, warning(at, message, why.remedy))
		}
	}
	return results
}

// port returns the port of a Service that traffic is sent to, or nil when that is not
// known: then any will do.
func (r subject) port(service *corev1.Service) *corev1.ServicePort {
	if r.kedify != nil {
		for _, name := range r.kedify.Names() {
			if o := r.objects.httpScaledObject(name); o != nil {
				if port := backendPort(service, *o); port != nil {
					return port
				}
			}
		}
	}
	return routePort(r.snapshot, r.ro, r.gateways, service)
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
