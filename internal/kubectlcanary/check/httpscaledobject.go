package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// checkHTTPScaledObjects: each HTTPScaledObject that the Rollout names exists.
func checkHTTPScaledObjects(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	if err := s.objects.httpScaledObjects.Err; err != nil {
		at := "Namespace " + ro.Namespace
		if err.kindMissing() {
			return []Result{failure(at, "the cluster does not know HTTPScaledObjects (http.keda.sh)", "install Kedify's HTTP add-on, or its CustomResourceDefinition")}
		}
		return []Result{couldNotLook(at, err)}
	}
	var results []Result
	for _, name := range config.Names() {
		at := object("HTTPScaledObject", ro.Namespace, name)
		if s.objects.httpScaledObject(name) == nil {
			results = append(results, failure(at, "does not exist", missingRemedy(s, ro, name)))
		} else {
			results = append(results, ok(at, "exists"))
		}
	}
	return results
}

// checkExclusive: no other Rollout names an HTTPScaledObject of the Rollout.
func checkExclusive(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	if s.objects.httpScaledObjects.Err != nil {
		return nil // reported by httpscaledobject-exists
	}
	var results []Result
	for _, name := range config.Names() {
		at := object("HTTPScaledObject", ro.Namespace, name)
		if others := otherOwners(s, ro, name); len(others) > 0 {
			results = append(results, failure(at,
				fmt.Sprintf("is named by Rollout %s and by Rollout %s: only one can set its split", ro.Name, strings.Join(others, ", ")),
				"give each Rollout an HTTPScaledObject of its own"))
		} else {
			results = append(results, ok(at, "is named by this Rollout alone"))
		}
	}
	return results
}

// checkTargetServices: each HTTPScaledObject targets the stable Service.
func checkTargetServices(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	var results []Result
	for _, name := range config.Names() {
		if o := s.objects.httpScaledObject(name); o != nil {
			results = append(results, checkTargetService(s, ro, *o)...)
		}
	}
	return results
}

// missingRemedy: where the HTTPScaledObject should come from.
func missingRemedy(s snapshot, ro *v1alpha1.Rollout, name string) string {
	edit := fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		if len(o.kedifyTriggers()) == 0 {
			continue
		}
		if o.Name != name {
			return fmt.Sprintf("ScaledObject %s makes an HTTPScaledObject of its own name: correct httpScaledObjectName to %s: %s", o.Name, o.Name, edit)
		}
		return fmt.Sprintf("the agent, or Kedify's, makes it from ScaledObject %s: see whether it runs, and what it says%s: %s", o.Name, s.agent.said("ScaledObject", o.Name), describe("scaledobject", ro.Namespace, o.Name))
	}
	var have []string
	for _, o := range s.objects.httpScaledObjects.Value {
		have = append(have, o.Name)
	}
	remedy := "create it (or a ScaledObject with a kedify-http trigger of that name), or correct httpScaledObjectName: " + edit
	if len(have) > 0 {
		remedy += "; there is " + strings.Join(have, ", ")
	}
	return remedy
}

// otherOwners returns the other Rollouts that name an HTTPScaledObject.
func otherOwners(s snapshot, ro *v1alpha1.Rollout, name string) []string {
	var others []string
	for i := range s.objects.rollouts.Value {
		other := &s.objects.rollouts.Value[i]
		if other.Name == ro.Name || !kedify.Uses(other) {
			continue
		}
		config, err := kedify.ParseConfig(other.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
		if err == nil && slices.Contains(config.Names(), name) {
			others = append(others, other.Name)
		}
	}
	return others
}

// checkTargetService: without a split traffic goes to
// spec.scaleTargetRef.service, so that has to be the stable Service; and each
// side is reached at the port named there.
func checkTargetService(s snapshot, ro *v1alpha1.Rollout, o httpScaledObject) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	edit := fmt.Sprintf("kubectl -n %s edit httpscaledobject %s", o.Namespace, o.Name)
	stable, canary := rolloutspec.Services(ro)
	pingPong := ro.Spec.Strategy.Canary.PingPong != nil
	ref := o.Spec.ScaleTargetRef
	switch {
	case ref.Service == stable, pingPong && ref.Service == canary:
	case ref.Service == canary:
		return []Result{failure(at, fmt.Sprintf("spec.scaleTargetRef.service is %q, the canary Service: all traffic would go there whenever no split is set", ref.Service), fmt.Sprintf("set it to the stable Service %s: %s", stable, edit))}
	case ref.Service == "":
		return []Result{failure(at, "spec.scaleTargetRef.service is missing", fmt.Sprintf("set it to the stable Service %s: %s", stable, edit))}
	default:
		return []Result{failure(at, fmt.Sprintf("spec.scaleTargetRef.service is %q, want the stable Service %q", ref.Service, stable), fmt.Sprintf("set it to %s: %s", stable, edit))}
	}
	var results []Result
	for _, name := range []string{stable, canary} {
		service := s.objects.service(name)
		if service == nil || backendPort(service, o) != nil {
			continue
		}
		results = append(results, failure(at, fmt.Sprintf("spec.scaleTargetRef asks for %s, which Service %s does not have (it has %s)", portText(o), name, portsText(service)),
			fmt.Sprintf("give both Services that port, or correct it: %s", edit)))
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
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		switch {
		case ref.PortName != "" && port.Name == ref.PortName,
			ref.PortName == "" && ref.Port != 0 && port.Port == ref.Port,
			ref.PortName == "" && ref.Port == 0:
			return port
		}
	}
	return nil
}

func portText(o httpScaledObject) string {
	if name := o.Spec.ScaleTargetRef.PortName; name != "" {
		return "portName " + name
	}
	return fmt.Sprintf("port %d", o.Spec.ScaleTargetRef.Port)
}

func portsText(service *corev1.Service) string {
	var texts []string
	for _, port := range service.Spec.Ports {
		text := fmt.Sprint(port.Port)
		if port.Name != "" {
			text = port.Name + " " + text
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
