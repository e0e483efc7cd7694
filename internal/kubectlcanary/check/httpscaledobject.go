package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

func (o httpScaledObject) edit() string {
	return fmt.Sprintf("kubectl -n %s edit httpscaledobject %s", o.Namespace, o.Name)
}

// checkHTTPScaledObjects: each HTTPScaledObject that the Rollout names exists.
func checkHTTPScaledObjects(r subject) []Result {
	if err := r.objects.httpScaledObjects.Err; err != nil {
		at := "Namespace " + r.ro.Namespace
		if err.kindMissing() {
			return []Result{failure(at, "the cluster does not know HTTPScaledObjects (http.keda.sh)", "install Kedify's HTTP stack, or the interceptor of this release, with its CustomResourceDefinition")}
		}
		return []Result{couldNotLook(at, err)}
	}
	var results []Result
	for _, name := range r.kedify.Names() {
		at := object("HTTPScaledObject", r.ro.Namespace, name)
		if r.objects.httpScaledObject(name) == nil {
			results = append(results, failure(at, "does not exist",
				fmt.Sprintf("create it, or see why the ScaledObject from which it is made has none: kubectl -n %s describe scaledobject %s; or correct httpScaledObjectName: %s", r.ro.Namespace, name, editRollout(r.ro))))
		} else {
			results = append(results, ok(at, "exists"))
		}
	}
	return results
}

// checkTargetService: without a split traffic goes to
// spec.scaleTargetRef.service, so that has to be the stable Service; and each
// side is reached at the port named there.
func checkTargetService(r subject, o httpScaledObject) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	stable, canary := rolloutspec.Services(r.ro)
	ref := o.Spec.ScaleTargetRef
	if ref.Service != stable && (!rolloutspec.UsesPingPong(r.ro) || ref.Service != canary) {
		return []Result{failure(at, fmt.Sprintf("spec.scaleTargetRef.service is %q, want the stable Service %q: all traffic goes there whenever no split is set", ref.Service, stable),
			fmt.Sprintf("correct it, or take service out of the ScaledObject's trigger if it is made from one: %s", o.edit()))}
	}
	var results []Result
	for _, name := range []string{stable, canary} {
		service := r.objects.service(name)
		if service == nil || backendPort(service, o) != nil {
			continue
		}
		asked := fmt.Sprintf("port %d", ref.Port)
		if ref.PortName != "" {
			asked = "portName " + ref.PortName
		}
		results = append(results, failure(at, fmt.Sprintf("spec.scaleTargetRef asks for %s, which Service %s does not have (it has %s)", asked, name, portsText(service)),
			"give both Services that port, or correct it: "+o.edit()))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "targets "+ref.Service))
	}
	return results
}

// backendPort returns the port of a Service that an HTTPScaledObject sends
// traffic to, or nil if the Service has no such port. An HTTPScaledObject that
// names no port, which the CRD refuses, takes the first.
func backendPort(service *corev1.Service, o httpScaledObject) *corev1.ServicePort {
	ref := o.Spec.ScaleTargetRef
	i := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		if ref.PortName != "" {
			return port.Name == ref.PortName
		}
		return ref.Port == 0 || port.Port == ref.Port
	})
	if i < 0 {
		return nil
	}
	return &service.Spec.Ports[i]
}

func portsText(service *corev1.Service) string {
	var texts []string
	for _, port := range service.Spec.Ports {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %d", port.Name, port.Port)))
	}
	return strings.Join(texts, ", ")
}
